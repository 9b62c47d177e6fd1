"""Positions in the lists of a spout task: its completions and its dead letters."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from acker_service.topologies.cursors import ListKind, SpoutList
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import Topology


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
