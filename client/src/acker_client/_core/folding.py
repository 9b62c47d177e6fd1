"""Folds acks of one root into one operation: the XOR of their ack vals, the sum of their counts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, overload

from acker_protocol.operations import Ack
from acker_protocol.wire import fields
from acker_protocol.wire.packed import PackedWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from acker_protocol.operations import Operation

    class Edges(Protocol):
        """The edges of an anchor that has children; see `EdgeSet`."""

        root_id: int
        edge_id: int
        ack_val: int
        outstanding: int
        children: list[int]


MIN_OUTSTANDING, MAX_OUTSTANDING = fields.OUTSTANDING.start, fields.OUTSTANDING.stop - 1

Acks = tuple[tuple[int, ...], "Sequence[Edges] | None"]
"""What a tuple acks: the root id and the edge id of each anchor in turn, and their edges if children were made."""

AckRecord = list[Any]
"""A buffered ack: root id, ack val, outstanding, edge id, component, and the edges that are folded in it.

The edge id is None for several edges; the edges are None for one. It is a list, since every ack makes one: an object
with slots costs 0.4 µs more.
"""


class FoldedOperations:
    """Operations in the order in which the program gave them; `fold_ack` folds the acks of one root.

    Only acks of distinct edges fold: the same edge acked twice stays two operations, as the state machine demands. An
    ack that names its children, as those of traced roots and of dropped tuples do, does not fold either.
    An operation of another kind, or one that is not to be folded, closes its root's fold, so later acks stay behind it.
    """

    __slots__ = ("_folds", "_unfolded", "records")

    def __init__(self) -> None:
        self.records: list[AckRecord | Operation] = []
        self._folds: dict[int, AckRecord] = {}
        self._unfolded: set[int] = set()

    def __len__(self) -> int:
        return len(self.records)

    def roots(self) -> "frozenset[int]":
        """Return the roots of the operations so far."""
        return frozenset(self._unfolded.union(self._folds))

    def holds_any(self, roots: "set[int]") -> bool:
        """Whether an operation is of one of these roots."""
        return not (roots.isdisjoint(self._folds) and roots.isdisjoint(self._unfolded))

    def operations(self) -> "BufferedOperations":
        """Return the operations so far."""
        return BufferedOperations(self.records)

    def add(self, operations: "Iterable[Operation]") -> None:
        """Add operations as they are."""
        for operation in operations:
            self._folds.pop(operation.root_id, None)
            self._unfolded.add(operation.root_id)
            self.records.append(operation)

    def add_acks(
        self,
        acks: "Acks",
        component: str,
        *,
        fold: bool,
        is_traced: "Callable[[int], bool]",
        dropped: bool = False,
    ) -> None:
        """Add the acks of one tuple, folded or as they are; those of traced roots name their children.

        Those of a ``dropped`` tuple are never folded: the service counts them.
        """
        ids, edges = acks
        add = self.fold_ack if fold else self.add_ack
        if edges is None:
            for at in range(0, len(ids), 2):
                root, edge = ids[at], ids[at + 1]
                if dropped or is_traced(root):
                    self.add([_ack(root, edge, -1, edge, component, (), dropped=dropped)])
                else:
                    add(root, edge, edge, -1, component)
            return
        for each in edges:
            if dropped or is_traced(each.root_id):
                value, children = each.ack_val, tuple(each.children)
                ack = _ack(each.root_id, value, each.outstanding, each.edge_id, component, children, dropped=dropped)
                self.add([ack])
            else:
                add(each.root_id, each.edge_id, each.ack_val, each.outstanding, component)

    def add_ack(self, root: int, edge: int, ack_val: int, outstanding: int | None, component: str | None) -> None:
        """Add an ack as it is."""
        self._folds.pop(root, None)
        self._unfolded.add(root)
        self.records.append([root, ack_val, outstanding, edge, component, None])

    def fold_ack(self, root: int, edge: int, ack_val: int, outstanding: int | None, component: str | None) -> None:
        """Add an ack to the fold of its root, unless that has its edge already or its count would leave its 32 bits.

        The component stays if it is that of all.
        """
        fold = self._folds.get(root)
        if fold is not None:
            _, folded_val, count, first, folded_component, edges = fold
            count = None if count is None or outstanding is None else count + outstanding
            if edges is None:
                edges = {first}
            if edge not in edges and (count is None or MIN_OUTSTANDING <= count <= MAX_OUTSTANDING):
                edges.add(edge)
                if folded_component != component:
                    component = None
                fold[1:] = (folded_val ^ ack_val, count, None, component, edges)
                return
        fold = [root, ack_val, outstanding, edge, component, None]
        self._folds[root] = fold
        self.records.append(fold)


class BufferedOperations(Sequence["Operation"]):
    """Operations as a sequence that makes each object only when it is looked at, since most never are."""

    __slots__ = ("_records",)

    def __init__(self, records: "list[AckRecord | Operation]") -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> "Operation": ...
    @overload
    def __getitem__(self, index: slice) -> "BufferedOperations": ...
    def __getitem__(self, index: int | slice) -> "Operation | BufferedOperations":
        if isinstance(index, slice):
            return BufferedOperations(self._records[index])
        return _operation(self._records[index])

    def __iter__(self) -> "Iterator[Operation]":
        return map(_operation, self._records)

    def packed(self) -> bytes:
        """Write them as a packed batch, as `encode_packed` does."""
        writer = PackedWriter()
        add_ack = writer.add_ack
        for record in self._records:
            if record.__class__ is list:
                root, ack_val, outstanding, edge, component, _ = record
                add_ack(root, ack_val, outstanding, edge, component)
            else:
                writer.add(cast("Operation", record))
        return writer.finish()


def _operation(record: "AckRecord | Operation") -> "Operation":
    if not isinstance(record, list):
        return record
    root, ack_val, outstanding, edge, component, _ = record
    return _ack(root, ack_val, outstanding, edge, component)


def _ack(
    root: int,
    ack_val: int,
    outstanding: int | None,
    edge: int | None,
    component: str | None,
    children: tuple[int, ...] | None = None,
    *,
    dropped: bool = False,
) -> Ack:
    return Ack(
        root_id=root,
        ack_val=ack_val,
        outstanding=outstanding,
        edge_id=edge,
        component=component,
        children=children,
        dropped=dropped,
    )
