"""Stops processes and lets them go on, and comes back when that is so: a signal takes its time."""

import os
import signal
from pathlib import Path

from tests.support.waiting import eventually_true


def freeze(pid: int) -> None:
    """SIGSTOP; comes back when the process stands still."""
    os.kill(pid, signal.SIGSTOP)
    eventually_true(lambda: stands_still(pid), within=30)


def thaw(pid: int) -> None:
    """SIGCONT; nothing happens to one that was not stopped."""
    os.kill(pid, signal.SIGCONT)


def stands_still(pid: int) -> bool:
    """Whether a process was stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
