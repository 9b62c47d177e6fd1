"""Cursors: positions in a mailbox, as opaque texts that callers hold."""

import struct
from dataclasses import dataclass, field

from acker_service.topologies.cursor_codec import CursorCodec
from acker_service.topologies.stamp import Topology

_CODEC = CursorCodec(1, struct.Struct(">BQQI"))


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
    """A position in a whole mailbox: one position a shard; a shard without one is at its beginning."""

    incarnation: str
    positions: dict[int, Position] = field(default_factory=dict)

    def encode(self) -> str:
        """Write the cursor as the opaque text that callers hold."""
        rows = [(shard, at.ms, at.seq, at.offset) for shard, at in sorted(self.positions.items())]
        return _CODEC.encode(self.incarnation, rows)


def decode_cursor(text: str | None, topology: Topology) -> Cursor:
    """Read a cursor; None, or a cursor of another incarnation or format, is the beginning. Raises `InvalidRequest`."""
    rows = _CODEC.decode(text, topology.incarnation) if text is not None else None
    positions = {shard: Position(ms=ms, seq=seq, offset=offset) for shard, ms, seq, offset in rows or ()}
    return Cursor(incarnation=topology.incarnation, positions=positions)
