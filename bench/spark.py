"""Measures what acking adds to a job of Spark: the job without it, with the least of any tracker, and at each level.

Spark runs in a process of its own, `bench.spark_rounds`. The acker and its Redis are on the same machine, so what they
take, the job does not have.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.measure import Series
from bench.progress import Progress
from bench.servers import Member, one
from bench.serving import Served, acker
from bench.sizes import Sizes
from bench.table import Line

GROUP = "spark"
WINDOW = "3,600 s"
"""The dedupe window of the topologies that the connector creates."""
MOST = {"batch": 1.2, "row": 1.35}
"""What is to be reached for the realistic job, as a multiple of the plain one, on the cores that all parts share."""
MOST_ELSEWHERE = 1.1
"""The same where the acker and its Redis have cores of their own: less what they take of the shared ones."""

LEAST = "the least that any tracker does"
PARTS = {
    "jvm": "Spark",
    "jit": "Java's compilers (part of Spark)",
    "python": "the driver's Python",
    "service": "the acker",
    "redis": "its Redis",
}
WITHOUT = "Spark without acks"
WORDS = {"counting": "counting words", "orders": "the realistic job"}

Taken = dict[tuple[str, str, str], list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:
    """Measure rounds of both jobs, each at every level after the other."""
    taken: Taken = defaultdict(list)
    with one(folder) as store, acker(folder, store.url) as service:
        rounds = _rounds(sizes, folder, service, store)
        for _ in progress.over(range(sizes.rounds)):
            for result in next(rounds):
                _note(result, taken)
    found = {name: Series.of(values) for name, values in taken.items()}
    times = [line for job in WORDS for line in _times(job, found)]
    for line in (*times, *_least("orders", found), *_costs("orders", found)):
        yield replace(line, window=WINDOW)


def _rounds(sizes: Sizes, folder: Path, service: Served, store: Member) -> Iterator[list[dict[str, Any]]]:
    """Start Spark; give what each round came to."""
    task = {
        "rounds": sizes.rounds,
        "sentences": sizes.sentences,
        "orders": sizes.orders,
        "folder": str(folder / "spark"),
        "acker": service.url,
        "service_pid": service.pid,
        "redis_port": store.port,
    }
    command = [sys.executable, "-m", "bench.spark_rounds", json.dumps(task)]
    log = folder / "spark.log"
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as err, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, env=environment) as spark:
        assert spark.stdout is not None
        try:
            for line in spark.stdout:
                yield json.loads(line)
        finally:
            spark.terminate()
    if spark.returncode:
        raise RuntimeError(f"Spark ended with {spark.returncode}:\n{log.read_text()[-3000:]}")


def _note(result: dict[str, Any], taken: Taken) -> None:
    own = (result.pop("job"), result.pop("level"))
    for what, value in result.items():
        taken[(*own, what)].append(value)


def _times(job: str, found: dict[tuple[str, str, str], Series]) -> Iterator[Line]:
    plain = found[job, "plain", "seconds"]
    unit = Series.of(1.0 for _ in plain.values)
    for level, most in MOST.items():
        acked = found[job, level, "seconds"]
        what = f"{WORDS[job]}, {level} level"
        yield Line(group=GROUP, what=what, unit="s", measured=acked, beside="without acks", base=plain)
        if job == "orders":
            what = f"{WORDS[job]}, {level} level, as a multiple"
            ratio = acked.over(plain)
            yield Line(
                group=GROUP, what=what, unit="times", measured=ratio, beside="without acks", base=unit, at_most=most
            )
            yield Line(
                group=GROUP, what=f"{what}, less what the acker and its Redis take", unit="times",
                measured=elsewhere(acked, found, level).over(plain), beside="on the same cores", base=ratio,
                at_most=MOST_ELSEWHERE,
            )  # fmt: skip


def _least(job: str, found: dict[tuple[str, str, str], Series]) -> Iterator[Line]:
    """Yield what the job costs that keeps each batch, collects its ids and sends one root for all of it."""
    for name, unit, what in (
        ("seconds", "s", f"{WORDS[job]}, {LEAST}"),
        ("jvm", "CPU µs", f"Spark, a message of {WORDS[job]}, {LEAST}"),
        ("jit", "CPU µs", f"{PARTS['jit']}, a message of {WORDS[job]}, {LEAST}"),
        ("python", "CPU µs", f"{PARTS['python']}, a message of {WORDS[job]}, {LEAST}"),
    ):
        measured, base = found[job, "least", name], found[job, "plain", name]
        yield Line(group=GROUP, what=what, unit=unit, measured=measured, beside="without acks", base=base)


def elsewhere(acked: Series, found: dict[tuple[str, str, str], Series], level: str) -> Series:
    """Take from the seconds of a job what the acker and its Redis kept the cores of this machine busy meanwhile."""
    own = (found["orders", level, part].values for part in ("messages", "service", "redis"))
    cores = os.cpu_count() or 1
    return Series.of(
        seconds - rate * seconds * (service + redis) / 1e6 / cores
        for seconds, rate, service, redis in zip(acked.values, *own, strict=True)
    )


def _costs(job: str, found: dict[tuple[str, str, str], Series]) -> Iterator[Line]:
    """Yield who takes the processor's time, and how fast deltas go out."""
    plain = found[job, "plain", "jvm"]
    for level in MOST:
        for part, name in PARTS.items():
            what = f"{name}, a message of {WORDS[job]}, {level} level"
            measured = found[job, level, part]
            beside, base = ("the same without acks", found[job, "plain", part]) if part == "jit" else (WITHOUT, plain)
            yield Line(group=GROUP, what=what, unit="CPU µs", measured=measured, beside=beside, base=base)
        rate = found[job, level, "deltas"]
        messages = found[job, "plain", "messages"]
        what = f"inits and deltas shipped, {level} level"
        yield Line(
            group=GROUP, what=what, unit="/s", measured=rate, beside="messages/s of the job without acks", base=messages
        )
