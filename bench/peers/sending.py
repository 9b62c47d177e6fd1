"""What all senders of jobs have in common: it counts what is done, and reports to `bench.peers.work`.

A job is a root of some tasks, all sent at once; it is done when each task was worked on.
"""

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

FAULTS = bool(os.environ.get("BENCH_FAULTS"))
"""Whether tasks are delivered twice and workers killed: then each task is noted by its name, and not only counted."""
DOUBLED = 100
"""One task of so many is delivered twice."""
WARM_ROOTS = 3
POLL_S = 0.05
WORK_S = 0.02
"""How long a task takes with faults, so that workers are killed in the middle of some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A root, and how many tasks it has."""

    root: int
    tasks: int


def leaf_done(done: Any, root: int, number: int) -> None:
    """Do the work of a task: tell Redis that it was done."""
    if FAULTS:
        time.sleep(WORK_S)
        done.sadd(f"leaves:{root}", number)
    else:
        done.incr("leaves")


def root_finished(done: Any, root: int) -> None:
    """Tell Redis that a root was reported as done, and with faults how many of its tasks have been worked on."""
    if FAULTS:
        done.rpush("reported", f"{root}:{done.scard(f'leaves:{root}')}")
    done.incr("finished")


class Doubling:
    """Says of each message of this process whether it is delivered twice."""

    def __init__(self) -> None:
        self._sent = 0

    def is_due(self) -> bool:
        """Whether the message that is sent now is the hundredth since the last one."""
        self._sent += 1
        return self._sent % DOUBLED == 0


class Sender(ABC):
    """Sends jobs and waits until they are done; ``by_completions``: until Acker has reported them."""

    def __init__(self, done: Any, *, by_completions: bool = False) -> None:
        self._done = done
        self._by_completions = by_completions
        self._roots, self._tasks, self._within_s, self._counted = (int(given) for given in sys.argv[1:5])
        self._end = time.monotonic()
        self._doubling = Doubling()

    @abstractmethod
    def send(self, job: Job) -> None:
        """Send the tasks of a job."""

    def completed(self) -> Iterator[int]:
        """Return roots as they are reported, until there is no time left."""
        raise NotImplementedError

    def after_all(self) -> None:  # noqa: B027 - most senders have nothing to do then
        """Do what is to be done once all jobs are sent."""

    def left_s(self) -> float:
        """Return how many seconds there are left."""
        return max(0.0, self._end - time.monotonic())

    def is_doubled(self) -> bool:
        """Whether the task that is sent now is delivered twice: with faults each hundredth is."""
        return FAULTS and self._doubling.is_due()

    def main(self) -> None:
        """Warm up, say ``ready``, and when told send all; print what it took."""
        self._run(range(-WARM_ROOTS, 0))
        self._done.delete("leaves", "finished", "reported")
        print("ready", flush=True)
        sys.stdin.readline()
        cpu, began = time.process_time(), time.monotonic()
        finished = self._run(range(self._roots))
        result = {"cpu_s": time.process_time() - cpu, "wall_s": time.monotonic() - began, "finished": finished}
        print(json.dumps(result), flush=True)

    def _run(self, roots: range) -> int:
        self._end = time.monotonic() + self._within_s
        for root in roots:
            self.send(Job(root=root, tasks=self._tasks))
        self.after_all()
        return self._collect(roots) if self._by_completions else self._wait(len(roots))

    def _collect(self, roots: range) -> int:
        """Read completions until all roots were reported; each is noted as a callback would note it."""
        missing = set(roots)
        while missing and self.left_s():
            for root in self.completed():
                if FAULTS:
                    root_finished(self._done, root)
                missing.discard(root)
                if not missing:
                    break
        return len(roots) - len(missing)

    def _wait(self, roots: int) -> int:
        """Wait until all roots, or all tasks where nobody reports roots, were counted."""
        name, each = ("leaves", self._tasks) if self._counted else ("finished", 1)
        while self.left_s() and int(self._done.get(name) or 0) < roots * each:
            time.sleep(POLL_S)
        return int(self._done.get(name) or 0) // each
