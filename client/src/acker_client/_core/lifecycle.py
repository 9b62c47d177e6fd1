"""The clients of this process: flushes them when it ends, empties them in the child of a fork."""

import atexit
import logging
import os
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable


class Closeable(Protocol):
    """A client, as far as the end of the process needs it."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight and no failure is unreported."""

    def flush_at_exit(self) -> None:
        """Send what is buffered, and buffer nothing afterwards."""

    def after_fork_in_child(self) -> None:
        """Drop buffers and connections, in the child of a fork."""


_clients: "WeakSet[Closeable]" = WeakSet()
_kept_alive: "set[Closeable]" = set()


def register(client: Closeable) -> None:
    """Flush this client when the interpreter ends, and empty it in the child of a fork."""
    _clients.add(client)


def keep_alive(client: Closeable) -> None:
    """Keep a client that its program dropped before all was sent, as happens at the end of an event loop."""
    _kept_alive.difference_update([kept for kept in _kept_alive if kept.is_idle])
    _kept_alive.add(client)


def flush_all() -> None:
    """Flush every client. What cannot be delivered is logged, since no caller is left."""
    for client in (*_clients, *_kept_alive):
        _flush(client.flush_at_exit)


def _flush(flush: "Callable[[], None]") -> None:
    try:
        flush()
    except Exception:
        logging.getLogger("acker_client").exception("acks were not delivered before the program ended")


def _after_fork_in_child() -> None:
    for client in (*_clients, *_kept_alive):
        client.after_fork_in_child()


atexit.register(flush_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
