"""Runs what is measured over HTTP as processes of their own: the acker, and servers that do nothing."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
from acker_protocol.wire.packed import VERSION

from bench import baseline
from bench.servers import Member, one, until
from examples.support.ports import free_port

_SCHED = 2
READY_S = 300.0
"""A server that starts on a busy machine takes its time."""
IDLE_S = 2.0
"""So long it is watched what a process takes that nobody asks anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A process that serves HTTP on this machine, and the version of the packed form that it reads."""

    port: int
    pid: int
    packed_version: int = VERSION

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """Return how many seconds of processor time it has taken, to the microsecond."""
        return clock_s(self.pid)

    def idle(self, seconds: float = IDLE_S) -> float:
        """Return the share of a processor that it takes while it is idle."""
        before = self.cpu_s()
        time.sleep(seconds)
        return (self.cpu_s() - before) / seconds


def clock_s(pid: int) -> float:
    """Read the processor time of a process in seconds.

    This is the process clock of Linux, as `man clock_getcpuclockid` makes it; /proc counts in hundredths only.
    """
    return time.clock_gettime(~pid << 3 | _SCHED)


def family(pid: int) -> list[int]:
    """Return a process and all processes that it and they have started."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found.extend(map(int, (task / "children").read_text().split()))
    return found


def cpu_by_process(pids: list[int]) -> dict[int, float]:
    """Read the processor time of processes in seconds; one that has ended is left out."""
    taken = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            taken[pid] = clock_s(pid)
    return taken


@contextlib.contextmanager
def acker(folder: Path, store: str, *options: str, code: Path = baseline.ROOT) -> Iterator[Served]:
    """Run ``acker serve`` on a store until the block is left, with the present code or that of a checkout."""
    command = ("-m", "acker_service", "serve", "--redis-url", store, *options)
    with _running(folder / f"acker-{code.name}.log", *command, environment=baseline.environment(code)) as served:
        yield replace(served, packed_version=baseline.packed_version(code))


@contextlib.contextmanager
def ackers(codes: Mapping[str, Path], folder: Path, *options: str) -> Iterator[dict[str, tuple[Served, Member]]]:
    """Run an acker of each code on a store of its own until the block is left, and yield both by the code's name."""
    with contextlib.ExitStack() as stack:
        running = {}
        for name, code in codes.items():
            store = stack.enter_context(one(folder))
            running[name] = stack.enter_context(acker(folder, store.url, *options, code=code)), store
        yield running


@contextlib.contextmanager
def nothing(folder: Path, kind: str) -> Iterator[Served]:
    """Run one of the applications of `bench.nothing` until the block is left."""
    with _running(folder / f"{kind}.log", "-m", "bench.nothing", kind) as served:
        yield served


@contextlib.contextmanager
def _running(log: Path, *command: str, environment: dict[str, str] | None = None) -> Iterator[Served]:
    port = free_port()
    with log.open("ab") as out:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ACKER_")}
        command = (sys.executable, *command, "--port", str(port))
        own = inherited | {"ACKER_SHUTDOWN_DRAIN_S": "0"} | (environment or {})
        process = subprocess.Popen(command, stdout=out, stderr=out, env=own)
    try:
        served = Served(port=port, pid=process.pid)
        until(lambda: _answers(served, process, log), f"ready; see {log}", within=READY_S)
        yield served
    finally:
        process.terminate()
        process.wait(30)


def _answers(served: Served, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"it ended with {process.returncode}: {log.read_text()[-500:]}")
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{served.url}/readyz", trust_env=False).is_success
    return False
