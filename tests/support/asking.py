"""Asks ackers what the rows of a table say, over HTTP or by plain ASGI, and tells all that comes of it.

The root ids and the topology that a row names are replaced by new ones of the same length each time that it is asked,
and stand in what it tells as the row names them: so a row may be asked again and again, in any order.
"""

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from starlette.types import ASGIApp, Message

from tests.support.waiting import eventually

Document = dict[str, Any]

ROOTS = tuple(f"{0xA0 + digit:016x}" for digit in range(1, 10))
"""The root ids that rows may name: a1, a2 and so on, in hex digits or in the eight bytes of the packed form."""
FRESH = "fresh-0000"
"""The topology of a row that needs one for itself."""
_DELETION = f"/v1/topologies/{FRESH}?force=true&discard=true"
ADMIN = "admin"
"""A key that may do everything, where keys are configured."""

_COUNTED = {
    "acker_requests": "{method} {route} {status}",
    "acker_problems": "problem {code}",
    "acker_operations": "{operation} {state} in {topology}",
    "acker_operations_repeated": "{operation} repeated in {topology}",
    "acker_overloaded": "overloaded: {reason}",
    "acker_heads_refused": "head refused: {code}",
}
"""The counters that are told of, and how."""
_TIMED = "acker_request_seconds_count"
_SAMPLE = re.compile(rf"^({'|'.join([*_COUNTED, _TIMED])})(?:_total)?\{{(.*)\}} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_OWN_ROUTES = ("/livez", "/metrics", "/openapi.json", "/v1/topologies/{topology}/roots/{root_id}")
"""Routes that are asked beside a row."""
TIMEOUT_S = 30.0
_LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
_TIMES = frozenset({"age_ms", "at_ms", "deadline_at_ms", "last_ack_at_ms"})
_MADE_ID = re.compile(r"[0-9a-f]{16}")
_DATE = re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")
_TOPOLOGY = re.compile(r"/v1/topologies/([\w.-]+)/", re.ASCII)
_ADDED_BY_SERVER = ("connection: ", "date: ")

_numbers = itertools.count(1)


class Sends(StrEnum):
    """How much of its body a client sends: all; nothing; a part, and then it closes; a part, and then it waits."""

    WHOLE = "whole"
    WITHHELD = "withheld"
    CUT = "cut"
    LATE = "late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A request that comes before that of a row, by somebody who may do everything; ``key`` is its idempotency key.

    With ``until`` it is sent again and again with new names, until its status is this one.
    """

    path: str
    method: str = "POST"
    document: Any = None
    key: str | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A request, and what comes before it.

    ``target`` is the path with the query. A ``Content-Length`` is added to the headers unless the row is chunked or
    says another ``length`` ("": none). Each part of the body is sent by itself, as a chunk where the row is chunked.
    ``raw`` is the whole request instead, where it cannot be said otherwise.

    Before, the acker has got the steps ``given``, and the request itself as often as it is ``repeated``; then, in the
    ``meanwhile``, another acker on the same store gets some steps. ``held`` is the path of a request that is in flight
    during this one. ``changed`` says why the answer is not that of commit 7da1270, from which all others are.
    """

    name: str
    target: str
    acker: str = "open"
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    body: tuple[bytes, ...] = ()
    chunked: bool = False
    length: str | None = None
    sends: Sends = Sends.WHOLE
    version: str = "1.1"
    raw: bytes | None = None
    given: tuple[Step, ...] = ()
    repeated: int = 0
    meanwhile: tuple[Step, ...] = ()
    held: str = ""
    changed: str = ""

    @property
    def is_for_asgi(self) -> bool:
        """Whether plain ASGI can say it: what is no HTTP/1.1 has no scope."""
        return self.raw is None and self.version == "1.1"

    @property
    def all_headers(self) -> list[tuple[bytes, bytes]]:
        """All headers as they are sent."""
        framing: list[tuple[str, str]] = []
        if self.chunked:
            framing = [("Transfer-Encoding", "chunked")]
        elif self.length != "":
            framing = [("Content-Length", self.length or str(sum(map(len, self.body))))]
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (*self.headers, *framing)]


@dataclass(frozen=True, slots=True)
class Names:
    """Replaces the names of rows by new ones, and those by the names of rows."""

    number: int = field(default_factory=lambda: next(_numbers))

    def put(self, text: bytes) -> bytes:
        """Replace the names that stand in a row."""
        for old, new in self._pairs():
            text = text.replace(old, new)
        return text

    def take(self, text: bytes) -> bytes:
        """Replace what `put` has put."""
        for old, new in self._pairs():
            text = text.replace(new, old)
        return text

    def _pairs(self) -> list[tuple[bytes, bytes]]:
        pairs = [(FRESH.encode(), FRESH[:-4].encode() + b"%04d" % self.number)]
        for root in ROOTS:
            old, new = int(root, 16), 0x5EED << 48 | self.number << 8 | int(root, 16)
            pairs += [(b"%016x" % old, b"%016x" % new), (old.to_bytes(8), new.to_bytes(8))]
        return pairs


class Answers(Protocol):
    """A way to ask a row: gives status, headers and body, and whether the body was asked for."""

    async def __call__(self, row: Row, names: Names) -> Document: ...


class OverHttp:
    """Asks on connections to the servers of ackers."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = urls

    async def __call__(self, row: Row, names: Names) -> Document:
        """Send the request of a row byte by byte. Fails unless the connection ends or goes on as the answer says."""
        async with asyncio.timeout(TIMEOUT_S), _connected(self._urls[row.acker]) as connection:
            continued, body_is_due = await _send(connection, row, names)
            if row.sends is Sends.CUT:
                return {}
            status, headers, body = await connection.answer(row.method)
            if "connection: close" in headers:
                assert await connection.is_closed()
            elif not body_is_due:
                connection.send(_LIVEZ)
                assert (await connection.answer())[0] == 200, "the connection does not go on"
        return _told(status, headers, body, row, names) | ({"continued": True} if continued else {})


class _Connection:
    """A connection on which a row is sent byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._line = b""

    def send(self, *parts: bytes) -> None:
        self._writer.write(b"".join(parts))

    async def continues(self) -> bool:
        """Wait for the first line of what comes, and take it away if it says that the body may be sent."""
        self._line = await self._reader.readline()
        if not self._line.startswith(b"HTTP/1.1 100"):
            return False
        await self._reader.readline()
        self._line = b""
        return True

    async def answer(self, method: str = "GET") -> tuple[int, list[str], bytes]:
        """Read an answer to a request of this method: status, headers, body."""
        line, headers = self._line or await self._reader.readline(), list[str]()
        assert line.startswith(b"HTTP/1.1 "), f"the connection ended with {line!r}"
        self._line = b""
        while header := (await self._reader.readline()).rstrip(b"\r\n"):
            headers.append(header.decode("latin-1"))
        length = sum(int(header.split(":")[1]) for header in headers if header.startswith("content-length:"))
        return int(line.split()[1]), headers, b"" if method == "HEAD" else await self._reader.readexactly(length)

    async def is_closed(self) -> bool:
        """Send nothing more, and wait for the server to close."""
        try:
            self._writer.write_eof()
            return await self._reader.read() == b""
        except OSError:
            return True

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[_Connection]:
    address = urlsplit(url)
    connection = _Connection(*await asyncio.open_connection(address.hostname, address.port))
    try:
        yield connection
    finally:
        await connection.close()


async def _send(connection: _Connection, row: Row, names: Names) -> tuple[bool, bool]:
    """Send a request. Return whether the acker asked for its body by 100 Continue, and whether some is still due."""
    if row.raw is not None:
        connection.send(names.put(row.raw))
        return await connection.continues(), False
    head, parts = names.put(_head(row)), _parts(row, names)
    if row.sends is Sends.WITHHELD:
        connection.send(head)
        return False, True
    if row.sends is not Sends.WHOLE:
        connection.send(head, parts[0][: len(parts[0]) // 2])
        return False, True
    if _expects(row):
        connection.send(head)
        if not await connection.continues():
            return False, True
        connection.send(*parts)
        return True, False
    first, *others = parts or [b""]
    connection.send(head, first)
    for part in others:
        await asyncio.sleep(0)
        connection.send(part)
    return False, False


def _head(row: Row) -> bytes:
    lines = [f"{row.method} {row.target} HTTP/{row.version}".encode("latin-1"), b"Host: localhost"]
    return b"\r\n".join([*lines, *(name + b": " + value for name, value in row.all_headers), b"", b""])


def _expects(row: Row) -> bool:
    return any(name.lower() == "expect" and value.lower() == "100-continue" for name, value in row.headers)


def _parts(row: Row, names: Names) -> list[bytes]:
    """Return the parts of a body as they go over the wire."""
    parts = [names.put(part) for part in row.body]
    return [b"%x\r\n%b\r\n" % (len(part), part) for part in parts] + [b"0\r\n\r\n"] if row.chunked else parts


class OverAsgi:
    """Asks applications, as a server would that adds nothing of its own."""

    def __init__(self, apps: Mapping[str, ASGIApp]) -> None:
        self._apps = apps

    async def __call__(self, row: Row, names: Names) -> Document:
        """Return the request of a row to an application as ASGI has it."""
        target, _, query = row.target.partition("?")
        headers = [(name.lower(), value.strip(b" \t")) for name, value in [(b"host", b"localhost"), *row.all_headers]]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": row.version,
            "method": row.method,
            "scheme": "http",
            "path": unquote(names.put(target.encode("latin-1")).decode("latin-1")),
            "raw_path": names.put(target.encode("latin-1")),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "headers": headers,
        }
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        await self._apps[row.acker](scope, _receiver(row, names), send)
        if row.sends is Sends.CUT:
            return {}
        body = b"".join(message.get("body", b"") for message in sent[1:])
        given = [f"{name.decode('latin-1')}: {value.decode('latin-1')}" for name, value in sent[0]["headers"]]
        return _told(sent[0]["status"], given, b"" if row.method == "HEAD" else body, row, names)


def _receiver(row: Row, names: Names) -> Callable[[], Any]:
    """Make what an application receives of a request."""
    parts = [names.put(part) for part in row.body] or [b""]
    if row.sends in (Sends.CUT, Sends.LATE):
        parts = [parts[0][: len(parts[0]) // 2]]
    messages: list[Message] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if row.sends is Sends.WHOLE:
        messages[-1]["more_body"] = False
    messages.reverse()

    async def receive() -> Message:
        assert row.sends is not Sends.WITHHELD, "the body was asked for"
        if messages:
            return messages.pop()
        if row.sends is Sends.LATE:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    return receive


def without_server(told: Document) -> Document:
    """Leave out what a server adds to an answer of the application."""
    rest = {name: value for name, value in told.items() if name != "continued"}
    if "headers" in rest:
        rest["headers"] = [header for header in rest["headers"] if not header.startswith(_ADDED_BY_SERVER)]
    return rest


def _told(status: int, headers: Sequence[str], body: bytes, row: Row, names: Names) -> Document:
    """Tell an answer; of a date and of an id that was made their form, so that only their being there is told."""
    given = [value for name, value in row.headers if name.lower() == "x-request-id"]
    shown = []
    for header in headers:
        name, _, value = names.take(header.encode("latin-1")).decode("latin-1").partition(": ")
        if name == "date" and _DATE.fullmatch(value):
            value = "<date>"
        if name == "x-request-id" and value not in given and _MADE_ID.fullmatch(value):
            value = "<made>"
        shown.append(f"{name}: {value}")
    return {"status": status, "headers": sorted(shown), "body": _read_body(names.take(body))}


def _read_body(body: bytes) -> Any:
    """Return the JSON of a body if that is all it is, without a space; anything else as text."""
    try:
        document = json.loads(body)
    except ValueError:
        return body.decode("latin-1")
    return document if written(document).encode() == body else body.decode("latin-1")


def written(document: Any) -> str:
    """Write JSON as the acker does."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


class Asked:
    """Ackers on one store that rows are asked of; ``beside`` names for each the one that acts in the meanwhile."""

    def __init__(self, urls: Mapping[str, str], *, beside: Mapping[str, str]) -> None:
        self.urls = urls
        self._beside = beside
        self._counted: dict[str, dict[str, int]] = {}

    async def set_up(self, steps: Mapping[str, Sequence[Step]]) -> None:
        """Let ackers do what all rows rely on."""
        for acker, each in steps.items():
            await self._do_all(acker, each, Names())

    async def ask(self, row: Row, answers: Answers) -> Document:
        """Ask a row; tells the answer, what was counted for it, and what the roots that it names are afterwards."""
        names = Names()
        await self._do_all(row.acker, row.given, names)
        for _ in range(row.repeated):
            await answers(row, names)
        if row.repeated or row.acker not in self._counted:
            self._counted[row.acker] = await self._count(row.acker)
        await self._do_all(self._beside[row.acker], row.meanwhile, names)
        async with self._held(row):
            told = await answers(row, names)
            counted = await self._count_anew(row)
            told |= {"counted": json.loads(names.take(written(counted).encode()))} | await self._roots(row, names)
        if FRESH in row.target:
            await self._do(self._beside[row.acker], Step(path=_DELETION, method="DELETE"), names)
        return told

    async def document(self, acker: str) -> Document:
        """Return /openapi.json."""
        return dict((await self._call(acker, "GET", "/openapi.json"))[1])

    async def _do_all(self, acker: str, steps: Iterable[Step], names: Names) -> None:
        for step in steps:
            if step.until is None:
                status, answer = await self._do(acker, step, names)
                assert status < 400, answer
            else:
                await eventually(partial(self._is_refused, acker, step))

    async def _is_refused(self, acker: str, step: Step) -> bool:
        return (await self._do(acker, step, Names()))[0] == step.until

    async def _do(self, acker: str, step: Step, names: Names) -> tuple[int, Any]:
        self._counted.pop(acker, None)
        headers = () if step.key is None else (f"Idempotency-Key: {step.key}",)
        body, path = names.put(written(step.document).encode()), names.put(step.path.encode()).decode()
        return await self._call(acker, step.method, path, *headers, body=body)

    async def _call(self, acker: str, method: str, path: str, *headers: str, body: bytes = b"") -> tuple[int, Any]:
        """Call an acker by a key that may do everything, and return the status, and the answer's JSON or text."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {ADMIN}", *headers]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
        async with asyncio.timeout(TIMEOUT_S), _connected(self.urls[acker]) as connection:
            connection.send("\r\n".join(lines).encode(), body)
            status, _, answer = await connection.answer()
        return status, _read_body(answer)

    @contextlib.asynccontextmanager
    async def _held(self, row: Row) -> AsyncIterator[None]:
        """Have another request in flight, if the row asks for it, until the block is left."""
        if not row.held:
            yield
            return
        async with asyncio.timeout(TIMEOUT_S), _connected(self.urls[row.acker]) as held:
            head = f"POST {row.held} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            held.send(head.encode(), b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert await held.continues()
            yield
            self._counted.pop(row.acker)
            held.send(b"{}")
            assert (await held.answer())[0] == 422

    async def _count_anew(self, row: Row) -> dict[str, int]:
        """Count again, and tell by how much each counter rose; that of a cut off request rises when it is given up."""

        async def risen() -> dict[str, int]:
            now = await self._count(row.acker)
            return {label: count - before.get(label, 0) for label, count in now.items() if count != before.get(label)}

        before = self._counted[row.acker]
        rises = await eventually(risen) if row.sends is Sends.CUT else await risen()
        self._counted[row.acker] = before | {label: before.get(label, 0) + rise for label, rise in rises.items()}
        return dict(sorted(rises.items()))

    async def _count(self, acker: str) -> dict[str, int]:
        """Read what was counted of requests and operations. Fails unless each request was timed, too."""
        counted, requests, timed = dict[str, int](), dict[str, int](), dict[str, int]()
        _, text = await self._call(acker, "GET", "/metrics")
        for name, labelled, value in _SAMPLE.findall(text):
            labels = dict(_LABEL.findall(labelled))
            if labels.get("route") in _OWN_ROUTES:
                continue
            if name in _COUNTED and float(value):
                counted[_COUNTED[name].format(**labels)] = int(float(value))
            if name in ("acker_requests", _TIMED):
                totals, route = (timed if name == _TIMED else requests), f"{labels['method']} {labels['route']}"
                totals[route] = totals.get(route, 0) + int(float(value))
        assert timed == requests
        return counted

    async def _roots(self, row: Row, names: Names) -> Document:
        """Read the roots that a row names, as far as their topology has them, without times."""
        sent, found = row.raw or b"".join(row.body), _TOPOLOGY.search(unquote(row.target))
        if found is None:
            return {"roots": {}}
        named = [root for root in ROOTS if root.encode() in sent or int(root, 16).to_bytes(8) in sent]
        paths = {root: names.put(f"/v1/topologies/{found[1]}/roots/{root}".encode()).decode() for root in named}
        return {"roots": {root: await self._root(self._beside[row.acker], path) for root, path in paths.items()}}

    async def _root(self, acker: str, path: str) -> Any:
        _, found = await self._call(acker, "GET", path)
        if "code" in found:
            self._counted.pop(acker, None)  # it has counted a problem
            return found["code"]
        return {name: value for name, value in found.items() if name not in _TIMES | {"root_id"}}
