"""The process in which Spark runs for the bench: `python -m bench.spark_rounds TASK`; a line of JSON for each round."""

import contextlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import redis
from acker_spark import SparkAcker
from pyspark.sql import SparkSession

from bench.serving import clock_s
from bench.spark_jobs import LEVELS, Job, batches, counting, orders, timed

if TYPE_CHECKING:
    from acker_client import OperationResult
    from acker_protocol.operations import Operation

WARM = 200
"""So many messages are what is run before anything is measured, where it is worth the time."""

MANY = 10_000
COMPILERS = ("C1 Compiler", "C2 Compiler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What this process is started with."""

    rounds: int
    sentences: int
    orders: int
    folder: str
    acker: str
    service_pid: int
    redis_port: int


@dataclass(frozen=True, slots=True)
class JavaProcess:
    """The process of Spark's Java, whose threads bear the names of what they do."""

    pid: int

    def threads_s(self) -> dict[tuple[str, str], float]:
        """Return how many seconds of processor time each thread has taken, by its name and number."""
        taken = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                nanoseconds = (task / "schedstat").read_text().split()[0]
                taken[(task / "comm").read_text().strip(), task.name] = int(nanoseconds) / 1e9
        return taken

    def compiling_s(self, before: dict[tuple[str, str], float]) -> float:
        """Return the seconds Java's compilers have taken since ``before``; what a thread that ended took is lost."""
        now = self.threads_s().items()
        return sum(taken - before.get(one, 0.0) for one, taken in now if one[0].startswith(COMPILERS))


class Rounds:
    """Runs jobs, and measures what each run took of whom."""

    def __init__(self, task: Task, spark: SparkSession) -> None:
        self._task = task
        self._spark = spark
        self._http = httpx.Client(base_url=task.acker, trust_env=False, timeout=300)
        self._redis = redis.Redis(port=task.redis_port)
        gateway = spark.sparkContext._gateway  # noqa: SLF001 - PySpark tells the JVM's pid nowhere else
        assert gateway is not None
        self._jvm = JavaProcess(gateway.proc.pid)
        self._runs = 0

    def run(self, job: Job, level: str, messages: int) -> dict[str, Any]:
        """Run a job once, and return seconds, microseconds a message, and rates a second."""
        self._runs += 1
        topology = f"bench-{self._runs}"
        sent = _Sent()
        with SparkAcker(url=self._task.acker, topology=topology, spout_task="reader") as acker:
            sent.watch(acker)
            before, threads = self._processor_s(), self._jvm.threads_s()
            seconds = timed(job, self._spark, level, Path(self._task.folder) / f"run-{self._runs}", acker)
            after, compiling = self._processor_s(), self._jvm.compiling_s(threads)
        if level != "plain":
            self._check_all_read(topology, batches(messages) if level == "least" else messages)
        each = {part: (after[part] - before[part]) / messages * 1e6 for part in before}
        each["jit"] = compiling / messages * 1e6
        rate = {"messages": messages / seconds} | ({"deltas": sent.count / sent.seconds} if sent.count else {})
        return {"job": job.name, "level": level, "seconds": seconds} | each | rate

    def _check_all_read(self, topology: str, roots: int) -> None:
        """Check that every root was acked, and delete the topology. Raises RuntimeError."""
        spout = self._http.get(f"/v1/topologies/{topology}/spouts/reader").raise_for_status().json()
        counts = (spout["unread"], spout["pending"])
        if counts != (roots, 0):
            raise RuntimeError(f"{roots} roots gave (unread, pending) = {counts}")
        self._http.delete(f"/v1/topologies/{topology}?force=true&discard=true").raise_for_status()

    def _processor_s(self) -> dict[str, float]:
        """Return how many seconds of processor time each has taken."""
        cpu = self._redis.info("cpu")
        return {
            "jvm": clock_s(self._jvm.pid),
            "python": time.process_time(),
            "service": clock_s(self._task.service_pid),
            "redis": cpu["used_cpu_user"] + cpu["used_cpu_sys"],
        }


class _Sent:
    """How many operations went out, and how long it took until they were answered."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0

    def watch(self, acker: SparkAcker) -> None:
        """Measure what the sender of an acker sends."""
        send = acker.sender.send

        def watched(operations: "Sequence[Operation]", **options: Any) -> "list[OperationResult]":
            since = time.monotonic()
            try:
                return send(operations, **options)
            finally:
                self.count, self.seconds = self.count + len(operations), self.seconds + time.monotonic() - since

        acker.sender.send = watched  # type: ignore[method-assign]  # the bench alone does so


def main(task: Task) -> None:
    """Warm up, then run rounds; within each, jobs and levels take turns."""
    folder = Path(task.folder)
    spark = _session(folder)
    rounds = Rounds(task, spark)
    if task.sentences > MANY:
        for job in (counting(spark, folder / "warm", WARM), orders(spark, folder / "warm", WARM)):
            for level in LEVELS:
                rounds.run(job, level, WARM)
    jobs = {
        counting(spark, folder / "full", task.sentences): task.sentences,
        orders(spark, folder / "full", task.orders): task.orders,
    }
    for at in range(task.rounds):
        turn = LEVELS[at % len(LEVELS) :] + LEVELS[: at % len(LEVELS)]
        results = [rounds.run(job, level, messages) for job, messages in jobs.items() for level in turn]
        print(json.dumps(results), flush=True)
    spark.stop()


def _session(folder: Path) -> SparkSession:
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


if __name__ == "__main__":
    main(Task(**json.loads(sys.argv[1])))
