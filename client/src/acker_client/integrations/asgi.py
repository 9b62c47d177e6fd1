"""Makes an ASGI application a bolt: each request with anchors is a tuple, and its response ends it."""

import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from acker_protocol.anchors_signature import check_signature

from acker_client._core import validate
from acker_client.errors import InvalidHeader, InvalidSignature

if TYPE_CHECKING:
    from acker_client.asyncio.client import AsyncAcker
    from acker_client.config import OnError
    from acker_client.tuple import AsyncTuple

__all__ = ["RETRY_STATUSES", "SCOPE_KEY", "AckerMiddleware"]

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SCOPE_KEY = "acker.tuple"
"""Where the application finds the request's tuple in its scope."""

RETRY_STATUSES = frozenset({301, 302, 303, 307, 308, 401, 407, 408, 421, 425, 429})
"""Statuses that leave the tuple open: the same request is to come again, here or elsewhere, with the same edge."""

_BODY_EVENTS = frozenset({"http.response.body", "http.response.zerocopysend", "http.response.pathsend"})


class AckerMiddleware:
    """Receives the anchors of each request as a tuple of ``component``, current while the application runs. ::

        app.add_middleware(AckerMiddleware, acker=acker, component="billing")

    When the application has returned, so after streamed bodies and background tasks, the tuple is acked. It is failed,
    or left open, as ``on_error`` says, if the application raised, answered 5xx or broke off its response; a status in
    `RETRY_STATUSES` leaves it open. The application may end it before that by itself.

    A request without the header is not tracked; one whose header cannot be read is answered 400. Other scopes than
    http pass.

    With a ``secret``, 16 random characters or more, the header needs proof that the caller has it too. ``inject`` and
    the hooks of httpx add this proof; a request without it is answered 403. To change the secret, pass the old and the
    new one for a while: either of them is taken. Where one middleware stands within another, each asks for proof of
    its own secret. Raises `UsageError` for an invalid component, ``on_error`` or secret.
    """

    def __init__(
        self,
        app: Application,
        *,
        acker: "AsyncAcker",
        component: str,
        on_error: "OnError" = "fail",
        secret: str | Sequence[str] | None = None,
    ) -> None:
        validate.one_of("on_error", on_error, "fail", "leave_open")
        self._component = validate.name("component", component)
        self._app = app
        self._acker = acker
        self._on_error = on_error
        self._keys = None if secret is None else validate.secrets("secret", secret)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Within another middleware of its kind it asks for proof only: that one ends the tuple."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            tup = self._receive(scope)
        except InvalidHeader as error:
            await _refuse(send, error, status=403 if isinstance(error, InvalidSignature) else 400)
            return
        if tup is None:
            await self._app(scope, receive, send)
            return
        with suppress(_Failed, _LeftOpen):
            await self._process(tup, scope, receive, _Response(send))

    def _receive(self, scope: Scope) -> "AsyncTuple | None":
        """Receive the tuple of a request; None where another middleware has received it. Raises `InvalidHeader`."""
        if self._keys is not None:
            check_signature(self._keys, scope["headers"], now_s=time.time())
        if SCOPE_KEY in scope:
            return None
        return self._acker.receive(scope["headers"], component=self._component, on_error=self._on_error)

    async def _process(self, tup: "AsyncTuple", scope: Scope, receive: Receive, response: "_Response") -> None:
        async with tup:
            scope[SCOPE_KEY] = tup  # no copy: middleware around this one looks there for the route, once it was found
            await self._app(scope, receive, response.send)
            response.raise_unless_complete()


class _Failed(Exception):
    """The application has answered that it failed."""


class _LeftOpen(BaseException):
    """The response leaves the tuple open; no `Exception`, so that the tuple's block sends nothing for it."""


class _Response:
    """What the application has sent so far."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._complete = False

    async def send(self, event: Event) -> None:
        """Send an event, and remember the status and whether the body is complete."""
        if event["type"] == "http.response.start":
            self._status = event["status"]
        await self._send(event)
        if event["type"] in _BODY_EVENTS and not event.get("more_body", False):
            self._complete = True

    def raise_unless_complete(self) -> None:
        """Raise in the tuple's block what a response means that does not ack it."""
        if self._status >= 500:
            raise _Failed(f"answered {self._status}")
        if not self._complete:
            raise _Failed("broke off its answer")  # Starlette returns in silence when the caller of a stream has gone
        if self._status in RETRY_STATUSES:
            raise _LeftOpen


async def _refuse(send: Send, error: InvalidHeader, *, status: int) -> None:
    text = str(error).encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
