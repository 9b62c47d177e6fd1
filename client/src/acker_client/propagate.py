"""The current tuple or root of a thread or task, whose anchors outgoing messages carry. ::

    with acker.receive(headers, component="order"):  # current in its block
        inject(outgoing_headers)  # anchors a child to it

As OpenTelemetry's ``propagate`` and ``context``.
"""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from acker_protocol.anchors import Anchors, Headers, find_anchors
from acker_protocol.routes import ANCHORS

__all__ = ["AnchorParent", "current", "extract", "inject", "use"]


class AnchorParent(Protocol):
    """What children are anchored to: a tuple or a root."""

    def anchor(self, key: str | None = None) -> Anchors:
        """Anchor a child."""

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Anchor a child, and give its header."""


_current: "ContextVar[AnchorParent | None]" = ContextVar("acker_current", default=None)


@contextmanager
def use(parent: AnchorParent | None) -> Iterator[None]:
    """Make a tuple or root current in the block; None: none is.

    The block is this thread or task, and what copies its context: tasks that it starts, ``asyncio.to_thread``. One that
    outlives the tuple and injects then gets `TupleClosed`. Of nested blocks the inner one holds.
    """
    around = enter(parent)
    try:
        yield
    finally:
        leave(around)


def current() -> AnchorParent | None:
    """Return the current tuple or root, None outside of any block."""
    return _current.get()


def inject(headers: MutableMapping[str, Any], key: str | None = None) -> None:
    """Anchor a child to the current tuple or root, and add its header to ``headers``.

    Does nothing without a current one, or where ``headers`` have anchors already. Raises `DuplicateKey`, `TupleClosed`.
    """
    parent = _current.get()
    if parent is not None and not any(str(name).lower() == ANCHORS.lower() for name in headers):
        headers.update(parent.headers(key))


def extract(headers: Headers) -> Anchors | None:
    """Read the anchors of a message, of any topology; None without the header. Raises `InvalidHeader`."""
    return find_anchors(headers)


def enter(parent: AnchorParent | None) -> AnchorParent | None:
    """Make it current, and give the one before, for `leave`."""
    around = _current.get()
    _current.set(parent)
    return around


def leave(around: AnchorParent | None) -> None:
    """Make the one before current again."""
    _current.set(around)
