"""Lets the requests of an ASGI application begin roots: it answers 202 and a status, or waits for the end."""

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from inspect import isawaitable
from secrets import token_bytes
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from acker_protocol.errors import ServiceError, UnknownRoot
from acker_protocol.operations import Outcome

from acker_client._core import validate
from acker_client.errors import AckerError, UsageError
from acker_client.integrations._status_token import HANDLE_BYTES, ExpiredToken, InvalidToken, StatusTokens
from acker_client.integrations.asgi import Application, Event, Receive, Scope, Send
from acker_client.propagate import use

if TYPE_CHECKING:
    from acker_client.asyncio.client import AsyncAcker
    from acker_client.asyncio.spout import AsyncSpout
    from acker_client.completions import Completion

__all__ = ["ROOT_KEY", "SpoutMiddleware"]

ROOT_KEY = "acker.root"
"""Where the application finds the request's root in its scope."""

STATUS_WAITS = range(51)
"""What ``max_status_waits`` may be: half of a client's connections remain for its inits, acks and completions."""

RETRY_DELAY_S = 1.0
"""How long to wait before completions are read again after an error."""

_STATUSES = {Outcome.ACKED: 200, Outcome.FAILED: 500, Outcome.TIMED_OUT: 504}
_BUSY = frozenset({429, 503})
_WAIT = re.compile(r'(?:^|[,;\s])wait\s*=\s*"?(\d{1,9})"?', re.IGNORECASE)

_log = logging.getLogger("acker_client")

Headers = list[tuple[bytes, bytes]]


class SpoutMiddleware:
    """Emits a root for each request, and answers 202 with the address of the root's status. ::

        app.add_middleware(SpoutMiddleware, acker=acker, spout="orders", secret=SECRET, status_path="/status")

    The root is current while the application runs, and is in ``scope[ROOT_KEY]``. When the application has answered 2xx
    and returned, the init is sent, then the answer: with status 202 and ``Location``; or, where the request has
    ``Prefer: wait=5`` and the tree is done within 5 seconds, with 200, and 500 or 504 if it failed or timed out. Any
    other answer passes as it is, and no init is sent.

    ``GET`` of the location gives the state, also of roots that another process emitted with the same ``secret``; 410
    when it is no longer remembered. The location tells no root id. A ``GET`` that waits has one of the client's
    connections: at most ``max_status_waits`` wait, those of other middleware with the same client included; any more
    are answered at once. ``secret`` are 16 random characters or more, or several such: the first signs, all are
    accepted. ``message_id`` gives the message id of a request by its scope, else it is random. ``on_completed`` is
    called with each completion of a root that this process emitted, perhaps more than once. Only ``methods`` begin
    roots. Times are in seconds. Raises `UsageError`.
    """

    def __init__(
        self,
        app: Application,
        *,
        acker: "AsyncAcker",
        spout: str,
        secret: str | Sequence[str],
        status_path: str = "/status",
        message_id: Callable[[Scope], str] | None = None,
        on_completed: "Callable[[Completion], Any] | None" = None,
        methods: Collection[str] = frozenset({"POST", "PUT", "PATCH", "DELETE"}),
        message_timeout: float | None = None,
        max_wait: float = 30.0,
        max_status_waits: int = 20,
        token_lifetime: float = 3_600.0,
    ) -> None:
        if not status_path.startswith("/") or status_path.endswith("/"):
            raise UsageError(f"status_path must begin with a slash and not end with one, not {status_path!r}")
        validate.number("max_wait", max_wait)
        validate.number("token_lifetime", token_lifetime)
        if type(max_status_waits) is not int or max_status_waits not in STATUS_WAITS:
            words = f"a whole number from {STATUS_WAITS.start} to {STATUS_WAITS.stop - 1}"
            raise validate.wrong("max_status_waits", words, max_status_waits)
        self._app = app
        self._acker = acker
        self._methods = methods
        self._spout_name = validate.name("the spout's name", spout)
        self._tokens = StatusTokens(secret, topology=acker.topology, lifetime_s=token_lifetime)
        self._status_prefix = f"{status_path}/"
        self._max_wait_s = max_wait
        self._max_status_waits = max_status_waits
        self._status_waits = _status_waits.setdefault(acker, _StatusWaits())
        self._message_id = message_id or (lambda _: uuid.uuid4().hex)
        self._on_completed = on_completed
        self._message_timeout = message_timeout
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a status, emit a root for one that begins work, and pass all else."""
        if scope["type"] == "lifespan":
            await self._app(scope, self._stopping_at_shutdown(receive), send)
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (path := _path(scope)).startswith(self._status_prefix):
            await self._answer_status(path.removeprefix(self._status_prefix), scope, send)
        elif scope["method"] in self._methods:
            await self._emit(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _emit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application in the emit block of a root, and hold its answer until the init is answered."""
        response = _HeldResponse(send)
        wait_s = min(_preferred_wait(scope["headers"]), self._max_wait_s)
        root_id, in_application = "", False
        try:
            emitting = self._spout().emit(self._message_id(scope), message_timeout=self._message_timeout)
            async with emitting as root:
                root_id = root.root_id
                if wait_s:
                    self._waiting[root_id] = asyncio.get_running_loop().create_future()
                scope[ROOT_KEY] = root
                in_application = True
                with use(root):
                    await self._app(scope, receive, response.send)
                in_application = False
                response.raise_unless_held()
            await self._answer_begun(root_id, scope, response, wait_s=wait_s)
        except _Answered:
            pass
        except AckerError as error:
            if in_application or response.started:
                raise
            await _send_problem(send, error)
        finally:
            self._waiting.pop(root_id, None)

    def _spout(self) -> "AsyncSpout":
        """Return the spout task of this process: a server may have made the middleware before it forked."""
        return self._acker.spout(self._spout_name)

    async def _answer_begun(self, root_id: str, scope: Scope, response: "_HeldResponse", *, wait_s: float) -> None:
        """Send the application's answer, after waiting for the tree if the request prefers that."""
        self._start_reader()
        outcome = await self._outcome(root_id, wait_s)
        token = self._tokens.make(root_id, handle=token_bytes(HANDLE_BYTES), now_s=time.time())
        location = f"{scope.get('root_path', '')}{self._status_prefix}{token}"
        headers = [(b"location", location.encode())]
        if wait_s:
            headers.append((b"preference-applied", f"wait={wait_s:g}".encode()))
        if outcome in (None, Outcome.ACKED):
            await response.release(202 if outcome is None else 200, headers)
        else:
            await _send_json(response.send_now, _STATUSES[outcome], _document(outcome), headers)

    async def _outcome(self, root_id: str, wait_s: float) -> Outcome | None:
        if root_id not in self._waiting:
            return None
        with suppress(TimeoutError):
            return await asyncio.wait_for(self._waiting[root_id], wait_s)
        return None

    async def _answer_status(self, token: str, scope: Scope, send: Send) -> None:
        """Answer with the state of a root; a token says which, and that the caller may know."""
        if scope["method"] not in ("GET", "HEAD"):
            await _send_json(send, 405, {"error": "only GET"}, [(b"allow", b"GET, HEAD")])
            return
        preferred_s = min(_preferred_wait(scope["headers"]), self._max_wait_s)
        try:
            root_id = self._tokens.read(token, now_s=time.time())
            with self._status_waits.limited(preferred_s, most=self._max_status_waits) as wait_s:
                root = await self._acker.roots.get(root_id, wait=wait_s)
        except InvalidToken:
            await _send_json(send, 404, {"error": "there is no such status"})
        except (ExpiredToken, UnknownRoot):
            await _send_json(send, 410, {"error": "the end of this request is no longer remembered"})
        except AckerError as error:
            await _send_problem(send, error)
        else:
            later: Headers = [] if root.outcome else [(b"retry-after", b"1")]
            await _send_json(send, 200, _document(root.outcome), later, head=scope["method"] == "HEAD")

    def _start_reader(self) -> None:
        """Read the completions of this process: its mailbox would fill up, and waiting requests get theirs from it."""
        if self._reader is None or self._reader.done():
            self._reader = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        spout = self._spout()
        while True:
            try:
                async for completion in spout.completions():
                    await self._complete(completion)
            except Exception:  # noqa: BLE001 - it is logged, and the mailbox must be read on
                _log.exception("completions of %s could not be handled; they come again", spout.name)
                await asyncio.sleep(RETRY_DELAY_S)

    async def _complete(self, completion: "Completion") -> None:
        waiting = self._waiting.get(completion.root_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(completion.outcome)
        if self._on_completed is not None:
            handled = self._on_completed(completion)
            if isawaitable(handled):
                await handled

    def _stopping_at_shutdown(self, receive: Receive) -> Receive:
        async def stopping() -> Event:
            event = await receive()
            if event["type"] == "lifespan.shutdown" and self._reader is not None:
                self._reader.cancel()
                await asyncio.gather(self._reader, return_exceptions=True)
            return event

        return stopping


class _StatusWaits:
    """Counts the requests for a status that wait, each on one of the connections of a client."""

    def __init__(self) -> None:
        self._waiting = 0

    @contextmanager
    def limited(self, preferred_s: float, *, most: int) -> Iterator[float]:
        """Yield how many seconds a request may wait: what it prefers, or 0 where ``most`` wait already."""
        if preferred_s <= 0 or self._waiting >= most:
            yield 0.0
            return
        self._waiting += 1
        try:
            yield preferred_s
        finally:
            self._waiting -= 1


_status_waits: "WeakKeyDictionary[AsyncAcker, _StatusWaits]" = WeakKeyDictionary()
"""One count for all middleware of one client."""


class _Answered(Exception):
    """The application's answer has been sent: it begins nothing."""


class _HeldResponse:
    """An answer of the application: one of 2xx is held, any other is sent at once."""

    def __init__(self, send: Send) -> None:
        self.send_now = send
        self.started = False
        self._held: list[Event] = []

    async def send(self, event: Event) -> None:
        """Hold an event, or send it."""
        if event["type"] == "http.response.start" and not 200 <= event["status"] < 300:
            self.started = True
        if self.started:
            await self.send_now(event)
        else:
            self._held.append(event)

    def raise_unless_held(self) -> None:
        """Leave the emit block without an init if the answer was sent, or there is none."""
        if self.started or not self._held:
            raise _Answered

    async def release(self, status: int, headers: Headers) -> None:
        """Send what was held, with this status and further headers."""
        self.started = True
        for event in self._held:
            if event["type"] == "http.response.start":
                event = dict(event) | {"status": status, "headers": [*event.get("headers", ()), *headers]}  # noqa: PLW2901
            await self.send_now(event)


def _path(scope: Scope) -> str:
    """Return the path within the application: servers differ in whether it has the ``root_path``."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _preferred_wait(headers: Iterable[tuple[bytes, bytes]]) -> float:
    """Read ``wait`` of the header Prefer (RFC 7240), 0 without it."""
    values = (value.decode("latin-1") for name, value in headers if name.lower() == b"prefer")
    found = next(filter(None, map(_WAIT.search, values)), None)
    return float(found[1]) if found else 0.0


def _document(outcome: Outcome | None) -> dict[str, str]:
    return {"state": "pending"} if outcome is None else {"state": "finished", "outcome": outcome}


async def _send_problem(send: Send, error: AckerError) -> None:
    """Answer that the acker takes no roots now; 503 unless it says 429."""
    _log.warning("a request is refused, since the acker takes no root: %s", error)
    status = error.status if isinstance(error, ServiceError) and error.status in _BUSY else 503
    await _send_json(send, status, {"error": "try again later"}, [(b"retry-after", b"1")])


async def _send_json(
    send: Callable[[Event], Awaitable[None]],
    status: int,
    document: dict[str, str],
    headers: Headers | None = None,
    *,
    head: bool = False,
) -> None:
    body = json.dumps(document).encode()
    own = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    all_headers = [*own, (b"cache-control", b"no-store"), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": b"" if head else body})
