"""Knows how acks of one root become one operation: the XOR of their ack vals, the sum of their counts."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from acker_protocol.operations import Ack
from acker_protocol.wire import fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from acker_protocol.operations import Operation


@dataclass(slots=True, kw_only=True)
class _Fold:
    """A fold that is open: where it stands among the operations, and the edges it has acked."""

    at: int
    edges: set[int] = field(default_factory=set)


class Gathered:
    """Operations in the order in which the program gave them, the acks of one root folded where that is asked.

    Only acks of distinct edges fold: the same edge acked twice stays two operations, as the state machine demands.
    An operation of another kind, or one that is not to be folded, closes its root's fold, so later acks stay behind it.
    """

    __slots__ = ("_folds", "_messages", "roots")

    def __init__(self) -> None:
        self.roots: set[int] = set()
        self._messages: list[Operation] = []
        self._folds: dict[int, _Fold] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def messages(self) -> "tuple[Operation, ...]":
        """Give the operations gathered so far."""
        return tuple(self._messages)

    def add(self, messages: "Iterable[Operation]") -> None:
        """Take operations in as they are."""
        for message in messages:
            self._folds.pop(message.root_id, None)
            self._append(message)

    def fold(self, messages: "Iterable[Operation]") -> None:
        """Take operations in, each ack into the fold of its root."""
        for message in messages:
            if isinstance(message, Ack) and message.edge_id is not None:
                self._fold(message, message.edge_id)
            else:
                self.add([message])

    def _fold(self, ack: Ack, edge: int) -> None:
        fold = self._folds.get(ack.root_id)
        folded = None if fold is None or edge in fold.edges else folded_in(self._messages[fold.at], ack)
        if fold is None or folded is None:
            self._folds[ack.root_id] = _Fold(at=len(self), edges={edge})
            self._append(ack)
            return
        fold.edges.add(edge)
        self._messages[fold.at] = folded

    def _append(self, message: "Operation") -> None:
        self.roots.add(message.root_id)
        self._messages.append(message)


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
