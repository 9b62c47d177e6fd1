"""What tuples of threads and of tasks have in common: anchors, children, and the operations that end them."""

from typing import TYPE_CHECKING

from acker_protocol.anchors import from_ids
from acker_protocol.operations import Fail, Operation, ResetTimeout
from acker_protocol.tracing import is_marked
from acker_protocol.wire.fields import REASON_CHARACTERS

from acker_client._core import validate
from acker_client._core.hot_path import ReceivedTuple, add_child, split_ids
from acker_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from acker_protocol.anchors import Anchors

    from acker_client._core.hot_path import TupleContext
    from acker_client.config import OnError


class BaseTuple(ReceivedTuple):
    """What `Tuple` and `AsyncTuple` have in common; not for several threads at once.

    ``ids`` are the root id and the edge id of each of its anchors in turn. ``repeatable`` says that a re-run makes the
    same children in the same order: then children without a key are numbered. Else their edges are random.
    """

    __slots__ = ()

    def __init__(
        self,
        *,
        context: "TupleContext",
        ids: tuple[int, ...],
        component: str,
        on_error: "OnError" = "fail",
        repeatable: bool = False,
    ) -> None:
        self.begin(context, *split_ids(ids), component, on_error, repeatable)

    @property
    def topology(self) -> str:
        """The topology that its message belongs to."""
        return self._context.topology

    @property
    def closed(self) -> bool:
        """Whether it has been acked, failed or skipped."""
        return bool(self._end)

    @property
    def failed(self) -> bool:
        """Whether it has been failed."""
        return self._end == "failed"

    def anchor(self, key: str | None = None) -> "Anchors":
        """Anchor a child to this tuple. Raises `DuplicateKey` and `TupleClosed`.

        With a ``key``, a business key of the child within this tuple, a re-run of the bolt gives the child the same
        edge. Without one its edge is random; in a ``repeatable`` tuple its number is its key.
        """
        return from_ids(self.topology, tuple(add_child(self.parents(key), key=key)))

    def derive_as(self, name: str) -> None:
        """Derive the edges of its children from this name, from which that of its component was made.

        Two such names may make one component; the children of one message have edges of their own all the same.
        """
        if name != self.component:
            self._edges = self._make_edges(name)

    def skip(self) -> None:
        """Close the tuple and count it as skipped, where it is known that its roots have ended: nothing is asked."""
        self._context.submitter.skip(self)

    def fail_operations(self, reason: str | None, is_traced: "Callable[[int], bool]" = is_marked) -> "list[Operation]":
        """Close the tuple, and return one fail per root and edge, with the reason cut to what the contract takes.

        A fail carries the children so far, as an ack does: a root that ends when all have ended waits for them. It
        names them if the root is traced.
        """
        validate.text("reason", reason)
        self._check_open("failed")
        self._end = "failed"
        words = reason and reason.encode(errors="replace").decode()[:REASON_CHARACTERS]
        if self._edges is None:
            self._edges = self._make_edges(self.component)
        return [
            Fail(
                root_id=edges.root_id,
                reason=words,
                component=self.component,
                ack_val=edges.ack_val,
                outstanding=edges.outstanding,
                edge_id=edges.edge_id,
                children=tuple(edges.children) if is_traced(edges.root_id) else None,
            )
            for edges in self._edges
        ]

    def reset_operations(self) -> "list[Operation]":
        """Return one reset of the timeout per root; the tuple stays open."""
        self._check_open("given more time")
        return [ResetTimeout(root_id=root, component=self.component) for root in self.roots()]

    def close_unsent(self) -> None:
        """Close the tuple without an operation: all its roots have ended. Raises `TupleClosed`."""
        self._check_open("skipped")
        self._end = "skipped"

    def roots(self) -> list[int]:
        """Return the ids of its roots, each once."""
        return list(dict.fromkeys(self._ids()[::2]))

    def _check_open(self, use: str) -> None:
        if self._end:
            raise self._closed_error(use)


def check_tuple(tup: BaseTuple) -> BaseTuple:
    """Return the argument of a verb if it is a tuple. Raises `UsageError`."""
    if isinstance(tup, BaseTuple):
        return tup
    raise validate.no_tuple(tup)


def anchor_child(tuples: "Sequence[BaseTuple]", *, key: str | None) -> "Anchors":
    """Anchor one child to all these tuples. Raises `DuplicateKey`, `TupleClosed`, `TooManyAnchors`, `UsageError`."""
    topologies = {check_tuple(tup).topology for tup in tuples}
    if len(topologies) != 1:
        raise UsageError("a child is anchored to one tuple or more, all of the same topology")
    parents = [edges for tup in tuples for edges in tup.parents(key)]
    return from_ids(topologies.pop(), tuple(add_child(parents, key=key)))
