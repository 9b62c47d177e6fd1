"""Stands between a client and the acker, reads each request, and does to it what networks and busy servers do."""

import contextlib
import http.client
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from acker_protocol.errors import known
from acker_protocol.wire.operations import VERBS, decode_batch, decode_json, decode_operation, encode_operation
from acker_protocol.wire.packed import CONTENT_TYPE, decode_packed

PATIENCE_S = 100.0
"""Longer than the acker lets a long poll wait."""

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "http2-settings", "host", "te"})
"""Headers that are of one connection only."""

Fate = Literal["pass", "delay", "duplicate", "lose", "tear", "cut", "freeze", "answer", "refuse"]

STORM: tuple["Fault", ...]
"""What befalls the requests of a scenario that is played in a storm, one after the other and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which requests: of a method, with this end of the path, or with an operation of this kind; None: any."""

    method: str | None = None
    path: str | None = None
    operation: str | None = None

    def fits(self, passed: "Passed") -> bool:
        """Whether a request is one of them."""
        return (
            self.method in (None, passed.method)
            and (self.path is None or passed.path.partition("?")[0].endswith(self.path))
            and (self.operation is None or any(each["op"] == self.operation for each in passed.operations))
        )


@dataclass(slots=True, kw_only=True)
class Fault:
    """What becomes of the next ``times`` requests that fit, after ``skip`` others.

    ``delay`` waits ``ms`` first; ``duplicate`` sends it twice, and gives the second answer; ``lose`` sends it, and ends
    the connection without an answer; ``tear`` gives half of the answer; ``cut`` ends the connection before anything is
    sent; ``freeze`` holds it until `FaultProxy.thaw`; ``answer`` answers ``status`` and ``body``, or the problem of
    ``code``; ``refuse`` answers each operation with the state ``code``. With ``applied`` the request is sent before it
    is answered so, with ``held`` it is answered so after `FaultProxy.thaw`.
    """

    fate: Fate
    on: Match = field(default_factory=Match)
    times: int = 1
    skip: int = 0
    ms: int = 0
    status: int = 503
    code: str | None = None
    retryable: bool | None = None
    body: Any = None
    retry_after_s: int | None = None
    applied: bool = False
    held: bool = False


@dataclass(slots=True, kw_only=True)
class Passed:
    """A request that came, when, and what became of it; ``answered`` once all of the acker's answer was passed on."""

    method: str
    path: str
    key: str | None
    authorization: str | None
    body: bytes
    operations: list[dict[str, Any]]
    at: float
    fate: str = "pass"
    answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of the acker, or one in its place."""

    status: int
    headers: dict[str, str]
    body: bytes


class FaultProxy:
    """A proxy to the acker on a port of this machine."""

    def __init__(self, acker_port: int) -> None:
        self._acker_port = acker_port
        self._lock = threading.Lock()
        self._thawed = threading.Event()
        self._faults: list[Fault] = []
        self._weather: Iterator[Fault] = itertools.repeat(Fault(fate="pass"))
        self.requests: list[Passed] = []
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def reset(self, *, storm: bool) -> None:
        """Forget the faults and requests of the scenario before."""
        self.thaw()
        with self._lock:
            self._faults, self.requests = [], []
            self._weather = itertools.cycle(STORM) if storm else itertools.repeat(Fault(fate="pass"))

    def befall(self, weather: Iterator[Fault]) -> None:
        """Let these befall all requests that no fault of `add` fits, one after the other."""
        with self._lock:
            self._weather = weather

    def add(self, fault: Fault) -> None:
        """Let this befall the requests that fit, from now on."""
        self._thawed.clear()
        with self._lock:
            self._faults.append(fault)

    def thaw(self) -> None:
        """Let all go on that is frozen, and end all faults."""
        with self._lock:
            self._faults.clear()
        self._thawed.set()

    def serve(self) -> None:
        """Serve until `stop`."""
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        """End."""
        self._thawed.set()
        self._server.shutdown()
        self._server.server_close()

    def take(self, passed: Passed) -> Fault:
        """Note a request, and choose what becomes of it."""
        with self._lock:
            self.requests.append(passed)
            fault = self._choose(passed)
            passed.fate = fault.fate
            return fault

    def wait_for_thaw(self) -> None:
        """Hold a request."""
        self._thawed.wait(PATIENCE_S)

    def ask(self, passed: Passed, headers: dict[str, str]) -> Answer:
        """Send a request to the acker."""
        connection = http.client.HTTPConnection("127.0.0.1", self._acker_port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(passed.method, passed.path, body=passed.body or None, headers=headers)
            response = connection.getresponse()
            kept = {name: value for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP}
            return Answer(status=response.status, headers=kept, body=response.read())

    def _choose(self, passed: Passed) -> Fault:
        for fault in self._faults:
            if fault.on.fits(passed):
                if fault.skip:
                    fault.skip -= 1
                    return Fault(fate="pass")
                fault.times -= 1
                if not fault.times:
                    self._faults.remove(fault)
                return fault
        return next(self._weather)


class _Server(ThreadingHTTPServer):
    """Serves each connection in a thread of its own."""

    daemon_threads = True

    def __init__(self, proxy: FaultProxy) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    server: "_Server"
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Serve until the client has closed the connection, or was killed."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def answer(self) -> None:
        """Read a request, and do what becomes of it."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        passed = Passed(
            method=self.command,
            path=self.path,
            key=self.headers.get("Idempotency-Key"),
            authorization=self.headers.get("Authorization"),
            body=body,
            operations=_operations(self.path, self.headers.get("Content-Type", ""), body),
            at=time.monotonic(),
        )
        try:
            self._bring_about(self.server.proxy.take(passed), passed)
        except OSError:  # the client has gone
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - the names that http.server looks for

    def _bring_about(self, fault: Fault, passed: Passed) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        if fault.fate == "cut":
            self._end()
            return
        if fault.fate == "delay":
            time.sleep(fault.ms / 1000)
        if fault.fate == "freeze" or fault.held:
            self.server.proxy.wait_for_thaw()
        if fault.fate in ("answer", "refuse"):
            if fault.applied:
                self.server.proxy.ask(passed, headers)
            self._send(_answer(fault, passed))
            return
        if fault.fate == "duplicate":
            self.server.proxy.ask(passed, headers)
        answer = self.server.proxy.ask(passed, headers)
        if fault.fate != "lose":
            self._send(answer, torn=fault.fate == "tear")
            passed.answered = fault.fate != "tear"
        if fault.fate in ("lose", "tear"):
            self._end()

    def _send(self, answer: Answer, *, torn: bool = False) -> None:
        self.send_response_only(answer.status)
        headers = {"Content-Length": str(len(answer.body)) if not torn else str(len(answer.body) + 1)}
        others = {name: value for name, value in answer.headers.items() if name.lower() != "content-length"}
        for name, value in (others | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body[: len(answer.body) // 2] if torn else answer.body)
        self.wfile.flush()

    def _end(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _answer(fault: Fault, passed: Passed) -> Answer:
    headers = {} if fault.retry_after_s is None else {"Retry-After": str(fault.retry_after_s)}
    if fault.fate == "refuse" and passed.path.endswith("/batch"):
        states = [fault.code] * len(passed.operations)
        return _json(200, {"accepted": 0, "results": states}, headers)
    if fault.code is not None:
        error = known()[fault.code]("made up by the proxy", retryable=fault.retryable)
        status = error.status if fault.fate == "refuse" else fault.status
        return _json(status, error.document(), headers, "application/problem+json")
    if isinstance(fault.body, str):
        return Answer(status=fault.status, headers=headers | {"Content-Type": "text/html"}, body=fault.body.encode())
    return _json(fault.status, fault.body, headers)


def _json(status: int, document: Any, headers: dict[str, str], kind: str = "application/json") -> Answer:
    body = b"" if document is None else json.dumps(document).encode()
    return Answer(status=status, headers=headers | {"Content-Type": kind}, body=body)


def _operations(path: str, kind: str, body: bytes) -> list[dict[str, Any]]:
    """Read the operations of a request, in the compact form of JSON; none of any other request."""
    verb = path.partition("?")[0].rpartition("/")[2]
    if verb == "batch":
        decode = decode_packed if kind == CONTENT_TYPE else _decode_json_batch
        return [encode_operation(each) for each in decode(body, max_operations=10_000)]
    if verb in VERBS and body:
        return [encode_operation(decode_operation(verb, decode_json(body)))]
    return []


def _decode_json_batch(body: bytes, *, max_operations: int) -> list[Any]:
    return decode_batch(decode_json(body), max_operations=max_operations)


STORM = (
    Fault(fate="pass"),
    Fault(fate="lose"),
    Fault(fate="pass"),
    Fault(fate="duplicate"),
    Fault(fate="answer", status=503, code="overloaded"),
    Fault(fate="pass"),
    Fault(fate="cut"),
    Fault(fate="delay", ms=30),
    Fault(fate="answer", status=429, code="overloaded"),
    Fault(fate="tear"),
    Fault(fate="answer", status=500, body="<h1>Internal Server Error</h1>", applied=True),
)


@contextlib.contextmanager
def fault_proxy(acker_port: int) -> Iterator[FaultProxy]:
    """Stand before an acker until the block is left."""
    proxy = FaultProxy(acker_port)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join()
