"""Knows the batch that is open around a piece of a program, and gathers its operations."""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from acker_client.folding import Gathered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from acker_client.calls import Answer


class Batch:
    """Operations that go out together when their block is left; ``answers`` are there afterwards, in their order.

    Acks of one root are one operation, as where acks linger; with ``linger_ms=0`` each is one of its own.
    """

    __slots__ = ("answers", "closed", "gathered", "owner")

    def __init__(self, *, owner: object) -> None:
        self.owner = owner
        self.answers: Sequence[Answer] = ()
        self.closed = False
        self.gathered = Gathered()

    def __len__(self) -> int:
        return len(self.gathered)


_open: "ContextVar[tuple[Batch, ...]]" = ContextVar("acker_open_batches", default=())


@contextmanager
def gathering(owner: object) -> "Iterator[Batch]":
    """Open a batch of this owner for the code in the block: this thread or task, and tasks it starts."""
    around = _open.get()
    batch = Batch(owner=owner)
    _open.set((*around, batch))
    try:
        yield batch
    finally:
        batch.closed = True
        _open.set(around)


def open_batch(owner: object) -> Batch | None:
    """Find the innermost batch of this owner; a task that outlives its batch finds it closed and does without."""
    return next((batch for batch in reversed(_open.get()) if batch.owner is owner and not batch.closed), None)
