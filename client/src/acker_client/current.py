"""Knows the tuple whose anchors the requests of a piece of a program carry."""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from acker_client.roots import Root
    from acker_client.tuples import Tuple

_carried: "ContextVar[Tuple | Root | None]" = ContextVar("acker_carried", default=None)


@contextmanager
def carry(tuple_: "Tuple | Root | None") -> "Iterator[None]":
    """Let the requests of hooked clients in the block carry this tuple's anchors, or this root's; None: none.

    In the block is this thread or task, and what takes its context along: tasks it starts, ``asyncio.to_thread``. One
    that outlives the tuple and sends a request then gets `TupleDone`. Of blocks within each other the inner one holds.
    """
    around = _carried.get()
    _carried.set(tuple_)
    try:
        yield
    finally:
        _carried.set(around)


def carried() -> "Tuple | Root | None":
    """Give the tuple whose block this is."""
    return _carried.get()
