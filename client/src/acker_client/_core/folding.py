"""Folds acks of one root into one operation: the XOR of their ack vals, the sum of their counts."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from acker_protocol.operations import Ack
from acker_protocol.wire import fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from acker_protocol.operations import Operation


@dataclass(slots=True, kw_only=True)
class _Fold:
    """A fold that takes more acks: its index among the operations, and the edges that it acks."""

    at: int
    edges: set[int] = field(default_factory=set)


class FoldedOperations:
    """Operations in the order in which the program gave them; `fold` folds the acks of one root.

    Only acks of distinct edges fold: the same edge acked twice stays two operations, as the state machine demands.
    An operation of another kind, or one that is not to be folded, closes its root's fold, so later acks stay behind it.
    """

    __slots__ = ("_folds", "_operations", "roots")

    def __init__(self) -> None:
        self.roots: set[int] = set()
        self._operations: list[Operation] = []
        self._folds: dict[int, _Fold] = {}

    def __len__(self) -> int:
        return len(self._operations)

    def operations(self) -> "tuple[Operation, ...]":
        """Give the operations so far."""
        return tuple(self._operations)

    def add(self, operations: "Iterable[Operation]") -> None:
        """Add operations as they are."""
        for operation in operations:
            self._folds.pop(operation.root_id, None)
            self._append(operation)

    def fold(self, operations: "Iterable[Operation]") -> None:
        """Add operations, each ack to the fold of its root."""
        for operation in operations:
            if isinstance(operation, Ack) and operation.edge_id is not None:
                self._fold(operation, operation.edge_id)
            else:
                self.add([operation])

    def _fold(self, ack: Ack, edge: int) -> None:
        fold = self._folds.get(ack.root_id)
        folded = None if fold is None or edge in fold.edges else folded_in(self._operations[fold.at], ack)
        if fold is None or folded is None:
            self._folds[ack.root_id] = _Fold(at=len(self), edges={edge})
            self._append(ack)
            return
        fold.edges.add(edge)
        self._operations[fold.at] = folded

    def _append(self, operation: "Operation") -> None:
        self.roots.add(operation.root_id)
        self._operations.append(operation)


def folded_in(before: "Operation", ack: Ack) -> Ack | None:
    """Fold an ack into an earlier one of its root, None where the count would leave its 32 bits.

    The component stays if it is that of all.
    """
    assert isinstance(before, Ack)
    outstanding = _sum(before.outstanding, ack.outstanding)
    if outstanding is not None and outstanding not in fields.OUTSTANDING:
        return None
    return Ack(
        root_id=ack.root_id,
        ack_val=before.ack_val ^ ack.ack_val,
        outstanding=outstanding,
        component=ack.component if ack.component == before.component else None,
    )


def _sum(count: int | None, more: int | None) -> int | None:
    return None if count is None or more is None else count + more
