"""The edges of an anchor: its own and those of its children, as an operation reports them."""

from typing import TYPE_CHECKING

from acker_protocol.anchors import check_count
from acker_protocol.ids import EdgeDeriver, draw_id

from acker_client._core import validate
from acker_client.errors import DuplicateKey

if TYPE_CHECKING:
    from collections.abc import Sequence


class EdgeSet:
    """An anchor and its children so far.

    ``ack_val`` is its own edge id XOR those of all children, ``outstanding`` the children less the edge itself; the
    spout's edge, which is zero, stands for no edge. ``children`` are the edges of all children. With ``numbered``,
    children without a key get their number as key.
    """

    __slots__ = (
        "_component",
        "_deriver",
        "_keys",
        "_numbered",
        "ack_val",
        "children",
        "edge_id",
        "outstanding",
        "root_id",
        "unkeyed",
    )

    def __init__(self, *, root_id: int, edge_id: int, component: str, numbered: bool = False) -> None:
        self.root_id = root_id
        self.edge_id = edge_id
        self.ack_val = edge_id
        self.children: list[int] = []
        self.outstanding = -1 if edge_id else 0
        self.unkeyed = 0
        self._component = component
        self._numbered = numbered
        self._keys: set[str] = set()
        self._deriver: EdgeDeriver | None = None

    def has_key(self, key: str | None) -> bool:
        """Whether a child has this key already."""
        return key in self._keys

    def choose_key(self, key: str | None, *, ahead: int = 0) -> str | None:
        """Return a child's key: its own, else its number if children are numbered, else None."""
        return f"#{self.unkeyed + ahead}" if key is None and self._numbered else key

    def edge(self, key: str | None) -> int:
        """Choose a child's edge id: derived from its key, so that a re-run gives the same; random without one."""
        if key is None:
            return draw_id()
        if self._deriver is None:
            self._deriver = EdgeDeriver(root_id=self.root_id, parent_edge=self.edge_id, component=self._component)
        return self._deriver.derive(key)

    def add_child(self, key: str | None) -> int:
        """Add a child of this parent alone, and give its edge id. Raises `DuplicateKey`."""
        chosen = self.choose_key(key) if key is None else key
        if chosen is None:
            edge = draw_id()
        elif chosen in self._keys:
            raise duplicate_key(chosen)
        else:
            edge = self.edge(chosen)
            self._keys.add(chosen)
        self.ack_val ^= edge
        self.outstanding += 1
        self.children.append(edge)
        if key is None:
            self.unkeyed += 1
        return edge

    def add(self, edge: int, key: str | None, *, keyed: bool) -> None:
        """Add a child; not ``keyed`` if its key is its number, or None."""
        self.ack_val ^= edge
        self.outstanding += 1
        self.children.append(edge)
        self.unkeyed += not keyed
        if key is not None:
            self._keys.add(key)


def add_child(parents: "Sequence[EdgeSet]", *, key: str | None) -> list[int]:
    """Anchor one child to all these parents: give the root id and the new edge id of each in turn.

    The same parent twice gives two edges. Raises `DuplicateKey` and `TooManyAnchors`, and then no parent has a new
    child.
    """
    if key.__class__ is not str:
        validate.text("the child's key", key)
    if len(parents) == 1:
        return [parents[0].root_id, parents[0].add_child(key)]
    keys = [parent.choose_key(key, ahead=parents[:at].count(parent)) for at, parent in enumerate(parents)]
    children = [(parent, chosen, parent.edge(chosen)) for parent, chosen in zip(parents, keys, strict=True)]
    _refuse_duplicates(children)
    check_count(len(children))
    for parent, chosen, edge in children:
        parent.add(edge, chosen, keyed=key is not None)
    return [id_ for parent, _, edge in children for id_ in (parent.root_id, edge)]


def _refuse_duplicates(children: "Sequence[tuple[EdgeSet, str | None, int]]") -> None:
    """A derived id depends on nothing but parent, component and key: twice the same would cancel in the XOR."""
    for at, (parent, key, _) in enumerate(children):
        if key is None:
            continue
        if parent.has_key(key):
            raise duplicate_key(key)
        if any(other is parent and other_key == key for other, other_key, _ in children[:at]):
            raise DuplicateKey(f"a child with the key {key!r} is anchored to the same tuple twice; leave the key out")


def duplicate_key(key: str) -> DuplicateKey:
    """Return the error for a second child with this key."""
    return DuplicateKey(f"a child with the key {key!r} exists already; each child needs a key of its own")
