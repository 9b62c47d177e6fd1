"""Knows one anchor in the hand, as the parent of the edges that are born from it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from acker_protocol.ids import derive_edge, draw_id

from acker_client import arguments
from acker_client.anchoring import Anchor, Anchors
from acker_client.errors import NameTaken

if TYPE_CHECKING:
    from collections.abc import Sequence


class Parent:
    """An anchor and its children so far.

    ``ack_val`` is its own edge id XOR those of all children, ``outstanding`` the children less the edge itself; the
    spout's edge, which is zero, stands for no edge.
    """

    __slots__ = ("_names", "ack_val", "anchor", "component", "outstanding")

    def __init__(self, *, anchor: Anchor, component: str) -> None:
        self.anchor = anchor
        self.component = component
        self.ack_val = anchor.edge_id
        self.outstanding = -1 if anchor.edge_id else 0
        self._names: set[str] = set()

    def bears(self, name: str | None) -> bool:
        """Whether a child of this name is there already; one without a name never is."""
        return name in self._names

    def edge(self, name: str | None) -> int:
        """Choose a child's edge id: derived from its name, so that a re-run gives the same; random without one."""
        if name is None:
            return draw_id()
        return derive_edge(
            root_id=self.anchor.root_id,
            parent_edge=self.anchor.edge_id,
            component=self.component,
            name=name,
        )

    def bear(self, edge: int, name: str | None) -> None:
        """Count a child in."""
        self.ack_val ^= edge
        self.outstanding += 1
        if name is not None:
            self._names.add(name)


def bear_child(parents: "Sequence[Parent]", *, topology: str, name: str | None) -> Anchors:
    """Anchor one child to all these parents, an edge from each; the same parent twice gives two edges.

    Raises `NameTaken` and `TooManyAnchors`, and then no parent has a new child.
    """
    arguments.text("the child's name", name)
    _refuse_taken(parents, name)
    born = [(parent, parent.edge(name)) for parent in parents]
    anchors = tuple(replace(parent.anchor, edge_id=edge) for parent, edge in born)
    child = Anchors(topology=topology, anchors=anchors)
    for parent, edge in born:
        parent.bear(edge, name)
    return child


def _refuse_taken(parents: "Sequence[Parent]", name: str | None) -> None:
    """A derived id depends on nothing but parent, component and name: twice the same would cancel in the XOR."""
    if name is None:
        return
    if any(parent.bears(name) for parent in parents):
        raise NameTaken(f"a child named {name!r} has been anchored here; each child needs a name of its own")
    if len({id(parent) for parent in parents}) < len(parents):
        raise NameTaken(f"a child named {name!r} is anchored to the same tuple twice; leave the name out")
