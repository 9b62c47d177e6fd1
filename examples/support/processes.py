"""Starts the processes of a run, with their logs in a folder, and ends them by their pid."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 20.0
"""How long a process may take to end before it is killed."""

_NONE: Mapping[str, str] = {}

_ROOT = Path(__file__).parents[2]


class Died(Exception):
    """A process ended that should not have, or did not get ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One process and the file that holds all it said."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def kill(self) -> int:
        """Kill it with SIGKILL, which it cannot handle; give its return code once it is gone."""
        self.process.kill()
        return self.process.wait()

    def kill_group(self) -> int:
        """As ``kill``, and what it has started in its session, such as the JVM of a Spark driver."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()

    def end(self, *, within: float = GRACE_S) -> int:
        """SIGTERM, and SIGKILL if it takes too long, and return its return code."""
        self.process.terminate()
        return self.wait(within=within)

    def wait(self, *, within: float) -> int:
        """Wait until it has ended, and kill it if it takes too long, and return its return code.

        It gets no signal: a Python that ends already would be cut short by a second SIGTERM.
        """
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            return self.kill()

    def tail(self) -> str:
        """Return the end of its log."""
        lines = filter(None, self.log.read_text(errors="replace").splitlines())
        return "\n".join([*lines][-15:])

    def wait_until(self, ready: Callable[[], object], *, within: float = 60.0) -> None:
        """Wait until something is true of it. Raises `Died` if it ends before, or takes longer."""
        until = time.monotonic() + within
        while not ready():
            if not self.runs:
                raise Died(f"{self.name} ended with code {self.process.returncode}:\n{self.tail()}")
            if time.monotonic() > until:
                raise Died(f"{self.name} was not ready within {within:.0f} s:\n{self.tail()}")
            time.sleep(0.05)


class Processes:
    """The children of a run; sessions of their own, so that a Ctrl-C reaches them through the supervisor only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._children: list[Child] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] = _NONE,
        inherited: Sequence[int] = (),
    ) -> Child:
        """Start a program; ``environment`` is added to what all have, ``inherited`` are descriptors it gets."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=_ROOT,
                env={**_environment(self.folder), **environment},
                pass_fds=inherited,
                start_new_session=True,
            )
        child = Child(name=name, process=process, log=log)
        self._children.append(child)
        return child

    def start_module(self, name: str, module: str, *arguments: str, inherited: Sequence[int] = ()) -> Child:
        """Start a Python program by the name of its module."""
        return self.start(name, [sys.executable, "-m", module, *arguments], inherited=inherited)

    def end_all(self) -> None:
        """End what is left, the last one first, and wait until it is gone."""
        for child in reversed(self._children):
            child.process.terminate()
        for child in reversed(self._children):
            child.wait(within=GRACE_S)


@contextlib.contextmanager
def processes_in(folder: Path) -> Iterator[Processes]:
    """Have processes until the block is left, however it is left."""
    folder.mkdir(parents=True, exist_ok=True)
    processes = Processes(folder)
    try:
        yield processes
    finally:
        processes.end_all()


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment without settings for another acker or broker, and without a proxy on the way to us.

    What a process leaves in its temporary folder goes with this one, even if it is killed.
    """
    others = ("ACKER_", "RABBITMQ_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return kept | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "TMPDIR": str(folder)}
