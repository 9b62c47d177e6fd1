"""Trees of tasks that publish tasks while they run: what each task does, and what sends the roots.

A root's first task publishes five tasks, its branches, and these publish 24 more, its leaves: 30 tasks. One leaf of
each root takes longer than the others, and one of one root fails each time it is tried. The broker gets each hundredth
message twice. `bench.queues` starts the workers and the sender; they read the port of the queue's Redis in
BENCH_QUEUE_PORT, the way in BENCH_VARIANT, and the acker's address, if there is one, in BENCH_ACKER_URL.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

BRANCHES, LEAVES = 5, 24
TASKS = 1 + BRANCHES + LEAVES
FAILING = (7, "leaf 0 0")
"""The root and the task of it that fails for good."""
SLOW, SLOW_S = "leaf 4 0", 0.25
"""The task of each root that takes so long."""
RETRIES = 1
IN_FLIGHT = 50
"""So many roots are sent before tasks of others are done."""
LOOK_S = 0.01
ACKED, FAILED = "acked", "failed"


class FailsForGoodError(Exception):
    """What the failing task raises."""


def work(done: Any, root: int, task: str) -> None:
    """Do the work of a task: note that it was done, among its root's tasks and among all, both or none."""
    if (root, task) == FAILING:
        raise FailsForGoodError(f"{task} of root {root} cannot be done")
    if task == SLOW:
        time.sleep(SLOW_S)
    with done.pipeline() as both:
        both.sadd(f"tasks:{root}", task).sadd("tasks", f"{root} {task}").execute()


def report(done: Any, root: int, outcome: str) -> None:
    """Tell Redis how a root has ended, and how many of its tasks have been worked on by then."""
    if root >= 0:
        done.rpush("reported", f"{root}:{outcome}:{done.scard(f'tasks:{root}')}")
        done.sadd("ended", root)


def leaves_of(branch: int) -> range:
    """Return the numbers of the leaves of a branch; the last branch has one less than the others."""
    return range(LEAVES // BRANCHES + (branch < LEAVES % BRANCHES))


class Sender(ABC):
    """Sends roots, and reports what Acker says of them where it tracks them (``spout`` is not None).

    A root that has timed out is sent again.
    """

    def __init__(self, done: Any, spout: Any) -> None:
        self._done = done
        self._spout = spout

    @abstractmethod
    def send(self, root: int) -> None:
        """Send the first task of a root."""

    def main(self) -> None:
        """Say ``ready``, read the first root and how many there are, send them, and read completions until killed."""
        print("ready", flush=True)
        first, count = (int(given) for given in sys.stdin.readline().split())
        for number, root in enumerate(range(first, first + count)):
            while number - self._done.scard("tasks") / TASKS > IN_FLIGHT:
                time.sleep(LOOK_S)
            self._emit(root)
        for completion in self._completions():
            root = int(completion.message_id)
            if completion.outcome == "timed_out":
                self._done.incr("replayed")
                self._emit(root)
            else:
                report(self._done, root, ACKED if completion.acked else FAILED)
        sys.stdin.readline()

    def _emit(self, root: int) -> None:
        if self._spout is None:
            self.send(root)
        else:
            with self._spout.emit(message_id=str(root)):
                self.send(root)

    def _completions(self) -> Iterator[Any]:
        return iter(()) if self._spout is None else self._spout.completions(page_size=1_000, poll_timeout=1.0)
