"""Ends a child process when its parent ends, however that happens."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1


def set_parent_death_signal(number: int) -> None:
    """Ask Linux to send this process a signal when the thread that spawned it ends; that has to be the main thread.

    Runs in the child between fork and exec, so it calls libc only. Other systems have no such request.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def end_with_parent() -> None:
    """Let the child be sent SIGTERM when its parent ends."""
    set_parent_death_signal(signal.SIGTERM)


def be_stopped_by_parent_only() -> None:
    """Let the child ignore SIGINT and SIGTERM, which its parent turns into messages, and be killed when that ends.

    A service manager may signal all processes of a group at once: a second signal would end the drain.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    set_parent_death_signal(signal.SIGKILL)
