"""The batch that is open around a part of a program, and collects its operations."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

from acker_client._core.hot_path import FoldedOperations, open_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from acker_client._core.requests import OperationResult


class Batch:
    """Operations that are sent together at the end of their block; ``results`` are set afterwards, in their order.

    Acks of one root are one operation, as in the background; with ``linger=0`` each is one of its own.
    """

    __slots__ = ("closed", "operations", "owner", "results")

    def __init__(self, *, owner: object) -> None:
        self.owner = owner
        self.results: Sequence[OperationResult] = ()
        self.closed = False
        self.operations = FoldedOperations()

    def __len__(self) -> int:
        return len(self.operations)


@contextmanager
def collecting(owner: object) -> "Iterator[Batch]":
    """Open a batch of this owner for the block: for this thread or task, and the tasks that it starts."""
    around = open_batches.get()
    batch = Batch(owner=owner)
    open_batches.set((*around, batch))
    try:
        yield batch
    finally:
        batch.closed = True
        open_batches.set(around)
