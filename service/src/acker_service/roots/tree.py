"""Builds the tree of a root from its trace: each edge with its parent, its maker and whether it was acked. Pure.

An operation that names its edges, or has one at most, says what it did. Of the others only the XOR and the count are
known. Then an edge that no operation made is searched among those: where its XOR and its count leave one possibility,
the edge has its parent. The same finds the edges that a folded ack acked, and the id of one edge that is missing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from math import comb

from acker_protocol.ids import fold
from acker_protocol.operations import Outcome

from acker_service.redis.trace_functions import EntryKind, TraceEntry

MAX_TRIED = 100_000
"""Combinations of edges that are tried for one tree; an operation with more possibilities stays unknown."""


class EdgeState(StrEnum):
    """The state of an edge. A fail names no edge: `FAILED` is the only one that was open when the root failed."""

    ACKED = "acked"
    OPEN = "open"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge of the tree. ``parent`` is None for one of the root, ``component`` the name of what made it."""

    edge_id: int
    parent: int | None
    component: str | None
    state: EdgeState
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The edges of a root, parents before children; ``is_whole`` is false where some edges or acks are not known."""

    edges: Sequence[Edge]
    is_whole: bool


@dataclass(slots=True, kw_only=True)
class _Edge:
    """An edge while the tree is built; ``made`` and ``acked`` are the times at which it was, None before the first."""

    edge_id: int
    parent: int | None = None
    component: str | None = None
    made: list[int] = field(default_factory=list)
    acked: list[int] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether the XOR holds it: an ack that comes twice undoes itself."""
        surplus = len(self.acked) - max(1, len(self.made))
        return surplus < 0 or surplus % 2 == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unnamed:
    """Edges that an operation made without naming them: their XOR, and their number (None: unknown)."""

    parent: int | None
    component: str | None
    xor: int
    count: int | None
    at_ms: int


def build_tree(entries: Sequence[TraceEntry], *, maker: str | None = None) -> Tree:
    """Build the tree of a root from its trace; ``maker`` made its first edges where its init names no component."""
    building = _Building(maker)
    for entry in entries:
        building.add(entry)
    return building.finish(entries)


def xor_of(entries: Iterable[TraceEntry]) -> int:
    """Give the ack val of a root after these operations."""
    return fold(entry.ack_val for entry in entries)


class _Building:
    def __init__(self, maker: str | None) -> None:
        self._maker = maker
        self._edges: dict[int, _Edge] = {}
        self._unnamed: list[_Unnamed] = []
        self._folded: list[TraceEntry] = []
        self._tries = MAX_TRIED

    def add(self, entry: TraceEntry) -> None:
        if entry.kind is EntryKind.INIT:
            self._add_made(entry, parent=None, xor=entry.ack_val, count=entry.outstanding)
        elif entry.kind is EntryKind.ACK and entry.edge_id is None:
            self._folded.append(entry)
        elif entry.kind is EntryKind.ACK:
            assert entry.edge_id is not None
            self._edge(entry.edge_id).acked.append(entry.at_ms)
            count = None if entry.outstanding is None else entry.outstanding + 1
            self._add_made(entry, parent=entry.edge_id, xor=entry.ack_val ^ entry.edge_id, count=count)

    def finish(self, entries: Sequence[TraceEntry]) -> Tree:
        self._find_makers()
        self._folded = [entry for entry in self._folded if not self._unfold(entry)]
        self._find_missing()
        is_whole = not self._unnamed and not self._folded and not any(entry.is_late for entry in entries)
        has_makers = all(edge.made for edge in self._edges.values())
        return Tree(edges=self._shown(entries), is_whole=is_whole and has_makers)

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

    def _find_makers(self) -> None:
        """Find the edges of operations all of whose edges were acked; what one finds, others need not try."""
        found = True
        while found:
            found = False
            for unnamed in tuple(self._unnamed):
                names = self._search(self._without_maker(), unnamed.xor, unnamed.count)
                if names is not None:
                    self._make(unnamed, names)
                    self._unnamed.remove(unnamed)
                    found = True

    def _find_missing(self) -> None:
        """Where one operation is left, the edges without a maker are its own; one more, at most, is missing."""
        if len(self._unnamed) != 1 or self._folded:
            return
        [unnamed] = self._unnamed
        known = self._without_maker()
        rest = unnamed.xor ^ fold(known)
        missing = (rest,) if rest else ()
        if unnamed.count == len(known) + len(missing) or (unnamed.count is None and not missing):
            self._make(unnamed, (*known, *missing))
            self._unnamed.clear()

    def _unfold(self, entry: TraceEntry) -> bool:
        """Find the edges that a folded ack acked; says whether it did."""
        if entry.outstanding is None or entry.outstanding >= 0:
            return False
        is_open = [edge.edge_id for edge in self._edges.values() if edge.is_open]
        names = self._search(is_open, entry.ack_val, -entry.outstanding)
        for name in names or ():
            self._edges[name].acked.append(entry.at_ms)
        return names is not None

    def _search(self, edges: Sequence[int], xor: int, count: int | None) -> tuple[int, ...] | None:
        """Give the only set of so many edges with this XOR, if the sets are few enough to be tried."""
        size = 1 if count is None else count
        tries = comb(len(edges), size) if size >= 0 else self._tries + 1
        if tries > self._tries:
            return None
        self._tries -= tries
        found = [some for some in combinations(edges, size) if fold(some) == xor]
        return found[0] if len(found) == 1 else None

    def _without_maker(self) -> list[int]:
        return [edge.edge_id for edge in self._edges.values() if not edge.made]

    def _shown(self, entries: Sequence[TraceEntry]) -> list[Edge]:
        failed_ms = next((entry.at_ms for entry in entries if entry.outcome is Outcome.FAILED), None)
        is_open = [edge.edge_id for edge in self._edges.values() if edge.is_open]
        failed = set(is_open) if len(is_open) == 1 and failed_ms is not None else set[int]()
        return [_shown(edge, failed_ms if edge.edge_id in failed else None) for edge in self._in_order()]

    def _in_order(self) -> Iterator[_Edge]:
        """Give the edges, parents before children, and at the end those that only lead to each other."""
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
    if failed_ms is not None:
        state, since_ms = EdgeState.FAILED, failed_ms
    elif edge.is_open:
        state, since_ms = EdgeState.OPEN, max((*edge.made[:1], *edge.acked))
    else:
        state, since_ms = EdgeState.ACKED, edge.acked[-1]
    return Edge(edge_id=edge.edge_id, parent=edge.parent, component=edge.component, state=state, since_ms=since_ms)
