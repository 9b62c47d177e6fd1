"""A tuple that a bolt has received: its anchors, its children, and the block that acks or fails it."""

import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol, Self

from acker_protocol.operations import Ack, Fail, Operation, OperationState, ResetTimeout
from acker_protocol.wire.fields import REASON_CHARACTERS

from acker_client import _validate, propagate
from acker_client._core.edges import EdgeSet, add_child
from acker_client.errors import TupleClosed, UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from types import TracebackType

    from acker_protocol.anchors import Anchors

    from acker_client._core.effects import Flow, T
    from acker_client.config import OnError

    class Submitter(Protocol):
        """The flows that end a tuple."""

        def ack(self, tup: "BaseTuple") -> Flow[list[OperationState]]:
            """Ack it."""

        def fail(self, tup: "BaseTuple", *, reason: str | None) -> Flow[list[OperationState]]:
            """Fail its roots."""

        def reset_timeout(self, tup: "BaseTuple") -> Flow[list[OperationState]]:
            """Reset the timeout of its roots."""

        def open(self, tup: "BaseTuple") -> Flow[None]:
            """Begin its block."""

        def complete(self, tup: "BaseTuple") -> Flow[list[OperationState]]:
            """End its block."""

        def interrupt(self, tup: "BaseTuple", error: BaseException) -> Flow[bool]:
            """End its block with an exception."""

    class Run(Protocol):
        """Runs a flow in a thread."""

        def __call__(self, flow: Flow[T]) -> T:
            """Run it."""

    class RunAsync(Protocol):
        """Runs a flow in an event loop."""

        def __call__(self, flow: Flow[T]) -> Coroutine[Any, Any, T]:
            """Run it."""


class BaseTuple:
    """What `Tuple` and `AsyncTuple` have in common; not for several threads at once.

    ``repeatable`` says that a re-run makes the same children in the same order: then children without a key are
    numbered. Else their edges are random.
    """

    __slots__ = (
        "_around",
        "_edges",
        "_end",
        "_keys_needed",
        "_made_by",
        "anchors",
        "component",
        "on_error",
        "repeatable",
    )

    def __init__(
        self, anchors: "Anchors", component: str, *, on_error: "OnError" = "fail", repeatable: bool = False
    ) -> None:
        self.anchors = anchors
        self.component = component
        self.on_error = on_error
        self.repeatable = repeatable
        self._edges = [EdgeSet(anchor, component, numbered=repeatable) for anchor in anchors.anchors]
        self._end = ""
        self._keys_needed = ""
        self._made_by = _execution() if repeatable else None
        self._around: propagate.AnchorParent | None = None

    def __str__(self) -> str:
        listed = ",".join(map(str, self.anchors.anchors)) or "without anchors"
        return f"tuple of {self.component!r} ({listed})"

    @property
    def closed(self) -> bool:
        """Whether it has been acked or failed."""
        return bool(self._end)

    @property
    def tracked(self) -> bool:
        """Whether it has anchors."""
        return bool(self._edges)

    def anchor(self, key: str | None = None) -> "Anchors":
        """Anchor a child to this tuple. Raises `DuplicateKey` and `TupleClosed`.

        With a ``key``, a business key of the child within this tuple, a re-run of the bolt gives the child the same
        edge. Without one its edge is random; in a ``repeatable`` tuple its number is its key.
        """
        return anchor_child([self], key=key)

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Anchor a child, and give the header for its message; empty if the tuple is not tracked. See `anchor`."""
        return anchor_child([self], key=key).headers()

    def require_keys(self, reason: str) -> None:
        """Refuse children without a key from now on."""
        self._keys_needed = reason

    def parents(self, key: str | None) -> "Sequence[EdgeSet]":
        """Give its edge sets as parents of a new child. Raises `TupleClosed`, and `UsageError` if it needs a key."""
        self._check_open("anchored to")
        if key is None and self._edges:
            self._check_keyless()
        return self._edges

    def ack_operations(self) -> "list[Operation]":
        """Close the tuple, and give one ack per anchor, with its edge id."""
        self._close("acked")
        return [
            Ack(
                root_id=edges.anchor.root_id,
                ack_val=edges.ack_val,
                outstanding=edges.outstanding,
                edge_id=edges.anchor.edge_id,
                component=self.component,
            )
            for edges in self._edges
        ]

    def fail_operations(self, reason: str | None) -> "list[Operation]":
        """Close the tuple, and give one fail per root, with the reason cut to what the contract takes."""
        _validate.text("reason", reason)
        self._close("failed")
        words = reason and reason.encode(errors="replace").decode()[:REASON_CHARACTERS]
        return [Fail(root_id=root, reason=words, component=self.component) for root in self._roots()]

    def reset_operations(self) -> "list[Operation]":
        """Give one reset of the timeout per root; the tuple stays open."""
        self._check_open("given more time")
        return [ResetTimeout(root_id=root, component=self.component) for root in self._roots()]

    def _roots(self) -> list[int]:
        return list(dict.fromkeys(anchor.root_id for anchor in self.anchors.anchors))

    def _close(self, end: str) -> None:
        self._check_open(end)
        self._end = end

    def _check_open(self, use: str) -> None:
        if self._end:
            raise TupleClosed(f"{self} was {self._end} and cannot be {use} any more")

    def _check_keyless(self) -> None:
        """The number of a child is its place in the order of one thread or task; beside it there is no order."""
        if self._keys_needed:
            raise UsageError(f"{self} has a child without a key; {self._keys_needed}")
        if self._made_by is not None and self._made_by != _execution():
            raise UsageError(
                f"{self} is repeatable, and a child is made in another thread or task than it was received in: "
                "give this child a key"
            )


class Tuple(BaseTuple):
    """A tuple of an `Acker`, open until it is acked or failed.

    As a context manager it is *current* within its block (`acker_client.propagate`), acked when the block ends, and
    failed when it raises, or left open as ``on_error`` says. `FailTuple` and `DropTuple` do not leave the block.
    KeyboardInterrupt and other ends of the program send nothing.
    """

    __slots__ = ("_run", "_submitter")

    def __init__(
        self,
        anchors: "Anchors",
        component: str,
        *,
        on_error: "OnError" = "fail",
        repeatable: bool = False,
        submitter: "Submitter",
        run: "Run",
    ) -> None:
        BaseTuple.__init__(self, anchors, component, on_error=on_error, repeatable=repeatable)
        self._submitter, self._run = submitter, run

    def ack(self) -> list[OperationState]:
        """Ack the tuple. See `Acker.ack`."""
        return self._run(self._submitter.ack(self))

    def fail(self, reason: str | None = None) -> list[OperationState]:
        """Fail every root of the tuple. See `Acker.fail`."""
        return self._run(self._submitter.fail(self, reason=reason))

    def reset_timeout(self) -> list[OperationState]:
        """Give every root of the tuple its message timeout again. See `Acker.reset_timeout`."""
        return self._run(self._submitter.reset_timeout(self))

    def __enter__(self) -> Self:
        self._run(self._submitter.open(self))
        self._around = propagate.enter(self)
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: "TracebackType | None") -> bool:
        propagate.leave(self._around)
        if error is not None:
            return self._run(self._submitter.interrupt(self, error))
        self._run(self._submitter.complete(self))
        return False


class AsyncTuple(BaseTuple):
    """A tuple of an `AsyncAcker`, open until it is acked or failed.

    As an async context manager it is *current* within its block (`acker_client.propagate`), acked when the block ends,
    and failed when it raises, or left open as ``on_error`` says. `FailTuple` and `DropTuple` do not leave the block. A
    cancelled task sends nothing.
    """

    __slots__ = ("_run", "_submitter")

    def __init__(
        self,
        anchors: "Anchors",
        component: str,
        *,
        on_error: "OnError" = "fail",
        repeatable: bool = False,
        submitter: "Submitter",
        run: "RunAsync",
    ) -> None:
        BaseTuple.__init__(self, anchors, component, on_error=on_error, repeatable=repeatable)
        self._submitter, self._run = submitter, run

    def ack(self) -> "Coroutine[Any, Any, list[OperationState]]":
        """Ack the tuple. See `AsyncAcker.ack`."""
        return self._run(self._submitter.ack(self))

    def fail(self, reason: str | None = None) -> "Coroutine[Any, Any, list[OperationState]]":
        """Fail every root of the tuple. See `AsyncAcker.fail`."""
        return self._run(self._submitter.fail(self, reason=reason))

    def reset_timeout(self) -> "Coroutine[Any, Any, list[OperationState]]":
        """Give every root of the tuple its message timeout again. See `AsyncAcker.reset_timeout`."""
        return self._run(self._submitter.reset_timeout(self))

    async def __aenter__(self) -> Self:
        await self._run(self._submitter.open(self))
        self._around = propagate.enter(self)
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: "TracebackType | None"
    ) -> bool:
        propagate.leave(self._around)
        if error is not None:
            return await self._run(self._submitter.interrupt(self, error))
        await self._run(self._submitter.complete(self))
        return False

    def __enter__(self) -> Self:
        raise UsageError("a tuple of an AsyncAcker is used with `async with`")

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError


def check_tuple(tup: BaseTuple) -> BaseTuple:
    """Give the argument of a verb if it is a tuple. Raises `UsageError`."""
    _validate.instance("what is acked, failed or anchored to", tup, BaseTuple, "a tuple, as acker.receive() gives it")
    return tup


def anchor_child(tuples: "Sequence[BaseTuple]", *, key: str | None) -> "Anchors":
    """Anchor one child to all these tuples. Raises `DuplicateKey`, `TupleClosed`, `TooManyAnchors`, `UsageError`."""
    topologies = {check_tuple(tup).anchors.topology for tup in tuples}
    if len(topologies) != 1:
        raise UsageError("a child is anchored to one tuple or more, all of the same topology")
    parents = [edges for tup in tuples for edges in tup.parents(key)]
    return add_child(parents, topology=topologies.pop(), key=key)


def _execution() -> tuple[int, object]:
    """Identify the running thread, and the running task of asyncio if it is used (without importing it)."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = asyncio.current_task() if asyncio is not None else None
    except RuntimeError:
        task = None
    return threading.get_ident(), task
