"""Knows a tuple in a bolt's hand: its anchors, its children, and whether it is done."""

from typing import TYPE_CHECKING

from acker_protocol.operations import Ack, Fail, Operation, ResetTimeout
from acker_protocol.wire.fields import REASON_CHARACTERS

from acker_client import arguments
from acker_client.errors import Misuse, TupleDone
from acker_client.parents import Parent, bear_child

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acker_client.anchoring import Anchors


class Tuple:
    """One tuple, for one task of one component; not for several threads at once.

    The ``take_…`` methods give the operations that end it (or reset its timeout) and send nothing: an acker calls
    them. A tuple without anchors gives none. After its end every use is `TupleDone`.
    """

    __slots__ = ("_end", "_parents", "anchors", "component")

    def __init__(self, *, anchors: "Anchors", component: str) -> None:
        self.anchors = anchors
        self.component = component
        self._parents = [Parent(anchor=anchor, component=component) for anchor in anchors.anchors]
        self._end = ""

    def __str__(self) -> str:
        listed = ",".join(map(str, self.anchors.anchors)) or "without anchors"
        return f"tuple of {self.component!r} ({listed})"

    @property
    def done(self) -> bool:
        """Whether it has been acked or failed."""
        return bool(self._end)

    @property
    def tracked(self) -> bool:
        """Whether it has anchors."""
        return bool(self._parents)

    def anchor(self, name: str | None = None) -> "Anchors":
        """Anchor a child to this tuple; with a name its edge ids are derived. Raises `NameTaken` and `TupleDone`."""
        return anchor_child([self], name=name)

    def parents(self) -> "Sequence[Parent]":
        """Give its anchors as parents of a new child."""
        self._refuse_done("anchored to")
        return self._parents

    def take_acks(self) -> "list[Operation]":
        """End the tuple: one ack per anchor, with its edge id."""
        self._finish("acked")
        return [
            Ack(
                root_id=parent.anchor.root_id,
                ack_val=parent.ack_val,
                outstanding=parent.outstanding,
                edge_id=parent.anchor.edge_id,
                component=self.component,
            )
            for parent in self._parents
        ]

    def take_fails(self, reason: str | None) -> "list[Operation]":
        """End the tuple: one fail per root, with the reason cut to what the contract takes."""
        arguments.text("reason", reason)
        self._finish("failed")
        words = reason and reason.encode(errors="replace").decode()[:REASON_CHARACTERS]
        return [Fail(root_id=root, reason=words, component=self.component) for root in self._roots()]

    def take_resets(self) -> "list[Operation]":
        """Give one reset of the timeout per root; the tuple stays in the hand."""
        self._refuse_done("given more time")
        return [ResetTimeout(root_id=root, component=self.component) for root in self._roots()]

    def _roots(self) -> list[int]:
        return list(dict.fromkeys(anchor.root_id for anchor in self.anchors.anchors))

    def _finish(self, end: str) -> None:
        self._refuse_done(end)
        self._end = end

    def _refuse_done(self, use: str) -> None:
        if self._end:
            raise TupleDone(f"{self} was {self._end} and cannot be {use} any more")


def taken(tuple_: Tuple) -> Tuple:
    """Give what a verb is to act on, if it is a tuple. Raises `Misuse`."""
    arguments.kind("what is acked, failed or anchored to", tuple_, Tuple, "a tuple, as acker.tuple() gives it")
    return tuple_


def anchor_child(tuples: "Sequence[Tuple]", *, name: str | None) -> "Anchors":
    """Anchor one child to all these tuples. Raises `NameTaken`, `TupleDone`, `TooManyAnchors` and `Misuse`."""
    topologies = {taken(tuple_).anchors.topology for tuple_ in tuples}
    if len(topologies) != 1:
        raise Misuse("a child is anchored to one tuple or more, all of the same topology")
    parents = [parent for tuple_ in tuples for parent in tuple_.parents()]
    return bear_child(parents, topology=topologies.pop(), name=name)
