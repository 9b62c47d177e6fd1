"""Loads an HTTP server over some connections, each of which sends its next request when its last one is answered.

Requests are whole byte strings made beforehand, and answers are read only as far as they must be, so that the load
takes little of the machine from what it measures.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import uvloop
from acker_protocol.routes import IDEMPOTENCY_KEY

HOST = "127.0.0.1"
_LENGTH = b"content-length: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What it took to send requests: seconds until all were answered, of the processor, and of each request."""

    wall_s: float
    cpu_s: float
    each_s: list[float]


class WrongAnswerError(Exception):
    """A request was not answered as it has to be."""


def post(path: str, body: bytes, content_type: str, *, key: str | None = None, host: str = HOST) -> bytes:
    """Write a request; ``key`` is its idempotency key."""
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\n"
    if key is not None:
        head += f"{IDEMPOTENCY_KEY.lower()}: {key}\r\n"
    fields = f"content-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + fields.encode() + body


def send(port: int, requests: Sequence[bytes], *, connections: int, expected: bytes, host: str = HOST) -> Sent:
    """Send requests; every answer has to be 200 and to hold what is expected."""
    return uvloop.run(sent(port, requests, connections, expected, host))


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Read one answer from a connection of one's own."""
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(_length(head))


async def sent(port: int, requests: Sequence[bytes], connections: int, expected: bytes, host: str = HOST) -> Sent:
    """As `send`, within a loop."""
    loop, left, each = asyncio.get_running_loop(), iter(requests), list[float]()
    opened = [
        (await loop.create_connection(lambda: _Connection(left, each, expected), host, port))[1]
        for _ in range(min(connections, len(requests)))
    ]
    began, cpu = time.perf_counter(), time.process_time()
    for connection in opened:
        connection.begin()
    try:
        await asyncio.gather(*(connection.ended for connection in opened))
    finally:
        for connection in opened:
            connection.abort()
    return Sent(wall_s=time.perf_counter() - began, cpu_s=time.process_time() - cpu, each_s=each)


class _Connection(asyncio.Protocol):
    """One connection, with one request under way at a time."""

    def __init__(self, left: Iterator[bytes], each: list[float], expected: bytes) -> None:
        self._left = left
        self._each = each
        self._expected = expected
        self._seen = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class

    def begin(self) -> None:
        """Send the next request; without one, end."""
        request = next(self._left, None)
        if request is None:
            self._transport.close()
            return
        self._began = time.perf_counter()
        self._transport.write(request)

    def abort(self) -> None:
        """Close it, whatever is under way."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._seen += data
        if _is_whole(self._seen):
            self._each.append(time.perf_counter() - self._began)
            if not self._seen.startswith(b"HTTP/1.1 200") or self._expected not in self._seen:
                self._end(WrongAnswerError(self._seen[:500]))
                return
            self._seen = b""
            self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or (WrongAnswerError("cut off") if self._seen else None))

    def _end(self, fault: Exception | None) -> None:
        if self.ended.done():
            return
        if fault is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(fault)


def _is_whole(answer: bytes) -> bool:
    head, ended, body = answer.partition(b"\r\n\r\n")
    if not ended:
        return False
    return len(body) >= _length(head)


def _length(head: bytes) -> int:
    at = head.lower().index(_LENGTH) + len(_LENGTH)
    return int(head[at:].partition(b"\r\n")[0])
