"""Knows the receiver of a webhook, as an ASGI application."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypedDict, Unpack

from acker_protocol.errors import MEDIA_TYPE, InvalidRequest, MethodNotAllowed, ServiceError, TooLarge, Unauthorized
from acker_protocol.signature import TOLERANCE_S, secret_key, verify

from acker_client.asgi import Application, Receive, Scope, Send
from acker_client.completions import Done, Handler, read_batch, tell
from acker_client.errors import Misuse

MAX_BODY_BYTES = 16_777_216
"""More than 500 completions with the longest message ids and reasons take."""

WITHIN_S = 20.0
"""Less than the acker waits for an answer (30 s)."""

_log = logging.getLogger(__name__)


class WrongBatch(InvalidRequest):
    """The body was signed, and holds no completions that can be read here."""

    status = 400


class Receiving(TypedDict, total=False):
    """How completions are received.

    A request whose timestamp is more than ``tolerance_s`` from now, or that has more than ``max_body_bytes``, is
    refused. Completions that have not had their turn after ``within_s`` are asked for again: the acker would give the
    whole request up. ``clock`` gives Unix seconds.
    """

    tolerance_s: float
    max_body_bytes: int
    within_s: float
    clock: Callable[[], float]


def webhook_app(
    secrets: str | Sequence[str],
    handler: Callable[[Done], Any] | None = None,
    *,
    on_ack: Handler | None = None,
    on_fail: Handler | None = None,
    **receiving: Unpack[Receiving],
) -> Application:
    """Make an ASGI application that receives the completions of a spout task, at any path, to be mounted anywhere. ::

        app.mount("/completions", webhook_app(SECRET, on_ack=source.delete, on_fail=source.put_back))

    A request is accepted if it is signed with one of the ``secrets``. Then ``handler`` is called with each completion,
    one after the other; or ``on_ack`` and ``on_fail`` with the message id. A completion whose handler raised is asked
    for again, so are those after a crash: handlers are to be ready for the same ``Done.id`` twice. Coroutine functions
    run in the event loop (asyncio), others in a thread. Raises `Misuse`.
    """
    if (handler is None) == (on_ack is None and on_fail is None):
        raise Misuse("webhook_app takes either a handler, or on_ack and on_fail")
    in_loop = any(_is_async(function) for function in (handler, on_ack, on_fail) if function)
    told: Callable[[Done], Any] = handler or partial(tell, on_ack=on_ack, on_fail=on_fail)
    return Webhook(_checked(secrets), told if in_loop else lambda done: asyncio.to_thread(told, done), receiving)


class Webhook:
    """The application: it answers problems, and 200 with the ids to send again."""

    def __init__(self, secrets: Sequence[str], handler: Callable[[Done], Any], receiving: Receiving) -> None:
        self._secrets, self._handler = secrets, handler
        self._tolerance_s = receiving.get("tolerance_s", TOLERANCE_S)
        self._max_body_bytes = receiving.get("max_body_bytes", MAX_BODY_BYTES)
        self._within_s = receiving.get("within_s", WITHIN_S)
        self._clock = receiving.get("clock", time.time)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Speak ASGI 3."""
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._body(scope, receive)
            if body is None:
                return
            again = await self._handle(self._batch(scope, body))
        except ServiceError as problem:
            await _send(send, problem.status, MEDIA_TYPE, problem.document())
        else:
            await _send(send, 200, "application/json", {"retry": again})

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Read the body; None: the caller is gone. Raises `MethodNotAllowed`, `TooLarge`."""
        if scope["method"] != "POST":
            raise MethodNotAllowed("completions come by POST")
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._max_body_bytes:
                raise TooLarge(f"the body has more than {self._max_body_bytes} bytes")
        return bytes(body)

    def _batch(self, scope: Scope, body: bytes) -> tuple[Done, ...]:
        """Read what was signed. Raises `Unauthorized`, `WrongBatch`."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            verify(self._secrets, headers, body, now=self._clock(), tolerance_s=self._tolerance_s)
        except ValueError as fault:
            raise Unauthorized(str(fault)) from None
        try:
            return read_batch(body)
        except ValueError as fault:
            raise WrongBatch(str(fault)) from None

    async def _handle(self, batch: Sequence[Done]) -> list[str]:
        """Call the handler with each; give the ids of those that are to come again."""
        until = time.monotonic() + self._within_s
        return [done.id for done in batch if time.monotonic() >= until or not await self._took(done)]

    async def _took(self, done: Done) -> bool:
        try:
            told = self._handler(done)
            # A function that ran in a thread may leave something to await.
            while isawaitable(told):
                told = await told
        except Exception:  # noqa: BLE001 - whatever a handler raises, the others have their turn
            _log.exception("the handler of completion %s (message id %r) raised", done.id, done.message_id)
            return False
        return True


def _checked(secrets: str | Sequence[str]) -> tuple[str, ...]:
    given = (secrets,) if isinstance(secrets, str) else tuple(secrets)
    if not given:
        raise Misuse("webhook_app needs the secret of the webhook")
    for secret in given:
        try:
            secret_key(secret)
        except ValueError as fault:
            raise Misuse(f"the secret of a webhook {fault}") from None
    return given


def _is_async(function: Callable[..., Any]) -> bool:
    # Of an object that is called, the method says it.
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


async def _live(receive: Receive, send: Send) -> None:
    """Take part in the life of a server that runs this application alone: there is nothing to start or stop."""
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
