"""Receives the completions of a spout task by webhook, as an ASGI application."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any

from acker_protocol.errors import MEDIA_TYPE, InvalidRequest, MethodNotAllowed, ServiceError, TooLarge, Unauthorized
from acker_protocol.signature import TOLERANCE_S, secret_key, verify, verify_headers

from acker_client.completions import Completion, Handler, dispatch, parse_webhook
from acker_client.config import SYSTEM_CLOCK
from acker_client.errors import UsageError
from acker_client.integrations.asgi import Application, Receive, Scope, Send

if TYPE_CHECKING:
    from acker_client.config import Clock

MAX_BODY_BYTES = 8_388_608
"""More than 500 completions take, as many as an acker sends at once, with the longest message ids and reasons.

Each of these has up to 1,024 characters, which JSON writes in six bytes at most.
"""

_LENGTH_DIGITS = 18
"""Of the longest Content-Length that is read as a number."""

TIMEOUT_S = 20.0
"""Less than the acker waits for a response (30 s)."""

_log = logging.getLogger("acker_client")


class InvalidBatch(InvalidRequest):
    """The body was signed, and holds no completions that can be read here."""

    status = 400


def webhook_app(
    secrets: str | Sequence[str],
    handler: Callable[[Completion], Any] | None = None,
    *,
    on_ack: Handler | None = None,
    on_fail: Handler | None = None,
    timeout: float = TIMEOUT_S,
    tolerance: float = TOLERANCE_S,
    max_body_bytes: int = MAX_BODY_BYTES,
    clock: "Clock" = SYSTEM_CLOCK,
) -> Application:
    """Make an ASGI application that receives the completions of a spout task, at any path, to be mounted anywhere. ::

        app.mount("/completions", webhook_app(SECRET, on_ack=source.delete, on_fail=source.put_back))

    A request is accepted if it is signed with one of the ``secrets``. Then ``handler`` is called with each completion,
    one after the other; or ``on_ack`` and ``on_fail`` with the message id. A completion whose handler raised is asked
    for again, and so are all after a crash: a handler may get the same ``Completion.id`` twice. Coroutine functions
    run in the event loop (asyncio), others in a thread. Raises `UsageError`.

    A request whose timestamp is more than ``tolerance`` seconds from now, or that has more than ``max_body_bytes``, is
    refused; without reading its body where the headers show that it is not signed, or too long. Completions that are
    not handled after ``timeout`` seconds are asked for again: the acker would give up the whole request.
    """
    if (handler is None) == (on_ack is None and on_fail is None):
        raise UsageError("webhook_app takes either a handler, or on_ack and on_fail")
    in_loop = any(_is_async(function) for function in (handler, on_ack, on_fail) if function)
    handle: Callable[[Completion], Any] = handler or partial(dispatch, on_ack=on_ack, on_fail=on_fail)
    return Webhook(
        _checked(secrets),
        handle if in_loop else lambda completion: asyncio.to_thread(handle, completion),
        timeout=timeout,
        tolerance=tolerance,
        max_body_bytes=max_body_bytes,
        clock=clock,
    )


class Webhook:
    """The application: it answers problems, and 200 with the ids to send again."""

    def __init__(
        self,
        secrets: Sequence[str],
        handler: Callable[[Completion], Any],
        *,
        timeout: float,
        tolerance: float,
        max_body_bytes: int,
        clock: "Clock",
    ) -> None:
        self._secrets = secrets
        self._handler = handler
        self._timeout_s = timeout
        self._tolerance_s = tolerance
        self._max_body_bytes = max_body_bytes
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Speak ASGI 3."""
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = self._headers(scope)
            body = await self._body(receive)
            if body is None:
                return
            again = await self._handle(self._batch(headers, body))
        except ServiceError as error:
            await _send(send, error.status, MEDIA_TYPE, error.document())
        else:
            await _send(send, 200, "application/json", {"retry": again})

    def _headers(self, scope: Scope) -> dict[str, str]:
        """Read the headers, and refuse by them what nobody signed: anybody could have it read a long body.

        Raises `MethodNotAllowed`, `Unauthorized`, `TooLarge`.
        """
        if scope["method"] != "POST":
            raise MethodNotAllowed("completions come by POST")
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            verify_headers(headers, now=self._clock.time(), tolerance_s=self._tolerance_s)
        except ValueError as error:
            raise Unauthorized(str(error)) from None
        length = headers.get("content-length", "")
        if length.isdecimal() and (len(length) > _LENGTH_DIGITS or int(length) > self._max_body_bytes):
            raise self._too_large()
        return headers

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body has more than {self._max_body_bytes} bytes")

    async def _body(self, receive: Receive) -> bytes | None:
        """Read the body; None if the caller has disconnected. Raises `TooLarge`."""
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._max_body_bytes:
                raise self._too_large()
        return bytes(body)

    def _batch(self, headers: dict[str, str], body: bytes) -> tuple[Completion, ...]:
        """Verify and read the body. Raises `Unauthorized`, `InvalidBatch`."""
        try:
            verify(self._secrets, headers, body, now=self._clock.time(), tolerance_s=self._tolerance_s)
        except ValueError as error:
            raise Unauthorized(str(error)) from None
        try:
            return parse_webhook(body)
        except ValueError as error:
            raise InvalidBatch(str(error)) from None

    async def _handle(self, batch: Sequence[Completion]) -> list[str]:
        """Call the handler with each; give the ids of those to send again."""
        until = time.monotonic() + self._timeout_s
        return [
            completion.id for completion in batch if time.monotonic() >= until or not await self._handled(completion)
        ]

    async def _handled(self, completion: Completion) -> bool:
        try:
            result = self._handler(completion)
            # A function that ran in a thread may leave something to await.
            while isawaitable(result):
                result = await result
        except Exception:  # noqa: BLE001 - whatever a handler raises, the others are called
            _log.exception("the handler of completion %s (message id %r) raised", completion.id, completion.message_id)
            return False
        return True


def _checked(secrets: str | Sequence[str]) -> tuple[str, ...]:
    given = (secrets,) if isinstance(secrets, str) else tuple(secrets)
    if not given:
        raise UsageError("webhook_app needs the secret of the webhook")
    for secret in given:
        try:
            secret_key(secret)
        except ValueError as error:
            raise UsageError(f"the secret of a webhook {error}") from None
    return given


def _is_async(function: Callable[..., Any]) -> bool:
    # Of an object that is called, its method decides.
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


async def _lifespan(receive: Receive, send: Send) -> None:
    """Answer the lifespan events of a server that runs this application alone; there is nothing to start or stop."""
    for event in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{event}.complete"})


async def _send(send: Send, status: int, media_type: str, document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    headers = [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode())]
    if status == MethodNotAllowed.status:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
