"""A tuple that a bolt has received: its anchors, its children, and the block that acks or fails it."""

from typing import TYPE_CHECKING, Any, Protocol, Self

from acker_protocol.operations import OperationState

from acker_client._core.tuple_base import BaseTuple
from acker_client.errors import UsageError
from acker_client.propagate import get_current, set_current

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from acker_client._core.effects import Flow, T

    class Run(Protocol):
        """Runs a flow in a thread."""

        def __call__(self, flow: Flow[T]) -> T:
            """Run it."""

    class RunAsync(Protocol):
        """Runs a flow in an event loop."""

        def __call__(self, flow: Flow[T]) -> Coroutine[Any, Any, T]:
            """Run it."""


class Tuple(BaseTuple):
    """A tuple of an `Acker`, open until it is acked or failed.

    As a context manager it is *current* within its block (`acker_client.propagate`), acked when the block ends, and
    failed when it raises, or left open as ``on_error`` says. `FailTuple` and `DropTuple` do not leave the block.
    KeyboardInterrupt and other ends of the program send nothing.
    """

    __slots__ = ()

    def ack(self, *, flush: bool = False) -> list[OperationState]:
        """Ack the tuple, and flush if asked to. See `Acker.ack`."""
        context = self._context
        remaining = context.ack(self, flush)
        states = [] if remaining is None else self._run(remaining)
        if flush:
            context.driver.flush(context.submitter.flusher)
        return states

    def fail(self, reason: str | None = None) -> list[OperationState]:
        """Fail every root of the tuple. See `Acker.fail`."""
        return self._run(self._context.submitter.fail(self, reason=reason))

    def reset_timeout(self) -> list[OperationState]:
        """Return every root of the tuple its message timeout again. See `Acker.reset_timeout`."""
        return self._run(self._context.submitter.reset_timeout(self))

    def is_wanted(self) -> bool:
        """Whether the tuple is to be processed: False if all its roots are finished.

        An answer counts for a second, and callers that ask at the same time share a request. A root that is early or
        unknown, an error, and a step of the request that takes half a second mean True; so does a tuple that is not
        tracked.
        """
        return self._run(self._context.submitter.is_wanted(self))

    def skip_if_ended(self) -> bool:
        """Close the tuple and count it (``stats().skipped``) if `is_wanted` says no; nothing is sent. True if so."""
        return self._run(self._context.submitter.skip_if_ended(self))

    def _run(self, flow: "Flow[T]") -> "T":
        run: Run = self._context.driver.run
        return run(flow)

    def __enter__(self) -> Self:
        remaining = self.open_block()
        if remaining is not None:
            self._run(remaining)
        self._around = get_current()
        set_current(self)
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: "TracebackType | None") -> bool:
        set_current(self._around)
        if error is not None:
            return self._run(self._context.submitter.interrupt(self, error))
        remaining = self.complete()
        if remaining is not None:
            self._run(remaining)
        return False


class AsyncTuple(BaseTuple):
    """A tuple of an `AsyncAcker`, open until it is acked or failed.

    As an async context manager it is *current* within its block (`acker_client.propagate`), acked when the block ends,
    and failed when it raises, or left open as ``on_error`` says. `FailTuple` and `DropTuple` do not leave the block. A
    cancelled task sends nothing.
    """

    __slots__ = ()

    async def ack(self, *, flush: bool = False) -> list[OperationState]:
        """Ack the tuple, and flush if asked to. See `AsyncAcker.ack`."""
        context = self._context
        remaining = context.ack(self, flush)
        states = [] if remaining is None else await self._run(remaining)
        if flush:
            await context.driver.flush(context.submitter.flusher)
        return states

    async def fail(self, reason: str | None = None) -> list[OperationState]:
        """Fail every root of the tuple. See `AsyncAcker.fail`."""
        return await self._run(self._context.submitter.fail(self, reason=reason))

    async def reset_timeout(self) -> list[OperationState]:
        """Return every root of the tuple its message timeout again. See `AsyncAcker.reset_timeout`."""
        return await self._run(self._context.submitter.reset_timeout(self))

    async def is_wanted(self) -> bool:
        """Whether the tuple is to be processed. See `Tuple.is_wanted`."""
        return await self._run(self._context.submitter.is_wanted(self))

    async def skip_if_ended(self) -> bool:
        """Close the tuple and count it if its roots have ended. See `Tuple.skip_if_ended`."""
        return await self._run(self._context.submitter.skip_if_ended(self))

    def _run(self, flow: "Flow[T]") -> "Coroutine[Any, Any, T]":
        run: RunAsync = self._context.driver.run
        return run(flow)

    async def __aenter__(self) -> Self:
        remaining = self.open_block()
        if remaining is not None:
            await self._run(remaining)
        self._around = get_current()
        set_current(self)
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: "TracebackType | None"
    ) -> bool:
        set_current(self._around)
        if error is not None:
            return await self._run(self._context.submitter.interrupt(self, error))
        remaining = self.complete()
        if remaining is not None:
            await self._run(remaining)
        return False

    def __enter__(self) -> Self:
        raise UsageError("a tuple of an AsyncAcker is used with `async with`")

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError
