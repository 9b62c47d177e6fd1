"""Receives webhooks and messages of Redis, and notes when each completion came: as little work as can be."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
Meet = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
_DONE = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@dataclass(slots=True)
class Received:
    """What came, and when; it is read afterwards."""

    bodies: list[tuple[float, bytes]] = field(default_factory=list)
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, body: bytes) -> None:
        """Note that this came now."""
        self.bodies.append((time.perf_counter(), body))
        self._came.set()

    def count(self) -> int:
        """Return how many completions came; what came twice counts twice."""
        return sum(body.count(b'"root_id"') for _, body in self.bodies)

    def first(self) -> dict[int, float]:
        """Return when each root's completion came first."""
        found: dict[int, float] = {}
        for at, body in self.bodies:
            document = json.loads(body)
            for done in document.get("data", document)["completions"]:
                found.setdefault(int(done["root_id"], 16), at)
        return found

    async def has(self, count: int, *, within: float = 120.0) -> None:
        """Wait until so many completions have come."""
        async with asyncio.timeout(within):
            while self.count() < count:
                self._came.clear()
                await self._came.wait()


@contextlib.asynccontextmanager
async def webhook(received: Received) -> AsyncIterator[str]:
    """Receive webhooks until the block is left, and yield the URL."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                received.take(await _request(reader))
                writer.write(_DONE)
        writer.close()

    async with _served(meet) as url:
        yield url


@contextlib.asynccontextmanager
async def hanging(asked: asyncio.Event) -> AsyncIterator[str]:
    """Take requests and answer none until the block is left."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await _request(reader)
            asked.set()
            await reader.read()
        writer.close()

    async with _served(meet) as url:
        yield url


@contextlib.asynccontextmanager
async def subscriber(received: Received, port: int, channel: str) -> AsyncIterator[None]:
    """Receive what a Redis publishes on a channel until the block is left; it is entered subscribed."""
    async with Redis(port=port) as redis, redis.pubsub() as pubsub:
        await pubsub.subscribe(channel)
        assert await pubsub.get_message(timeout=30), "not subscribed"

        async def listen() -> None:
            async for message in pubsub.listen():
                received.take(message["data"])

        listening = asyncio.create_task(listen())
        yield
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    assert length is not None, head
    return await reader.readexactly(int(length[1]))


@contextlib.asynccontextmanager
async def _served(meet: Meet) -> AsyncIterator[str]:
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[asyncio.create_task(meet(reader, writer))] = writer

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for writer in connections.values():
            writer.close()
        await asyncio.gather(*connections)
