"""Knows the ackers of this process, and what becomes of their acks when it ends or forks."""

import atexit
import logging
import os
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable


class Living(Protocol):
    """An acker, as far as the end of the process goes."""

    @property
    def settled(self) -> bool:
        """Whether it has nothing on its way and nothing to tell."""

    def leave(self) -> None:
        """Send what lingers; none comes after that."""

    def start_anew(self) -> None:
        """Be empty and without connections, in the child of a fork."""


_living: "WeakSet[Living]" = WeakSet()
_kept: "set[Living]" = set()


def remember(acker: Living) -> None:
    """Let an acker send what lingers when the interpreter ends, and be empty in a child."""
    _living.add(acker)


def keep(acker: Living) -> None:
    """Keep an acker that its program has dropped before all was sent, as one does with an event loop."""
    _kept.difference_update([kept for kept in _kept if kept.settled])
    _kept.add(acker)


def leave_all() -> None:
    """Let every acker leave; what one of them cannot deliver is logged, there is nobody else to tell."""
    for acker in (*_living, *_kept):
        _leave(acker.leave)


def _leave(leave: "Callable[[], None]") -> None:
    try:
        leave()
    except Exception:
        logging.getLogger("acker_client").exception("acks were not delivered before the program ended")


def _start_anew() -> None:
    for acker in (*_living, *_kept):
        acker.start_anew()


atexit.register(leave_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
