"""Runs what is measured over HTTP as processes of their own: the acker, and servers that do nothing."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.servers import until
from examples.support.ports import free_port

_SCHED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A process that serves HTTP on this machine."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """Say how many seconds of processor time it has taken, to the microsecond.

        This is the process clock of Linux, as `man clock_getcpuclockid` makes it; /proc counts in hundredths only.
        """
        return time.clock_gettime(~self.pid << 3 | _SCHED)


@contextlib.contextmanager
def acker(folder: Path, store: str, *options: str) -> Iterator[Served]:
    """Run ``acker serve`` on a store until the block is left."""
    with _running(folder / "acker.log", "-m", "acker_service", "serve", "--redis-url", store, *options) as served:
        yield served


@contextlib.contextmanager
def nothing(folder: Path, kind: str) -> Iterator[Served]:
    """Run one of the applications of `bench.nothing` until the block is left."""
    with _running(folder / f"{kind}.log", "-m", "bench.nothing", kind) as served:
        yield served


@contextlib.contextmanager
def _running(log: Path, *command: str) -> Iterator[Served]:
    port = free_port()
    with log.open("ab") as out:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ACKER_")}
        environment["ACKER_SHUTDOWN_DRAIN_S"] = "0"
        command = (sys.executable, *command, "--port", str(port))
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        served = Served(port=port, pid=process.pid)
        until(lambda: _answers(served, process), f"ready; see {log}")
        yield served
    finally:
        process.terminate()
        process.wait(30)


def _answers(served: Served, process: "subprocess.Popen[bytes]") -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"it ended with {process.returncode}")
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{served.url}/readyz", trust_env=False).is_success
    return False
