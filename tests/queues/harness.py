"""Runs workers, again when they die, and collects the completions of roots with what was done by then."""

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import redis
from acker_client import Acker, Completion

from tests.queues.marks import ENVIRONMENT

WITHIN_S = 400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A completion, and the work that was done when it was read: how often each piece."""

    outcome: str
    reason: str | None
    done: dict[str, int]
    failures: int | None


@dataclass(kw_only=True)
class Lab:
    """Emits roots and waits for their ends. ``broker`` is the queue's address, ``marks`` that of the marks."""

    broker: str
    marks: str
    acker_url: str
    topology: str
    ends: dict[str, Ended] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Make the spout."""
        self.acker = Acker(self.acker_url, topology=self.topology)
        self.spout = self.acker.shared_spout(f"spout-{secrets.token_hex(4)}")
        self.redis = redis.Redis.from_url(self.marks, decode_responses=True)

    def environment(self) -> dict[str, str]:
        """What a worker has to know."""
        return dict(zip(ENVIRONMENT, (self.broker, self.marks, self.acker_url, self.topology), strict=True))

    def emit(self, module: str, scenarios: Iterable[str]) -> None:
        """Let a program emit a root for each of these scenarios, as ``marks.emit`` does."""
        self.roots = {scenario: secrets.token_hex(6) for scenario in scenarios}
        named = [f"{scenario}:{root}" for scenario, root in self.roots.items()]
        subprocess.run(
            [sys.executable, "-m", module, "emit", self.spout.name, *named],
            env=os.environ | self.environment(),
            check=True,
            timeout=WITHIN_S,
        )

    def ended(self, scenario: str, *, within: float = WITHIN_S) -> Ended:
        """Wait for the end of a scenario's root."""
        root, until = self.roots[scenario], time.monotonic() + within
        while root not in self.ends:
            assert time.monotonic() < until, f"no completion within {within} s; done: {self.done(root)}"
            time.sleep(0.02)
        return self.ends[root]

    def done(self, name: str) -> dict[str, int]:
        """Read how often each piece of a root's work is done."""
        return {work: int(times) for work, times in self.redis.hgetall(f"done:{name}").items()}

    def runs(self, scenario: str) -> dict[str, int]:
        """Read how often each task of a scenario that counts has run."""
        return {task: int(times) for task, times in self.redis.hgetall(f"runs:{self.roots[scenario]}").items()}

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Read completions until the block is left."""
        reader = threading.Thread(target=self._collect, daemon=True)
        reader.start()
        try:
            yield
        finally:
            self.stopping.set()
            reader.join(10)
            self.acker.close()
            self.redis.close()

    def _collect(self) -> None:
        for completion in self.spout.completions(poll_timeout=1.0, stop=self.stopping.is_set):
            self._note(completion)

    def _note(self, completion: Completion) -> None:
        name = completion.message_id or ""
        self.ends[name] = Ended(
            outcome=str(completion.outcome),
            reason=completion.reason,
            done=self.done(name),
            failures=completion.failures,
        )


class Worker:
    """A worker of a queue that is started again whenever it ends, until it is stopped."""

    def __init__(self, command: list[str], *, environment: dict[str, str], log: Path) -> None:
        self._command = command
        self._environment = os.environ | environment
        self.log = log
        self._stopping = threading.Event()
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep_running, daemon=True)

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def stop(self) -> None:
        """Stop it, with the processes that it has started."""
        self._stopping.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        self._thread.join(40)
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _keep_running(self) -> None:
        while not self._stopping.is_set():
            with self.log.open("ab") as out:
                self._process = subprocess.Popen(
                    [sys.executable, *self._command], env=self._environment, stdout=out, stderr=out
                )
            self.starts += 1
            self._process.wait()


@contextlib.contextmanager
def working(worker: Worker, lab: Lab) -> Iterator[Lab]:
    """Run a worker and collect completions until the block is left."""
    worker.start()
    try:
        with lab.collecting():
            yield lab
    except BaseException:
        sys.stderr.write(worker.log.read_text()[-20_000:])
        raise
    finally:
        worker.stop()
