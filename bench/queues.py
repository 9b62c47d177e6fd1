"""Measures what it takes, and how it ends, when tasks publish tasks while things go wrong.

A thousand roots grow into 30 tasks each (`bench.peers.growing`), in Celery and in Dramatiq on Redis, with two workers
of eight threads, fifty roots at a time. One worker is killed once a third of the tasks are done, one message of a
hundred is delivered twice, and one task fails for good. The same trees are run untracked, with the queue's own means,
and tracked by Acker, with each ack flushed before the queue's. The figures are the processor time of all processes,
until the last root has ended; after `QUIET_S` seconds in which nothing happens, no more roots end.
"""

import contextlib
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from bench.http_batches import make_topology
from bench.measure import Series
from bench.peers import work
from bench.peers.growing import ACKED, FAILED, FAILING, TASKS
from bench.peers.work import UNTRACKED, Peer, Process
from bench.progress import Progress
from bench.servers import Member, one, until
from bench.serving import Served, acker, cpu_by_process, family
from bench.sizes import Sizes
from bench.table import NO_WINDOW, Line

GROUP = "queues"
ACKER = "acker"
WARM_ROOTS = 3
WORKERS = 2
READY_S = 120
QUIET_S = 120.0
"""So long nothing may happen; a killed worker's tasks are delivered again after 5 to 15 seconds."""
LOOK_S = 0.5
WAYS = {"chords": "chords", "groups": "groups", ACKER: "Acker"}
PARTS = {
    "broker": "the queue's Redis",
    "workers": "the workers and the sender",
    "service": "the acker",
    "store": "the acker's Redis",
}
"""Whose processor time is told apart."""
KINDS = {
    "rightly": "ended rightly",
    "early": "reported as done before all tasks were",
    "wrongly": "reported with the wrong outcome, or with two",
    "never": "never reported",
}


EVENTS = {"again": "reported again", "replayed": "emitted again after a timeout"}
Taken = dict[str, Series]


def peers() -> dict[str, Peer]:
    """Return the queues whose tasks grow into trees here."""
    celery = work.celery("bench.peers.celery_trees", (ACKER,))
    return {"Celery": celery, "Dramatiq": work.dramatiq("bench.peers.dramatiq_trees", (ACKER,))}


def rounds(peer: Peer, sizes: Sizes, folder: Path, progress: Progress) -> Taken:
    """Run the trees in all ways, in turns, and return each figure by the way and its name."""
    taken: dict[str, list[float]] = defaultdict(list)
    ways = (UNTRACKED, *peer.variants)
    for step in progress.over(range(sizes.rounds * len(ways))):
        way = ways[step % len(ways)]
        own = folder / f"{way}-{step}"
        own.mkdir(parents=True)
        with contextlib.ExitStack() as stack:
            queue, store = (stack.enter_context(one(own)) for _ in ("queue", "store"))
            done = stack.enter_context(redis.Redis(port=queue.port, db=15, decode_responses=True))
            servers = Servers(queue=queue, store=store, done=done)
            ran = Run(peer=peer, way=way, roots=sizes.grown_roots, folder=own, servers=servers, stack=stack).measure()
        for name, value in ran.items():
            taken[f"{way} {name}"].append(value)
    return {name: Series.of(values) for name, values in taken.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The queue's Redis and that of the acker; ``done`` is where tasks and reports are counted."""

    queue: Member
    store: Member
    done: Any


@dataclass(kw_only=True)
class Run:
    """One run: so many roots, tracked in a way."""

    peer: Peer
    way: str
    roots: int
    folder: Path
    servers: Servers
    stack: contextlib.ExitStack
    service: Served | None = None
    workers: list[Process] = field(default_factory=list)
    ended_s: float = 0.0
    """Processor time of the worker that was killed."""

    def measure(self) -> dict[str, float]:
        """Start all, kill a worker on the way, and stop it when all roots have ended or nothing happens any more."""
        if self.way == ACKER:
            self.service = self.stack.enter_context(acker(self.folder, self.servers.store.url))
            timeout, window = work.FAULTY_TIMEOUT_MS, work.DEDUPE_WINDOW_MS
            make_topology(self.service, {"message_timeout_ms": timeout, "dedupe_window_ms": window})
        for _ in range(WORKERS):
            self._start_worker()
        until(
            lambda: int(self.servers.done.get("ready") or 0) == WORKERS,
            f"workers of {self.peer.name} are ready",
            within=READY_S,
        )
        with self._sender() as sender:
            _tell(sender, -WARM_ROOTS, WARM_ROOTS)
            until(lambda: self._size("tasks") == WARM_ROOTS * TASKS, "roots to warm up are done", within=READY_S)
        self.servers.done.delete("tasks", "reported", "ended")
        sender = self.stack.enter_context(self._sender())
        before, began = self._spent(sender), time.monotonic()
        _tell(sender, 0, self.roots)
        spent, last = self._watch(sender)
        tasks = self.roots * TASKS
        figures = {part: (spent[part] - before[part]) / tasks * 1e6 for part in PARTS}
        figures |= {"cpu": sum(figures.values()), "wall": (last - began) / tasks * 1e6}
        return figures | self._outcomes()

    def _watch(self, sender: Process) -> tuple[dict[str, float], float]:
        """Look until all has ended, and return the processor time and the moment of the last change that was seen."""
        state, spent, last, killed = (0, 0), self._spent(sender), time.monotonic(), False
        while not self._has_ended(*state) and time.monotonic() - last < QUIET_S:
            time.sleep(LOOK_S)
            if sender.poll() is not None:
                work.raise_with_logs(self.folder)
            found = (self._size("tasks"), self._size("ended"))
            if found != state:
                state, spent, last = found, self._spent(sender), time.monotonic()
            if not killed and state[0] > self.roots * TASKS // 3:
                self._kill_one()
                killed = True
        return spent, last

    def _has_ended(self, worked: int, ended: int) -> bool:
        """Whether all tasks were worked on but the one that fails, and all roots have ended if anybody tells."""
        failing = int(FAILING[0] < self.roots)
        return worked == self.roots * TASKS - failing and ended == (0 if self.way == UNTRACKED else self.roots)

    def _outcomes(self) -> dict[str, float]:
        """Count the roots that ended rightly, and each way in which others did not."""
        reports: dict[int, list[tuple[str, int]]] = {root: [] for root in range(self.roots)}
        for report in self.servers.done.lrange("reported", 0, -1):
            root, outcome, worked = report.split(":")
            reports[int(root)].append((outcome, int(worked)))
        kinds = Counter(kind_of(root, told) for root, told in reports.items())
        again = sum(max(0, len(told) - 1) for told in reports.values())
        return (
            {kind: float(kinds[kind]) for kind in KINDS}
            | {"again": float(again)}
            | {
                "replayed": float(self.servers.done.get("replayed") or 0),
                "roots": float(self.roots),
            }
        )

    def _environment(self) -> dict[str, str]:
        return work.environment(self.servers.queue, self.service, self.way)

    def _start_worker(self) -> None:
        log = self.folder / "worker.log"
        self.workers.append(self.stack.enter_context(work.run_worker(self.peer.worker(), self._environment(), log)))

    def _kill_one(self) -> None:
        """Kill a worker with all its processes, and start another."""
        killed = self.workers.pop(0)
        self.ended_s += sum(cpu_by_process(family(killed.pid)).values())
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        self._start_worker()

    @contextlib.contextmanager
    def _sender(self) -> Iterator[Process]:
        """Run a sender that is ready until the block is left."""
        with work.run_sender(self.peer.sender(), self._environment(), self.folder / "sender.log") as sender:
            assert sender.stdout is not None
            work.check_line(sender.stdout.readline(), self.folder)
            yield sender

    def _spent(self, sender: Process) -> dict[str, float]:
        """Read the processor time of each part so far, in seconds."""
        pids = [pid for process in (*self.workers, sender) for pid in family(process.pid)]
        return {
            "broker": self.servers.queue.cpu_s(),
            "workers": sum(cpu_by_process(pids).values()) + self.ended_s,
            "service": sum(cpu_by_process(family(self.service.pid)).values()) if self.service else 0.0,
            "store": self.servers.store.cpu_s() if self.service else 0.0,
        }

    def _size(self, name: str) -> int:
        return int(self.servers.done.scard(name))


def kind_of(root: int, told: list[tuple[str, int]]) -> str:
    """Describe how a root ended: what was told first counts, and that nothing else was told later."""
    if not told:
        return "never"
    if {outcome for outcome, _ in told} != {FAILED if root == FAILING[0] else ACKED}:
        return "wrongly"
    return "early" if root != FAILING[0] and told[0][1] < TASKS else "rightly"


def _tell(sender: Process, first: int, count: int) -> None:
    assert sender.stdin is not None
    sender.stdin.write(f"{first} {count}\n")
    sender.stdin.flush()


def lines(name: str, taken: Taken) -> Iterator[Line]:
    """Write the lines of a queue: how the trees ended, and what a task took beside the untracked one."""
    for way in peers()[name].variants:
        window = work.WINDOW if way == ACKER else NO_WINDOW
        titled, roots = f"{name}, {WAYS[way]}", taken[f"{way} roots"]
        for kind, words in (*KINDS.items(), *EVENTS.items()):
            yield Line(
                group=GROUP, what=f"{titled}: trees {words}", unit="trees", measured=taken[f"{way} {kind}"],
                beside="all trees", base=roots, at_least=_promised(way, kind, roots), window=window,
            )  # fmt: skip
        for figure, unit, words in (("cpu", "CPU µs", "all processes"), ("wall", "µs", "time passed")):
            above = taken[f"{way} {figure}"].minus(taken[f"{UNTRACKED} {figure}"])
            yield Line(
                group=GROUP, what=f"{titled}: a task above the untracked one, {words}", unit=unit, measured=above,
                beside="the untracked task", base=taken[f"{UNTRACKED} {figure}"], window=window,
            )  # fmt: skip
        for part, words in PARTS.items():
            yield Line(
                group=GROUP, what=f"{titled}: a task, {words}", unit="CPU µs", measured=taken[f"{way} {part}"],
                beside="the untracked task, all processes", base=taken[f"{UNTRACKED} cpu"], window=window,
            )  # fmt: skip


def _promised(way: str, kind: str, roots: Series) -> float | None:
    return roots.median if (way, kind) == (ACKER, "rightly") else None
