"""What tuples of threads and of tasks have in common: anchors, children, and the operations that end them."""

import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from acker_protocol.anchors import from_ids, write_header
from acker_protocol.operations import Fail, Operation, OperationState, ResetTimeout
from acker_protocol.tracing import is_marked
from acker_protocol.wire.fields import REASON_CHARACTERS

from acker_client import propagate
from acker_client._core import validate
from acker_client._core.edges import EdgeSet, add_child
from acker_client.errors import TupleClosed, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from acker_protocol.anchors import Anchors

    from acker_client._core.effects import Flow, Remaining
    from acker_client._core.folding import Acks
    from acker_client.config import OnError

    class Submitter(Protocol):
        """What begins and ends a tuple."""

        def ack(self, tup: "BaseTuple") -> Remaining[list[OperationState]]:
            """Ack it."""

        def fail(self, tup: "BaseTuple", *, reason: str | None) -> Flow[list[OperationState]]:
            """Fail its roots."""

        def reset_timeout(self, tup: "BaseTuple") -> Flow[list[OperationState]]:
            """Reset the timeout of its roots."""

        def is_wanted(self, tup: "BaseTuple") -> Flow[bool]:
            """Whether it is to be processed."""

        def skip_if_ended(self, tup: "BaseTuple") -> Flow[bool]:
            """Close it if it is not."""

        def skip(self, tup: "BaseTuple") -> None:
            """Close it and count it, whatever became of its roots."""

        def open(self, tup: "BaseTuple") -> Remaining[None]:
            """Begin its block."""

        def complete(self, tup: "BaseTuple") -> Remaining[list[OperationState]]:
            """End its block."""

        def interrupt(self, tup: "BaseTuple", error: BaseException) -> Flow[bool]:
            """End its block with an exception."""


RunT = TypeVar("RunT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleContext(Generic[RunT]):
    """What all tuples of one client share; ``prefix`` is that of their header."""

    topology: str
    prefix: str
    submitter: "Submitter"
    run: RunT


class BaseTuple:
    """What `Tuple` and `AsyncTuple` have in common; not for several threads at once.

    ``ids`` are the root id and the edge id of each of its anchors in turn. ``repeatable`` says that a re-run makes the
    same children in the same order: then children without a key are numbered. Else their edges are random.
    """

    __slots__ = (
        "_anchors",
        "_around",
        "_context",
        "_edges",
        "_end",
        "_ids",
        "_keys_needed",
        "_made_by",
        "component",
        "on_error",
        "repeatable",
    )

    def __init__(
        self,
        *,
        context: TupleContext[Any],
        ids: tuple[int, ...],
        component: str,
        on_error: "OnError" = "fail",
        repeatable: bool = False,
    ) -> None:
        self._context = context
        self._ids = ids
        self.component = component
        self.on_error = on_error
        self.repeatable = repeatable
        self._anchors: Anchors | None = None  # these and the edges are made when they are needed
        self._edges: list[EdgeSet] | None = None
        self._end = ""
        self._keys_needed = ""
        self._made_by = _execution() if repeatable else None
        self._around: propagate.AnchorParent | None = None

    def __str__(self) -> str:
        listed = ",".join(map(str, self.anchors.anchors)) or "without anchors"
        return f"tuple of {self.component!r} ({listed})"

    @property
    def anchors(self) -> "Anchors":
        """The anchors of its message."""
        if self._anchors is None:
            self._anchors = from_ids(self.topology, self._ids)
        return self._anchors

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

    @property
    def tracked(self) -> bool:
        """Whether it has anchors."""
        return bool(self._ids)

    def anchor(self, key: str | None = None) -> "Anchors":
        """Anchor a child to this tuple. Raises `DuplicateKey` and `TupleClosed`.

        With a ``key``, a business key of the child within this tuple, a re-run of the bolt gives the child the same
        edge. Without one its edge is random; in a ``repeatable`` tuple its number is its key.
        """
        return from_ids(self.topology, tuple(add_child(self.parents(key), key=key)))

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Anchor a child, and give the header for its message; empty if the tuple is not tracked. See `anchor`."""
        return write_header(self._context.prefix, add_child(self.parents(key), key=key))

    def derive_as(self, name: str) -> None:
        """Derive the edges of its children from this name, from which that of its component was made.

        Two such names may make one component; the children of one message have edges of their own all the same.
        """
        if name != self.component:
            self._edges = self._make_edges(name)

    def skip(self) -> None:
        """Close the tuple and count it as skipped, where it is known that its roots have ended: nothing is asked."""
        self._context.submitter.skip(self)

    def require_keys(self, reason: str) -> None:
        """Refuse children without a key from now on."""
        self._keys_needed = reason

    def parents(self, key: str | None) -> "Sequence[EdgeSet]":
        """Return its edge sets as parents of a new child. Raises `TupleClosed`, and `UsageError` if it needs a key."""
        if self._end:
            raise self._closed_error("anchored to")
        if key is None and self._ids and (self._keys_needed or self._made_by is not None):
            self._check_keyless()
        if self._edges is None:
            self._edges = self._make_edges(self.component)
        return self._edges

    def take_acks(self) -> "Acks":
        """Close the tuple, and return what it acks.

        It is closed first: an interrupt in between loses the ack, and never lets it be sent twice.
        """
        if self._end:
            raise self._closed_error("acked")
        self._end = "acked"
        return self._ids, self._edges

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
        return list(dict.fromkeys(self._ids[::2]))

    def _make_edges(self, name: str) -> "list[EdgeSet]":
        ids, numbered = self._ids, self.repeatable
        return [
            EdgeSet(root_id=ids[index], edge_id=ids[index + 1], component=name, numbered=numbered)
            for index in range(0, len(ids), 2)
        ]

    def _check_open(self, use: str) -> None:
        if self._end:
            raise self._closed_error(use)

    def _closed_error(self, use: str) -> TupleClosed:
        return TupleClosed(f"{self} was {self._end} and cannot be {use} any more")

    def _check_keyless(self) -> None:
        """The number of a child is its place in the order of one thread or task; beside it there is no order."""
        if self._keys_needed:
            raise UsageError(f"{self} has a child without a key; {self._keys_needed}")
        if self._made_by is not None and self._made_by != _execution():
            raise UsageError(
                f"{self} is repeatable, and a child is made in another thread or task than it was received in: "
                "give this child a key"
            )


def check_tuple(tup: BaseTuple) -> BaseTuple:
    """Return the argument of a verb if it is a tuple. Raises `UsageError`."""
    if isinstance(tup, BaseTuple):
        return tup
    raise validate.wrong("what is acked, failed or anchored to", "a tuple, as acker.receive() gives it", tup)


def anchor_child(tuples: "Sequence[BaseTuple]", *, key: str | None) -> "Anchors":
    """Anchor one child to all these tuples. Raises `DuplicateKey`, `TupleClosed`, `TooManyAnchors`, `UsageError`."""
    topologies = {check_tuple(tup).topology for tup in tuples}
    if len(topologies) != 1:
        raise UsageError("a child is anchored to one tuple or more, all of the same topology")
    parents = [edges for tup in tuples for edges in tup.parents(key)]
    return from_ids(topologies.pop(), tuple(add_child(parents, key=key)))


def _execution() -> tuple[int, object]:
    """Identify the running thread, and the running task of asyncio if it is used (without importing it)."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = asyncio.current_task() if asyncio is not None else None
    except RuntimeError:
        task = None
    return threading.get_ident(), task
