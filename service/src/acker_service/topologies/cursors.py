"""Cursors: opaque texts that name one list of a topology and a position in each of its shards.

A cursor is unpadded base64url of big-endian fields: the format B, the incarnation 8s, then by format

    2  rows: pending roots
    3  the kind of list B, a hash of the spout task's name 16s and its index I; rows: that list of that spout task
    4  rows: failures

A row holds the position in one shard. The fields of format 3 are as long as one of its rows. A cursor of an unknown
format is a later release's: a list takes it for its beginning if it is as long as some of the list's rows. So a new
format has to keep that length.
"""

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import ClassVar, NoReturn

from acker_protocol.errors import InvalidRequest

from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import Topology

_HEAD = struct.Struct(">B8s")
_SPOUT_LIST = struct.Struct(">B16sI")
_NAME_HASH_BYTES = 16

Row = tuple[int, ...]


class CursorFormat(IntEnum):
    """The formats in use. One that is not among them is a later release's and counts as the beginning."""

    PENDING_ROOTS = 2
    SPOUT_LIST = 3
    FAILURES = 4


class ListKind(IntEnum):
    """The lists that a spout task has."""

    COMPLETIONS = 1
    DEAD_LETTERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoutList:
    """One list of a spout task. ``spout_index`` tells spout tasks apart that had the same name."""

    kind: ListKind
    incarnation: str
    spout_task: str
    spout_index: int

    row: ClassVar = struct.Struct(">BQQI")

    def encode(self, rows: Iterable[Row]) -> str:
        """Write a position as the text that callers hold."""
        named = _SPOUT_LIST.pack(self.kind, _hash(self.spout_task), self.spout_index)
        return _encode(CursorFormat.SPOUT_LIST, self.incarnation, named + _pack_rows(self.row, rows))

    def decode(self, text: str) -> list[Row] | None:
        """Read rows; None for a cursor of a topology or spout task that was deleted, or of an unknown format.

        Raises `InvalidRequest`.
        """
        cursor = _decode(text)
        # rule: a cursor of pending roots is no other list's
        if cursor.format in (CursorFormat.PENDING_ROOTS, CursorFormat.FAILURES):
            self._refuse()
        rows = _unpack_rows(self.row, cursor.body)
        if cursor.format != CursorFormat.SPOUT_LIST:
            return None
        if not rows:
            raise _not_a_cursor()
        kind, name_hash, index = _SPOUT_LIST.unpack_from(cursor.body)
        # rule: a cursor belongs to its list and its spout task
        if (kind, name_hash) != (self.kind, _hash(self.spout_task)):
            self._refuse()
        # rule: a cursor is that of one life of a spout task
        return rows[1:] if (cursor.incarnation, index) == (self.incarnation, self.spout_index) else None

    def _refuse(self) -> NoReturn:
        noun = self.kind.name.lower().replace("_", " ")
        raise _of_another_list(f"the {noun} of spout task {self.spout_task}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRootList:
    """The pending roots of a topology."""

    incarnation: str

    row: ClassVar = struct.Struct(">BQIQQ")

    def encode(self, rows: Iterable[Row]) -> str:
        """Write a position as the text that callers hold."""
        return _encode(CursorFormat.PENDING_ROOTS, self.incarnation, _pack_rows(self.row, rows))

    def decode(self, text: str) -> list[Row] | None:
        """Read rows; None for a cursor of a topology that was deleted, or of an unknown format.

        Raises `InvalidRequest`.
        """
        cursor = _decode(text)
        if cursor.format in (CursorFormat.SPOUT_LIST, CursorFormat.FAILURES):
            raise _of_another_list("the pending roots")
        rows = _unpack_rows(self.row, cursor.body)
        given = (cursor.format, cursor.incarnation)
        return rows if given == (CursorFormat.PENDING_ROOTS, self.incarnation) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureList:
    """The failed and timed-out roots of a topology."""

    incarnation: str

    row: ClassVar = struct.Struct(">BQ")

    def encode(self, rows: Iterable[Row]) -> str:
        """Write a position as the text that callers hold."""
        return _encode(CursorFormat.FAILURES, self.incarnation, _pack_rows(self.row, rows))

    def decode(self, text: str) -> list[Row] | None:
        """Read rows; None for those of a topology that was deleted, or of a later format. Raises `InvalidRequest`."""
        cursor = _decode(text)
        if cursor.format in (CursorFormat.SPOUT_LIST, CursorFormat.PENDING_ROOTS):
            raise _of_another_list("the failures")
        given = (cursor.format, cursor.incarnation)
        return _unpack_rows(self.row, cursor.body) if given == (CursorFormat.FAILURES, self.incarnation) else None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Position:
    """A position in one shard's mailbox: ``offset`` completions of an entry, and all entries before it, are read."""

    ms: int
    seq: int
    offset: int

    @property
    def entry(self) -> str:
        """The id of the entry, as Redis writes it."""
        return f"{self.ms}-{self.seq}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A position in a whole list: one position per shard; a shard without one is at its beginning."""

    of: SpoutList
    positions: Mapping[int, Position] = field(default_factory=dict)

    @property
    def incarnation(self) -> str:
        """The incarnation of the topology that has the list."""
        return self.of.incarnation

    def behind(self, positions: Mapping[int, Position]) -> "Cursor":
        """Return the cursor behind these positions; a shard without one keeps its own."""
        return replace(self, positions={**self.positions, **positions})

    def encode(self) -> str:
        """Write the cursor as the opaque text that callers hold."""
        return self.of.encode((shard, at.ms, at.seq, at.offset) for shard, at in sorted(self.positions.items()))


def completion_list(topology: Topology, spout: Spout) -> SpoutList:
    """The completions of a spout task."""
    return _list(ListKind.COMPLETIONS, topology, spout)


def dead_letter_list(topology: Topology, spout: Spout) -> SpoutList:
    """The dead letters of a spout task."""
    return _list(ListKind.DEAD_LETTERS, topology, spout)


def decode_cursor(text: str | None, of: SpoutList) -> Cursor:
    """Read a cursor of a list. None is the beginning, and so is a cursor that `SpoutList.decode` gives no rows for.

    Raises `InvalidRequest` for the cursor of another list and for text that is no cursor.
    """
    rows = of.decode(text) if text is not None else None
    positions = {shard: Position(ms=ms, seq=seq, offset=offset) for shard, ms, seq, offset in rows or ()}
    return Cursor(of=of, positions=positions)


def _list(kind: ListKind, topology: Topology, spout: Spout) -> SpoutList:
    return SpoutList(kind=kind, incarnation=topology.incarnation, spout_task=spout.name, spout_index=spout.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    format: int
    incarnation: str
    body: bytes


def _encode(number: CursorFormat, incarnation: str, body: bytes) -> str:
    packed = _HEAD.pack(number, bytes.fromhex(incarnation)) + body
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _decode(text: str) -> _Fields:
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
        number, incarnation = _HEAD.unpack_from(packed)
    except (ValueError, binascii.Error, struct.error):
        raise _not_a_cursor() from None
    return _Fields(format=number, incarnation=incarnation.hex(), body=packed[_HEAD.size :])


def _pack_rows(row: struct.Struct, rows: Iterable[Row]) -> bytes:
    return b"".join(row.pack(*values) for values in rows)


def _unpack_rows(row: struct.Struct, body: bytes) -> list[Row]:
    try:
        return list(row.iter_unpack(body))
    except struct.error:
        raise _not_a_cursor() from None


def _hash(spout_task: str) -> bytes:
    return hashlib.blake2b(spout_task.encode(), digest_size=_NAME_HASH_BYTES).digest()


def _not_a_cursor() -> InvalidRequest:
    return InvalidRequest("cursor is not one that was given here")


def _of_another_list(wanted: str) -> InvalidRequest:
    return InvalidRequest(f"cursor was given by another list than {wanted}; send the cursor of a page of that list")
