"""The messages between the supervisor and its processes, and the channel that carries them."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncGenerator
from typing import Any, Generic, TypeVar

import msgspec

from acker_service.processes.plan import ProcessPlan

_LENGTH = struct.Struct("!I")

R = TypeVar("R")


class Start(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The first message to a process: what it is, and the settings of the whole acker as JSON.

    ``shown`` are these settings as answers show them.
    """

    plan: ProcessPlan
    settings: str
    shown: dict[str, Any]


class Open(msgspec.Struct, frozen=True, tag=True):
    """The store at this URL has been checked: the process may open it and serve."""

    url: str


class Drain(msgspec.Struct, frozen=True, tag=True):
    """Be not ready, and let callers leave: `Connection: close` in every answer."""


class End(msgspec.Struct, frozen=True, tag=True):
    """End once the requests in flight are answered; ``number`` is the signal that ends the supervisor."""

    number: int


class Collect(msgspec.Struct, frozen=True, tag=True):
    """Send a snapshot of the metrics."""


class Gathered(msgspec.Struct, frozen=True, tag=True):
    """The answer to a `Scrape`: the snapshots of all processes."""

    number: int
    snapshots: list[bytes]


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The process serves."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The process cannot start; ``error`` says why and what to do."""

    error: str


class Closed(msgspec.Struct, frozen=True, tag=True):
    """How many of the connections passed to the process have been closed so far."""

    total: int


class Snapshot(msgspec.Struct, frozen=True, tag=True):
    """The metrics of the process, encoded; sent at a `Collect` and before the process ends."""

    metrics: bytes


class Scrape(msgspec.Struct, frozen=True, tag=True):
    """Somebody reads the metrics here: the snapshot of this process, and a request for those of all."""

    number: int
    metrics: bytes


ToProcess = Start | Open | Drain | End | Collect | Gathered
ToSupervisor = Ready | Failed | Closed | Snapshot | Scrape


class Channel(Generic[R]):
    """Sends and receives messages over a socket, each with its length before it. It ends when the peer does."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: "msgspec.msgpack.Decoder[R]"
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = decoder

    @classmethod
    async def open(cls, connected: socket.socket, received: Any) -> "Channel[R]":
        """Open a channel on a connected socket, which it owns from now on; ``received`` is the union it receives."""
        reader, writer = await asyncio.open_unix_connection(sock=connected)
        return cls(reader, writer, msgspec.msgpack.Decoder(received))

    def send(self, message: ToProcess | ToSupervisor) -> None:
        """Send a message; one to a peer that has ended is lost."""
        body = msgspec.msgpack.encode(message)
        self._writer.write(_LENGTH.pack(len(body)) + body)

    async def messages(self) -> AsyncGenerator[R, None]:
        """Receive messages until the peer ends."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                yield self._decoder.decode(await self._reader.readexactly(length))

    async def close(self) -> None:
        """Send what has not been sent yet, and close."""
        with contextlib.suppress(ConnectionError):
            self._writer.close()
            await self._writer.wait_closed()
