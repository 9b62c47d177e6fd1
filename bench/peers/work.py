"""Runs the same jobs on a peer, tracked and untracked, and reads what all processes took for a task.

Each run has a Valkey for the queue and one for Acker, one worker of eight threads, and a sender. These read the
variables BENCH_QUEUE_PORT, BENCH_VARIANT, BENCH_ACKER_URL and BENCH_FAULTS.
"""

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import redis

from bench import baseline
from bench.http_batches import make_topology
from bench.peers import install
from bench.servers import Member, one, until
from bench.serving import Served, acker, cpu_by_process, family

THREADS = "8"
WITHIN_S = 120
MESSAGE_TIMEOUT_MS = 600_000
FAULTY_TIMEOUT_MS = 60_000
DEDUPE_WINDOW_MS = 600_000
WINDOW = "600 s"
"""The same as the bench's table names it."""
UNTRACKED = "untracked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """How a peer's worker and its sender are started, and the ways in which jobs are tracked."""

    name: str
    worker: Callable[[], list[str]]
    sender: Callable[[], list[str]]
    variants: tuple[str, ...]


def dramatiq(module: str = "bench.peers.dramatiq_jobs", variants: tuple[str, ...] = ("safe", "folded")) -> Peer:
    """Dramatiq with Redis as its broker: groups, and Acker in these ways."""
    return Peer(
        name="Dramatiq",
        worker=lambda: [_python("dramatiq"), "-m", "dramatiq", module, "--processes", "1", "--threads", THREADS],
        sender=lambda: [_python("dramatiq"), "-m", module],
        variants=("groups", *variants),
    )


def celery(module: str = "bench.peers.celery_jobs", variants: tuple[str, ...] = ()) -> Peer:
    """Celery with Redis as its broker and result backend: chords, and Acker in these ways."""
    options = ["--pool", "threads", "--concurrency", THREADS, "--loglevel", "ERROR"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    return Peer(
        name="Celery",
        worker=lambda: [_python("celery"), "-m", "celery", "--app", module, "worker", *options, *quiet],
        sender=lambda: [_python("celery"), "-m", module],
        variants=("chords", *variants),
    )


def bullmq() -> Peer:
    """BullMQ: flows."""
    script = str(Path(__file__).parent / "bullmq_jobs.mjs")
    return Peer(
        name="BullMQ",
        worker=lambda: ["node", script, "worker", THREADS, str(install.node())],
        sender=lambda: ["node", script, "sender", THREADS, str(install.node())],
        variants=("flows",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run came to, for a task: CPU µs, microseconds on the wall, bytes of all Redis at their peak; roots done.

    With faults also how many roots were reported before all their tasks were done, and how often again.
    """

    cpu_us: float
    wall_us: float
    redis_bytes: float
    finished: int
    early: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: so many roots of so many tasks each, tracked in a way; with faults one worker is killed on the way."""

    peer: Peer
    variant: str
    roots: int
    tasks: int
    faults: bool = False
    dedupe: bool = False

    def measure(self, folder: Path) -> Ran:
        """Start all, and stop it when the jobs are done."""
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            queue, store = (stack.enter_context(one(folder)) for _ in range(2))
            service = self._service(stack, folder, store) if self.variant in ("safe", "folded") else None
            own = environment(queue, service, self.variant, faults=self.faults)
            workers = [stack.enter_context(run_worker(self.peer.worker(), own, folder / "worker.log"))]
            until(
                lambda: queue_client(queue, "GET", "ready"), f"a worker of {self.peer.name} is ready", within=WITHIN_S
            )
            sender = stack.enter_context(
                run_sender([*self.peer.sender(), *self._arguments()], own, folder / "sender.log")
            )
            assert sender.stdout is not None
            assert sender.stdin is not None
            check_line(sender.stdout.readline(), folder)
            stores = (queue, store) if service else (queue,)
            before = _spent(workers, stores, service)
            memory = _memory(stores, "used_memory")
            sender.stdin.write("go\n")
            sender.stdin.flush()
            if self.faults:
                self._kill_one(stack, workers, queue, own, folder)
            result = json.loads(check_line(sender.stdout.readline(), folder))
            each = self.roots * self.tasks
            spent = _spent(workers, stores, service) - before + result["cpu_s"]
            finished, early, repeated = _reported(queue, self.tasks) if self.faults else (result["finished"], 0, 0)
            return Ran(
                cpu_us=spent / each * 1e6,
                wall_us=result["wall_s"] / each * 1e6,
                redis_bytes=max(1.0, (_memory(stores, "used_memory_peak") - memory) / each),
                finished=finished,
                early=early,
                repeated=repeated,
            )

    def _service(self, stack: contextlib.ExitStack, folder: Path, store: Member) -> Served:
        service = stack.enter_context(acker(folder, store.url))
        timeout = FAULTY_TIMEOUT_MS if self.faults else MESSAGE_TIMEOUT_MS
        window = {"dedupe_window_ms": DEDUPE_WINDOW_MS} if self.dedupe else {}
        make_topology(service, {"message_timeout_ms": timeout} | window)
        return service

    def _arguments(self) -> list[str]:
        counted = int(self.variant == UNTRACKED)
        return [str(number) for number in (self.roots, self.tasks, WITHIN_S, counted)]

    def _kill_one(
        self, stack: contextlib.ExitStack, workers: "list[Process]", queue: Member, own: dict[str, str], folder: Path
    ) -> None:
        """Kill the worker once some roots are done, and start another."""
        until(lambda: queue_client(queue, "DBSIZE") > self.roots // 4, "some roots are begun", within=WITHIN_S)
        os.killpg(workers[0].pid, signal.SIGKILL)
        workers[0].wait()
        workers[0] = stack.enter_context(run_worker(self.peer.worker(), own, folder / "worker.log"))


Process = subprocess.Popen[str]


def environment(queue: Member, service: Served | None, variant: str, *, faults: bool = False) -> dict[str, str]:
    """Return the environment of a worker and a sender."""
    own = os.environ | baseline.environment(baseline.ROOT)
    own |= {"BENCH_QUEUE_PORT": str(queue.port), "BENCH_VARIANT": variant}
    return own | {"BENCH_ACKER_URL": service.url if service else "", "BENCH_FAULTS": "1" if faults else ""}


def queue_client(queue: Member, *command: str) -> int:
    """Ask the database in which tasks and roots are counted."""
    with redis.Redis(port=queue.port, db=15, socket_timeout=2) as client:
        return int(client.execute_command(*command) or 0)


def _reported(queue: Member, tasks: int) -> tuple[int, int, int]:
    """Count the roots that were reported, those reported before all their tasks were done, and the repeated reports."""
    with redis.Redis(port=queue.port, db=15, decode_responses=True) as client:
        reported = [entry.split(":") for entry in client.lrange("reported", 0, -1)]
    first = {root: int(done) for root, done in reversed(reported)}
    return len(first), sum(done < tasks for done in first.values()), len(reported) - len(first)


def _spent(workers: list[Process], stores: tuple[Member, ...], service: Served | None) -> float:
    pids = [pid for worker in workers for pid in family(worker.pid)] + (family(service.pid) if service else [])
    return sum(cpu_by_process(pids).values()) + sum(store.cpu_s() for store in stores)


def _memory(stores: tuple[Member, ...], figure: str) -> int:
    return sum(int(re.findall(rf"{figure}:(\d+)", store.info("INFO", "memory"))[0]) for store in stores)


def check_line(line: str, folder: Path) -> str:
    """Return what a sender has said; if that is nothing, raise `RuntimeError` with the end of all logs."""
    return line or raise_with_logs(folder)


def raise_with_logs(folder: Path) -> NoReturn:
    """Raise `RuntimeError` for a sender that has ended, with the end of all logs."""
    logs = "\n".join(log.read_text()[-1_500:] for log in folder.glob("*er.log"))
    raise RuntimeError(f"the sender ended:\n{logs}")


@contextlib.contextmanager
def run_worker(command: list[str], own: dict[str, str], log: Path) -> Iterator[Process]:
    """Run a command in a process group of its own, which is killed when the block is left."""
    with log.open("a") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, text=True, env=own, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def run_sender(command: list[str], own: dict[str, str], log: Path) -> Iterator[Process]:
    """Run a command that is told what to send on its standard input; it is killed when the block is left."""
    with (
        log.open("a") as out,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True, env=own
        ) as sender,
    ):
        try:
            yield sender
        finally:
            sender.kill()


def _python(package: str) -> str:
    """Return a Python that has a package: this one, or the one that is installed for the peers."""
    return sys.executable if importlib.util.find_spec(package) else str(install.python())
