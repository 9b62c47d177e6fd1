"""Stops processes, lets them go on, and measures them. A signal takes its time: both wait until it has worked."""

import json
import os
import signal
import time
from functools import cache
from pathlib import Path

from tests.support.waiting import eventually_true


def freeze(pid: int) -> None:
    """SIGSTOP; comes back when the process stands still."""
    os.kill(pid, signal.SIGSTOP)
    eventually_true(lambda: stands_still(pid), within=30)


def thaw(pid: int) -> None:
    """SIGCONT; nothing happens to one that was not stopped."""
    os.kill(pid, signal.SIGCONT)


def resident_kib(pid: int) -> int:
    """Return the memory that a process holds."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used. Unlike the clock, it depends on nothing else the machine does."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@cache
def parsing_cpu_seconds() -> float:
    """Measure the CPU time that this machine takes to parse four megabytes of empty lists.

    A process that does not answer for as long stalls its callers; how long that is depends on the machine.
    """
    body = b"[" + b",".join([b"[]"] * 1_400_000) + b"]"
    began = time.thread_time()
    json.loads(body)
    return time.thread_time() - began


def stands_still(pid: int) -> bool:
    """Whether a process was stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
