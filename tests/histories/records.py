"""The file of a client's history: every request before it is sent, every answer as it came, in MessagePack.

A record is four bytes of length and so many of MessagePack. It is written with one call before its client goes on, so
that a client which is killed loses nothing but the end of its last record. Times are nanoseconds of the machine's
monotonic clock, which all clients share; the first record says what to add for the wall clock.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec


class Began(msgspec.Struct, frozen=True, tag="began", array_like=True):
    """The first record: milliseconds of the wall clock where the monotonic one is zero."""

    wall_ms: float


class Sent(msgspec.Struct, frozen=True, tag="sent", array_like=True):
    """A request, written before it is sent. ``target`` has the query, too."""

    number: int
    at_ns: int
    method: str
    target: str
    key: str | None
    content_type: str
    body: bytes


class Answered(msgspec.Struct, frozen=True, tag="answered", array_like=True):
    """The answer to a request; a request without one was refused by the network, lost, or given up."""

    number: int
    at_ns: int
    status: int
    replayed: bool
    body: bytes


class Told(msgspec.Struct, frozen=True, tag="told", array_like=True):
    """Completions that came without being asked for; ``by`` is ``webhook`` or ``pubsub``, ``body`` the JSON of all."""

    at_ns: int
    by: str
    body: bytes


Record = Began | Sent | Answered | Told
_decoder = msgspec.msgpack.Decoder(Record)
_LENGTH = 4


class History:
    """A file that one process appends to, until the block is left; without a path nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("xb", buffering=0)
        self._encoder = msgspec.msgpack.Encoder()
        self._number = 0
        self._write(Began(wall_ms=(time.time_ns() - time.monotonic_ns()) / 1e6))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def sent(self, method: str, target: str, *, key: str | None, content_type: str, body: bytes) -> int:
        """Note a request that is about to be sent, and return its number."""
        self._number += 1
        self._write(Sent(self._number, time.monotonic_ns(), method, target, key, content_type, body))
        return self._number

    def answered(self, number: int, status: int, *, replayed: bool, body: bytes) -> None:
        """Note the answer to a request."""
        self._write(Answered(number, time.monotonic_ns(), status, replayed, body))

    def told(self, by: str, body: bytes) -> None:
        """Note completions that came by a webhook or by pub/sub."""
        self._write(Told(time.monotonic_ns(), by, body))

    def _write(self, record: Record) -> None:
        if self._file is None:
            return
        packed = self._encoder.encode(record)
        self._file.write(len(packed).to_bytes(_LENGTH, "big") + packed)


def read(path: Path) -> Iterator[Record]:
    """Read a history; the end of a record that its client died over is left out."""
    with path.open("rb") as file:
        while len(head := file.read(_LENGTH)) == _LENGTH:
            packed = file.read(size := int.from_bytes(head, "big"))
            if len(packed) < size:
                return
            yield _decoder.decode(packed)
