"""The signals that stop an acker, what it logs at them, and the end of a child process when its parent ends."""

import asyncio
import contextlib
import ctypes
import signal
import sys
from collections.abc import Callable, Iterator

_PR_SET_PDEATHSIG = 1

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_S = 10
"""How long requests in flight may take after a stop signal, or once the process has drained."""


def cancel_start_on_signals() -> None:
    """Let a signal cancel the start, with its clean-up, until the server handles signals."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in SIGNALS:
        loop.add_signal_handler(number, task.cancel)


@contextlib.contextmanager
def handled(stop: Callable[[int], None]) -> Iterator[None]:
    """Call ``stop`` with the number of each signal that comes until the block is left."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def stop_line(number: int, drain_s: float) -> str:
    """Describe how the acker stops; ``drain_s`` 0: without draining."""
    drain = f"answers on for {drain_s:g} s with Connection: close, then " if drain_s else ""
    return f"stops at {signal.Signals(number).name}: {drain}requests in flight have {GRACE_S} s to end"


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
