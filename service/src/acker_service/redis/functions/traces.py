"""The functions of the library that read and remove traces, and the layout of a trace (lua/traces.lua)."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from acker_protocol.operations import Outcome

from acker_service.redis import codec
from acker_service.redis.calls import Call, ShardCall, fcall
from acker_service.redis.functions.roots import RootReply, root_reply
from acker_service.redis.stamp import Stamp

_HEAD = struct.Struct(">BBIB")
_SUMS = struct.Struct(">Qi")
_NUMBER = struct.Struct(">I")
_LENGTH = struct.Struct(">H")
_EPOCH_MS = 1_577_836_800_000
_UNKNOWN_OUTSTANDING, _TEXT, _COMPONENT, _EDGE, _NAMES, _IS_LATE = 1, 2, 4, 8, 16, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLimits:
    """The most bytes that the traces of a topology take, and how long a trace stays after its last entry."""

    max_bytes: int = 67_108_864
    ttl_ms: int = 3_600_000


class EntryKind(IntEnum):
    """What an entry of a trace notes."""

    INIT = 1
    ACK = 2
    FAIL = 3
    END = 5
    FAILED_EDGE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """An operation that changed a root, or the end of the root, at a time in Unix milliseconds.

    ``edge_id`` is the edge that an ack or a fail ends. ``names`` are the edges of an init, or the children of an ack or
    a fail; None where they are not named. ``is_late``: the trace began with this init, after earlier operations on the
    root.
    """

    kind: EntryKind
    at_ms: int
    ack_val: int = 0
    outstanding: int | None = 0
    spout_index: int = 0
    outcome: Outcome | None = None
    text: str | None = None
    component: str | None = None
    edge_id: int | None = None
    names: tuple[int, ...] | None = None
    is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReply:
    """The trace of a root, and the root; ``is_cut`` if entries are missing at the end."""

    entries: list[TraceEntry]
    is_cut: bool
    root: RootReply


def pack_limits(limits: TraceLimits, *, shards: int) -> bytes:
    """Pack what a call needs for traces."""
    parts = ((limits.max_bytes // shards, 6), (limits.ttl_ms, 5))
    return b"".join(number.to_bytes(size, "big") for number, size in parts)


def read_trace(*, settings: bytes, bucket: int, root_id: int) -> ShardCall[TraceReply]:
    """Read the trace of a root, and the root."""

    def decode(reply: list[Any]) -> TraceReply:
        raw, is_cut, *root = reply
        return TraceReply(entries=decode_entries(raw, root_id), is_cut=bool(is_cut), root=root_reply(root))

    args = (settings, bucket, root_id.to_bytes(8, "big"))
    return ShardCall(function="acker_read_trace_v1", args=args, decode=decode)


def list_traces(*, limit: int) -> ShardCall[list[int]]:
    """Name the roots of a shard whose traces began last, the latest first, so many at most."""

    def decode(reply: list[Any]) -> list[int]:
        [ids] = reply
        return [int.from_bytes(ids[at : at + 8], "big") for at in range(0, len(ids), 8)]

    return ShardCall(function="acker_list_traces_v1", args=(limit,), decode=decode, confirm=False)


def remove_traces(key: str, stamp: Stamp, *, limit: int) -> Call[int]:
    """Remove so many traces at most of a shard with a tombstone, and return how many it removed."""
    return fcall("acker_remove_traces_v1", (key,), stamp.text, limit, decode=lambda reply: int(reply[1]))


def decode_entries(raw: bytes, root_id: int) -> list[TraceEntry]:
    """Decode the entries of a root's trace."""
    reader, entries = _Reader(raw), list[TraceEntry]()
    while reader.has_more:
        entries.append(_entry(reader, root_id))
    return entries


class _Reader:
    """Takes values from bytes, one after the other."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    @property
    def has_more(self) -> bool:
        return self._at < len(self._raw)

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        values = form.unpack_from(self._raw, self._at)
        self._at += form.size
        return values

    def take_bytes(self, count: int) -> bytes:
        raw = self._raw[self._at : self._at + count]
        self._at += count
        return raw

    def take_counted(self, size: int = 1) -> bytes:
        (count,) = self.take(_LENGTH)
        return self.take_bytes(count * size)


def _entry(reader: _Reader, root_id: int) -> TraceEntry:
    kind, high, low, flags = reader.take(_HEAD)
    ack_val, outstanding, spout_index, outcome = 0, 0, 0, None
    if kind in (EntryKind.INIT, EntryKind.ACK, EntryKind.FAILED_EDGE):
        ack_val, outstanding = reader.take(_SUMS)
    if kind == EntryKind.INIT:
        (spout_index,) = reader.take(_NUMBER)
    if kind == EntryKind.END:
        outcome = codec.OUTCOMES[reader.take_bytes(1).decode()]
    text = reader.take_counted().decode() if flags & _TEXT else None
    component = reader.take_counted().decode() if flags & _COMPONENT else None
    edge = reader.take_bytes(8) if flags & _EDGE else None
    names = reader.take_counted(8) if flags & _NAMES else None
    return TraceEntry(
        kind=EntryKind(kind),
        at_ms=(high << 32 | low) + _EPOCH_MS,
        ack_val=ack_val,
        outstanding=None if flags & _UNKNOWN_OUTSTANDING else outstanding,
        spout_index=spout_index,
        outcome=outcome,
        text=text,
        component=component,
        edge_id=None if edge is None else codec.edge_of_hash(root_id, int.from_bytes(edge, "big")),
        names=None
        if names is None
        else tuple(int.from_bytes(names[at : at + 8], "big") for at in range(0, len(names), 8)),
        is_late=bool(flags & _IS_LATE),
    )
