"""Knows how an ASGI application is a bolt: each request with anchors is a tuple, and its answer ends it."""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

from acker_client import anchoring, flows
from acker_client.current import carry
from acker_client.errors import Misuse, WrongHeader

if TYPE_CHECKING:
    from acker_client.aio import AsyncAcker

__all__ = ["OPEN", "TUPLE", "AckerMiddleware"]

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

TUPLE = "acker.tuple"
"""Where the application finds the request's `Tuple` in its scope."""

OPEN = frozenset({301, 302, 303, 307, 308, 401, 407, 408, 421, 425, 429})
"""Answers that end nothing: the same request is to come again, here or elsewhere, with the same edge."""

_PARTS = frozenset({"http.response.body", "http.response.zerocopysend", "http.response.pathsend"})


class AckerMiddleware:
    """Takes the anchors of each request as a tuple of ``component``, and calls the application within it. ::

        app.add_middleware(AckerMiddleware, acker=acker, component="billing")

    When the application has returned, so behind streamed bodies and background tasks, the tuple is acked. It is failed,
    or left to be redelivered, as ``on_error`` says, if the application raised, answered 5xx or broke off its answer; an
    answer in `OPEN` leaves it open. The application may end it before that by itself. Within, `carry` holds.

    A request without the header is not tracked; one whose header cannot be read is answered 400. Other scopes than
    http pass. Raises `Misuse` for what is no component or no ``on_error``.
    """

    def __init__(
        self, app: Application, *, acker: "AsyncAcker", component: str, on_error: flows.OnError = "fail"
    ) -> None:
        acker.tuple(None, component=component)
        if on_error not in get_args(flows.OnError):
            raise Misuse(f"on_error must be 'fail' or 'redeliver', not {on_error!r}")
        self._app, self._acker, self._component, self._on_error = app, acker, component, on_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Within another of its kind it does nothing: that one ends the tuple."""
        if scope["type"] != "http" or TUPLE in scope:
            await self._app(scope, receive, send)
            return
        try:
            anchors = anchoring.read_anchors(scope["headers"], topology=self._acker.topology)
        except WrongHeader as fault:
            await _refuse(send, fault)
            return
        with suppress(_Failed, _StillOpen):
            await self._execute(anchors, scope, receive, _Answer(send))

    async def _execute(self, anchors: anchoring.Anchors, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        execute = self._acker.execute(anchors.headers(), component=self._component, on_error=self._on_error)
        async with execute as tuple_:
            scope[TUPLE] = tuple_  # no copy: middleware around this one looks there for the route, once it was found
            with carry(tuple_):
                await self._app(scope, receive, answer.send)
            answer.judge()


class _Failed(Exception):
    """The application has answered that it failed."""


class _StillOpen(BaseException):
    """The answer ends nothing; no `Exception`, so that an execute block sends nothing for it."""


class _Answer:
    """What the application has sent so far."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._whole = False

    async def send(self, event: Event) -> None:
        """Take note of an event, and send it."""
        if event["type"] == "http.response.start":
            self._status = event["status"]
        await self._send(event)
        if event["type"] in _PARTS and not event.get("more_body", False):
            self._whole = True

    def judge(self) -> None:
        """Raise what an answer that does not end the tuple well is to its execute block."""
        if self._status >= 500:
            raise _Failed(f"answered {self._status}")
        if not self._whole:
            raise _Failed("broke off its answer")  # Starlette returns in silence when the caller of a stream has gone
        if self._status in OPEN:
            raise _StillOpen


async def _refuse(send: Send, fault: WrongHeader) -> None:
    text = str(fault).encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": text})
