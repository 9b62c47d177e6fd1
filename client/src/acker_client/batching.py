"""Knows the batch that is open around a piece of a program, and gathers its operations."""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from acker_protocol.messages import Message

    from acker_client.calls import Answer


class Batch:
    """Operations that go out together when their block is left; ``answers`` are there afterwards, in their order."""

    __slots__ = ("_messages", "answers", "closed", "owner")

    def __init__(self, *, owner: object) -> None:
        self.owner = owner
        self.answers: Sequence[Answer] = ()
        self.closed = False
        self._messages: list[Message] = []

    def __len__(self) -> int:
        return len(self._messages)

    def gather(self, messages: "Sequence[Message]") -> None:
        """Take operations in, in the order in which the program gave them."""
        self._messages += messages

    def messages(self) -> "Sequence[Message]":
        """Give the operations gathered so far."""
        return tuple(self._messages)


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
