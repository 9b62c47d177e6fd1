"""Builds the tree of a root from its trace.

An operation that names its edges tells all, and so does one with one new edge at most. Of the others only the XOR and
the number of the new edges are known: edges that were acked, and that no operation made, may be theirs. If one edge is
missing, the XOR of all operations gives it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from acker_protocol.ids import fold
from acker_protocol.operations import Outcome

from acker_service.redis.functions.traces import EntryKind, TraceEntry


class EdgeState(StrEnum):
    """The state of an edge. ``FAILED``: a fail ended it, or it was open when its root failed."""

    ACKED = "acked"
    OPEN = "open"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge of the tree.

    ``parent`` is None for an edge of the root, and where it is unknown; ``component`` is the name of what made it, and
    ``ended_by`` of what acked or failed it. ``sent_ms`` is when it was made; None where that is unknown.
    """

    edge_id: int
    parent: int | None
    component: str | None
    state: EdgeState
    since_ms: int
    sent_ms: int | None
    ended_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTree:
    """The edges of a root, parents before children; ``is_whole`` is false where some edges or acks are not known."""

    edges: Sequence[Edge]
    is_whole: bool


@dataclass(slots=True, kw_only=True)
class _Edge:
    """An edge while the tree is built; ``made`` and ``ended`` are the times at which it was, ``failed``: by a fail."""

    edge_id: int
    parent: int | None = None
    component: str | None = None
    made: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    ended_by: str | None = None
    failed: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the XOR holds it: an ack that comes twice undoes itself."""
        surplus = len(self.ended) - max(1, len(self.made))
        return surplus < 0 or surplus % 2 == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unnamed:
    """Edges that an operation made without naming them: their XOR, and their number (None: unknown)."""

    parent: int | None
    component: str | None
    xor: int
    count: int | None
    at_ms: int


def build_tree(entries: Sequence[TraceEntry], *, maker: str | None = None) -> EdgeTree:
    """Build the tree of a root from its trace; ``maker`` made its first edges where its init names no component."""
    building = _Building(maker)
    for entry in entries:
        building.add(entry)
    return building.finish(entries)


def xor_of(entries: Iterable[TraceEntry]) -> int:
    """Return the ack val of a root after these operations."""
    return fold(entry.ack_val for entry in entries)


def outstanding_of(entries: Iterable[TraceEntry]) -> int | None:
    """Count the edges that are outstanding after these operations; None if one leaves it out."""
    counts = [entry.outstanding for entry in entries]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


class _Building:
    def __init__(self, maker: str | None) -> None:
        self._maker = maker
        self._edges: dict[int, _Edge] = {}
        self._unnamed: list[_Unnamed] = []
        self._folded: list[TraceEntry] = []

    def add(self, entry: TraceEntry) -> None:
        if entry.kind is EntryKind.INIT:
            self._add_made(entry, parent=None, xor=entry.ack_val, count=entry.outstanding)
        elif entry.kind not in (EntryKind.ACK, EntryKind.FAILED_EDGE):
            return
        elif entry.edge_id is None:
            self._folded.append(entry)
        else:
            self._end(self._edge(entry.edge_id), entry)
            count = None if entry.outstanding is None else entry.outstanding + 1
            self._add_made(entry, parent=entry.edge_id, xor=entry.ack_val ^ entry.edge_id, count=count)

    def finish(self, entries: Sequence[TraceEntry]) -> EdgeTree:
        self._folded = [entry for entry in self._folded if not self._acks_one(entry)]
        is_late = any(entry.is_late for entry in entries)
        if not self._folded and not is_late:
            self._add_missing(xor_of(entries), outstanding_of(entries))
        is_known = not self._unnamed and not self._folded and not is_late
        failed_ms = next((entry.at_ms for entry in entries if entry.outcome is Outcome.FAILED), None)
        return EdgeTree(
            edges=[_shown(edge, failed_ms) for edge in self._in_order()],
            is_whole=is_known and all(edge.made for edge in self._edges.values()),
        )

    def _edge(self, edge_id: int) -> _Edge:
        return self._edges.setdefault(edge_id, _Edge(edge_id=edge_id))

    def _add_made(self, entry: TraceEntry, *, parent: int | None, xor: int, count: int | None) -> None:
        """Add the edges that an operation made, or what is known of them."""
        names = entry.names
        if names is None and xor == 0 and not count:
            names = ()
        elif names is None and count == 1:
            names = (xor,)
        component = entry.component or (self._maker if parent is None else None)
        made = _Unnamed(parent=parent, component=component, xor=xor, count=count, at_ms=entry.at_ms)
        if names is None:
            self._unnamed.append(made)
        else:
            self._make(made, names)

    def _make(self, made: _Unnamed, names: Iterable[int]) -> None:
        for name in names:
            edge = self._edge(name)
            if not edge.made:
                edge.parent, edge.component = made.parent, made.component
            edge.made.append(made.at_ms)

    def _acks_one(self, entry: TraceEntry) -> bool:
        """Add an ack without an edge id, if it acks one known edge and makes none."""
        edge = self._edges.get(entry.ack_val)
        if edge is None or entry.outstanding != -1:
            return False
        self._end(edge, entry)
        return True

    def _end(self, edge: _Edge, entry: TraceEntry) -> None:
        edge.ended.append(entry.at_ms)
        edge.ended_by = entry.component
        edge.failed = entry.kind is EntryKind.FAILED_EDGE

    def _add_missing(self, ack_val: int, outstanding: int | None) -> None:
        """Add the one edge that is missing, and give the edges without a maker to the one operation that may be it."""
        is_open = [edge.edge_id for edge in self._edges.values() if edge.is_open]
        rest = ack_val ^ fold(is_open)
        missing = (rest,) if rest else ()
        if not self._unnamed or len(is_open) + len(missing) != outstanding:
            return
        [*others, unnamed] = self._unnamed
        orphans = [edge.edge_id for edge in self._edges.values() if not edge.made]
        if not others and fold((*orphans, *missing)) == unnamed.xor:
            self._make(unnamed, (*orphans, *missing))
            self._unnamed.clear()
        else:
            nobody = _Unnamed(parent=None, component=None, xor=rest, count=None, at_ms=self._unnamed[0].at_ms)
            self._make(nobody, missing)

    def _in_order(self) -> Iterator[_Edge]:
        """Return the edges, parents before children, and at the end those that only lead to each other."""
        children: dict[int | None, list[_Edge]] = {}
        for edge in self._edges.values():
            children.setdefault(edge.parent, []).append(edge)
        ordered: dict[int, _Edge] = {}
        level = children.get(None, [])
        while level:
            ordered |= {edge.edge_id: edge for edge in level}
            level = [child for edge in level for child in children.get(edge.edge_id, ())]
        return iter((ordered | self._edges).values())


def _shown(edge: _Edge, failed_ms: int | None) -> Edge:
    if not edge.is_open:
        state, since_ms = EdgeState.FAILED if edge.failed else EdgeState.ACKED, edge.ended[-1]
    elif failed_ms is not None:
        state, since_ms = EdgeState.FAILED, failed_ms
    else:
        state, since_ms = EdgeState.OPEN, max((*edge.made[:1], *edge.ended))
    return Edge(
        edge_id=edge.edge_id,
        parent=edge.parent,
        component=edge.component,
        state=state,
        since_ms=since_ms,
        sent_ms=edge.made[0] if edge.made else None,
        ended_by=None if edge.is_open else edge.ended_by,
    )
