"""The current tuple or root of a thread or task, whose anchors outgoing messages carry. ::

    with acker.receive(headers, component="order"):  # current in its block
        inject(outgoing_headers)  # anchors a child to it

As OpenTelemetry's ``propagate`` and ``context``.
"""

import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from acker_protocol.anchors import Anchors, Headers, anchors_value, find_anchors
from acker_protocol.anchors_signature import check_signature, write_signature
from acker_protocol.routes import ANCHORS, ANCHORS_SIGNATURE

from acker_client._core import validate

__all__ = ["AnchorParent", "current", "extract", "inject", "sign", "use", "verify"]


class AnchorParent(Protocol):
    """What children are anchored to: a tuple or a root."""

    def anchor(self, key: str | None = None) -> Anchors:
        """Anchor a child."""

    def headers(self, key: str | None = None) -> dict[str, str]:
        """Anchor a child, and give its header."""


_current: "ContextVar[AnchorParent | None]" = ContextVar("acker_current", default=None)
get_current, set_current = _current.get, _current.set


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


def inject(
    headers: MutableMapping[str, Any], key: str | None = None, *, secret: str | Sequence[str] | None = None
) -> None:
    """Anchor a child to the current tuple or root, and add its header to ``headers``, with a ``secret`` signed.

    A signature that they have is of other anchors, and is removed. Does nothing without a current one, or where
    ``headers`` have anchors already: whoever made these signs them. Raises `DuplicateKey`, `TupleClosed`, `UsageError`.
    """
    parent = _current.get()
    if parent is None or any(_is_named(name, ANCHORS) for name in headers):
        return
    own = parent.headers(key)
    if own:
        _remove_signature(headers)
    headers.update(own if secret is None else sign(own, secret=secret))


def extract(headers: Headers) -> Anchors | None:
    """Read the anchors of a message, of any topology; None without the header. Raises `InvalidHeader`."""
    return find_anchors(headers)


def sign(headers: Mapping[str, Any], *, secret: str | Sequence[str]) -> dict[str, Any]:
    """Return the headers of an HTTP request with a signature of their anchors; as they are, if they have none. ::

        session.post(url, headers=sign(tup.headers(key="charge"), secret=SECRET))

    The signature holds for five minutes from now, and replaces one that they have. Of several secrets the first signs.
    Raises `UsageError`, and `InvalidHeader` for several anchors' headers.
    """
    keys = validate.secrets("secret", secret)
    others = {name: value for name, value in headers.items() if not _is_named(name, ANCHORS_SIGNATURE)}
    anchors = anchors_value(headers)
    if anchors is None:
        return others
    return others | {ANCHORS_SIGNATURE: write_signature(keys, anchors, now_s=time.time())}


def verify(headers: Headers, *, secret: str | Sequence[str]) -> None:
    """Check that a holder of the secret signed the anchors of an HTTP request within the last five minutes.

    Headers without anchors are accepted. Headers are read twice: give no iterator. Of several secrets any will do.
    Raises `InvalidSignature`, `InvalidHeader`, `UsageError`.
    """
    check_signature(validate.secrets("secret", secret), headers, now_s=time.time())


def _is_named(name: Any, header: str) -> bool:
    return str(name).lower() == header.lower()


def _remove_signature(headers: MutableMapping[str, Any]) -> None:
    for name in [*headers]:
        if _is_named(name, ANCHORS_SIGNATURE) and name in headers:  # some list each spelling, and delete all at once
            del headers[name]


def enter(parent: AnchorParent | None) -> AnchorParent | None:
    """Make it current, and give the one before, for `leave`."""
    around = _current.get()
    _current.set(parent)
    return around


def leave(around: AnchorParent | None) -> None:
    """Make the one before current again."""
    _current.set(around)
