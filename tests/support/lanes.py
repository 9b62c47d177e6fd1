"""Run everything that has to pass before a change lands: `make` targets in lanes that run at the same time.

The first target that fails, or a signal, ends all processes of all lanes. Each target writes to a log of its own; the
end of the log of the failed target is the last that is printed. Needs the standard library only.
"""

import argparse
import contextlib
import ctypes
import os
import re
import shlex
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

QUICK = ("coverage", "check")
"""What runs alone, before any lane begins: `coverage` runs the unit tests. A mistake shows within two minutes."""

LANES = (
    ("test LESS=tests/unit", "spark", "test-model"),
    ("examples", "test-pages", "test-contract", "check-deploy"),
    (
        *("faults", "image-test", "test-runbook", "faults-cluster ONLY=split SETTING=replica:1"),
        *("test-httpx", "test-compiled"),
    ),
)
"""Add new targets here. The lanes run at the same time, each one target after the other: about as long as the others.

What needs root, podman, nftables or network namespaces stands in the last lane.
"""

SHOWN_LINES = 120
"""So many lines of the log of a failed target are printed."""

_SIGNALS = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPT_S = 15.0
"""pytest tears its fixtures down when it is interrupted: it removes network namespaces and containers."""
_TERMINATE_S = 5.0
_CLOSING = re.compile(r"(=+ )?\d+ (passed|failed|error|skipped|deselected|warning).* in [\d.]+s\b.*")
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(slots=True, kw_only=True)
class _Target:
    """A target that runs: its words for `make`, its log, and when it began."""

    words: str
    log: Path
    lane: deque[str]
    started: float


@dataclass(slots=True, kw_only=True)
class _Ended:
    """A child that has ended, with the processor time of itself and of its descendants."""

    pid: int
    code: int
    cpu_s: float


@dataclass(slots=True, kw_only=True)
class Lanes:
    """Lanes of targets; `run` returns the exit code."""

    logs: Path
    _started: float = field(default_factory=time.monotonic)
    _running: dict[int, _Target] = field(default_factory=dict)

    def run(self, *rounds: Sequence[Sequence[str]]) -> int:
        """Run rounds of lanes, one round after the other, and leave no process behind."""
        _adopt_orphans()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self.logs.mkdir(parents=True, exist_ok=True)
        for lanes in rounds:
            for lane in lanes:
                self._start_next(deque(lane))
            if code := self._wait():
                return code
        _end_descendants()
        _say(f"all passed in {self._seconds()} s")
        return 0

    def _wait(self) -> int:
        """Wait until all lanes are done, or until a target fails or a signal comes."""
        while self._running:
            received = signal.sigwait(_SIGNALS)
            if received != signal.SIGCHLD:
                _say(f"interrupted by {signal.Signals(received).name} after {self._seconds()} s")
                self._end()
                return 128 + received
            for child in _ended():
                if (target := self._running.pop(child.pid, None)) is None:
                    continue
                if child.code:
                    return self._fail(target, child)
                self._tell_end(target, "passed", child)
                self._start_next(target.lane)
        return 0

    def _start_next(self, lane: deque[str]) -> None:
        """Start the next target of a lane, in a session of its own."""
        if not lane:
            return
        words = lane.popleft()
        command = ["make", "--no-print-directory", *shlex.split(words)]
        target = _Target(
            words=words, log=self.logs / f"{re.sub('[ /]', '-', words)}.log", lane=lane, started=time.monotonic()
        )
        _say(f"make {words}, {self._seconds()} s after the beginning")
        out = os.open(target.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        empty = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        files = (empty, (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, out, 2))
        pid = os.posix_spawnp(
            "make", command, os.environ, file_actions=files, setsid=True, setsigmask=[], setsigdef=_SIGNALS
        )
        os.close(out)
        self._running[pid] = target

    def _tell_end(self, target: _Target, how: str, child: _Ended) -> None:
        """Print that a target is done, after the closing lines of each pytest that it ran.

        The processor time is that of the processes that ended before their parents.
        """
        for line in target.log.read_text(errors="replace").splitlines():
            if _CLOSING.fullmatch(line):
                sys.stdout.write(f"{line}\n")
        took = round(time.monotonic() - target.started)
        _say(
            f"make {target.words} {how} after {took} s (processors: {child.cpu_s:.0f} s), "
            f"{self._seconds()} s after the beginning"
        )

    def _fail(self, target: _Target, child: _Ended) -> int:
        self._tell_end(target, "failed", child)
        self._end()
        _say(f"make {target.words} failed with code {child.code}; this is the end of {target.log}:")
        lines = target.log.read_text(errors="replace").splitlines()
        sys.stdout.write("".join(f"{line}\n" for line in lines[-SHOWN_LINES:]))
        sys.stdout.flush()
        return 1

    def _end(self) -> None:
        """Interrupt what runs, and end all processes that any target started."""
        for pid, target in self._running.items():
            _say(f"make {target.words} is ended")
            _signal_group(pid, signal.SIGINT)
        _await_children(_INTERRUPT_S, self._running)
        _end_descendants()
        self._running.clear()

    def _seconds(self) -> int:
        return round(time.monotonic() - self._started)


def _say(sentence: str) -> None:
    sys.stdout.write(f"== {sentence}\n")
    sys.stdout.flush()


def _adopt_orphans() -> None:
    """Become the parent of each descendant whose parent ends, so that what leaves its session is found too."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _ended() -> list[_Ended]:
    """Return the children that have ended since the last call, orphans among them."""
    found = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if not pid:
                break
            code = os.waitstatus_to_exitcode(status)
            found.append(_Ended(pid=pid, code=code, cpu_s=usage.ru_utime + usage.ru_stime))
    return found


def _await_children(within: float, pids: dict[int, _Target] | None = None) -> None:
    """Wait, but no longer than ``within`` seconds, until these children have ended, or all of them."""
    left = set(pids or ())
    until = time.monotonic() + within
    while (remaining := until - time.monotonic()) > 0:
        left -= {child.pid for child in _ended()}
        if not (left if pids is not None else _descendants()):
            return
        signal.sigtimedwait([signal.SIGCHLD], min(remaining, 0.2))


def _end_descendants() -> None:
    """End all processes that descend from this one: by SIGTERM, and what is left by SIGKILL."""
    for number, within in ((signal.SIGTERM, _TERMINATE_S), (signal.SIGKILL, _TERMINATE_S)):
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        _await_children(within)


def _descendants() -> set[int]:
    """Return the processes that descend from this one and have not been reaped."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found: set[int] = set()
    new = [os.getpid()]
    while new:
        below = children.get(new.pop(), [])
        found.update(below)
        new += below
    return found


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run what has to pass before a change lands.")
    parser.add_argument("--logs", type=Path, default=Path(".ci/logs"), help="the folder of the logs")
    parser.add_argument("--quick", nargs="*", default=QUICK, help="the targets that run before any lane begins")
    parser.add_argument("--lane", nargs="+", action="append", help="the targets of a lane; the option may be repeated")
    given = parser.parse_args()
    return Lanes(logs=given.logs).run([given.quick], given.lane or LANES)


if __name__ == "__main__":
    sys.exit(main())
