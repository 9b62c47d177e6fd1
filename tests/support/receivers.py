"""Stands in for those who receive webhooks: a real server that answers by plan, and one that breaks HTTP."""

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from tests.support.waiting import eventually_true


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What to answer."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Receiver:
    """An ASGI application that keeps what it receives, and answers each request by its plan, then with 200."""

    def __init__(self) -> None:
        self.plan: deque[Planned] = deque()
        self.received: list[Received] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.received.append(
            Received(
                method=scope["method"],
                target=b"?".join(filter(None, (scope["raw_path"], scope["query_string"]))).decode(),
                headers=headers,
                body=body,
                client=tuple(scope["client"]),
            )
        )
        answer = self.plan.popleft() if self.plan else Planned()
        told = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": told})
        await send({"type": "http.response.body", "body": answer.body})


@contextlib.contextmanager
def served(app: Any, *, host: str = "127.0.0.1", port: int = 0, **options: Any) -> Iterator[int]:
    """Serve an application with uvicorn until the block is left, and yield the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", **{"lifespan": "off", **options}))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            eventually_true(lambda: server.started)
            yield int(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


class Broken:
    """A server that says the same bytes to everybody, whatever was asked, and then closes, or falls silent."""

    def __init__(self, said: bytes) -> None:
        self.said = said
        self.connections = 0
        self.heard: list[bytes] = []

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError):
            self.heard.append(await reader.read(65_536))
            writer.write(self.said)
            await writer.drain()
            await self.end(reader)
        writer.close()

    async def end(self, reader: asyncio.StreamReader) -> None:
        """Close at once."""


class Silent(Broken):
    """One that then says no more, and keeps the connection for as long as the other side does."""

    async def end(self, reader: asyncio.StreamReader) -> None:
        while await reader.read(65_536):
            pass


class Dripping(Silent):
    """One that then says a byte now and then, for as long as it is listened to."""

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dripping = asyncio.create_task(self._drip(writer))
        await super().meet(reader, writer)
        dripping.cancel()

    async def _drip(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep(0.02)
            if self.heard:
                writer.write(b" ")


@contextlib.asynccontextmanager
async def met(broken: Broken, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Let a broken server listen on loopback until the block is left, and yield the port."""
    server = await asyncio.start_server(broken.meet, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield int(server.sockets[0].getsockname()[1])
