"""Reads completions on connections of its own: many at once, and byte by byte where that is the point."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

Document = dict[str, Any]


@dataclass(slots=True)
class Event:
    """An event as it came: its fields by their names; a comment is under the empty name."""

    fields: dict[str, str] = field(default_factory=dict)

    @property
    def is_comment(self) -> bool:
        """Whether it tells of nothing."""
        return "" in self.fields

    @property
    def completion(self) -> Document:
        """The completion it tells of."""
        assert self.fields["event"] == "completion", self.fields
        return dict(json.loads(self.fields["data"]))


class Connection:
    """One connection to an acker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def get(self, path: str, **headers: str) -> tuple[int, dict[str, str]]:
        """Send a GET; give the status and the headers of its answer."""
        given = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", *given]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        return int(head[0].split()[1]), {n.lower(): v for n, v in (line.split(": ", 1) for line in head[1:-2])}

    async def poll(self, path: str) -> Document:
        """Send a GET; give the JSON that answers it."""
        status, headers = await self.get(path)
        body = await self._reader.readexactly(int(headers["content-length"]))
        assert status == 200, body
        return dict(json.loads(body))

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of a stream until it ends as it should."""
        text = ""
        while size := int(await self._reader.readline(), 16):
            text += (await self._reader.readexactly(size)).decode()
            await self._reader.readline()
            *whole, text = text.split("\n\n")
            for event in whole:
                yield Event(dict(line.split(": " if ": " in line else ":", 1) for line in event.split("\n")))

    async def close(self) -> None:
        """Go away."""
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """Connect to an acker."""
    connection = await connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def connect(url: str) -> Connection:
    """Connect to an acker; whoever does closes the connection."""
    address = urlsplit(url)
    return Connection(*await asyncio.open_connection(address.hostname, address.port))
