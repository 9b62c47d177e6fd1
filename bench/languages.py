"""Measures what acks cost in the clients of other languages, beside Python's in the same run.

Each client works in the driver of the conformance tests: it receives messages and acks them, as fast as it can, until
a real acker has answered all. What counts is the processor time of the driver's whole process, with packing and
sending, a garbage collector, and a compiler that works while it runs; but not the first rounds, where a JVM compiles.
"""

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bench.client_agent import TOPOLOGY, Agent
from bench.direct import WEEK_MS
from bench.http_batches import make_topology
from bench.measure import Series
from bench.progress import Progress
from bench.servers import one
from bench.serving import Served, acker, clock_s
from bench.sizes import Sizes
from bench.table import Line, Result, Skipped
from tests.conformance.programs import LANGUAGES, Driver, building

GROUP = "languages"
PYTHON = "Python"
KINDS = {"a folded ack": (1_000, 0), "an ack with one child": (1, 1)}
"""The acks of a root, and the children of each with a key."""
SHARES = {"TypeScript": 0.5, "Go": 0.15, "Java": 0.25}
"""What each client may take of that which Python's takes."""
WARM_UP = 3
"""Rounds that do not count."""


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of all languages whose programs this machine has, by turns."""
    taken: dict[str, list[float]] = defaultdict(list)
    missing = {name: LANGUAGES[name.lower()].missing for name in SHARES}
    names = [PYTHON, *(name for name, programs in missing.items() if not programs)]
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(one(folder))
        service = stack.enter_context(acker(folder, store.url))
        make_topology(service, {"message_timeout_ms": WEEK_MS, "dedupe_window_ms": 0})
        drivers = {name: stack.enter_context(_driver(name, folder)) for name in names}
        for driver in drivers.values():
            driver.call("open", url=service.url, topology=TOPOLOGY)
        for number in progress.over(range(WARM_UP + sizes.rounds)):
            for kind, name in itertools.product(KINDS, names):
                cpu_us = _round(drivers[name], service, sizes.acks, kind)
                if number >= WARM_UP:
                    taken[f"{name}, {kind}"].append(cpu_us)
    yield from _lines({what: Series.of(values) for what, values in taken.items()}, missing)


@contextlib.contextmanager
def _driver(name: str, folder: Path) -> Iterator[Driver]:
    """Run a driver as a program runs that is not killed after moments: a JVM with all of its compilers."""
    with building(name.lower()):
        command = LANGUAGES[name.lower()].build()
    driver = Driver([word for word in command if not word.startswith("-XX:")], log=folder / f"{name}.log")
    try:
        yield driver
    finally:
        driver.stop()


def _round(driver: Driver, service: Served, count: int, kind: str) -> float:
    """Let a driver ack so many messages, and return the µs of its processor for each."""
    per_root, children = KINDS[kind]
    messages = Agent(url=service.url)
    messages.emit(count, per_root)
    driver.call("enqueue", headers=[value for header in messages.headers for value in header.values()])
    before = clock_s(driver.pid)
    driver.call("work_off", component="bench", child_count=children)
    return (clock_s(driver.pid) - before) / count * 1e6


def _lines(taken: dict[str, Series], missing: dict[str, list[str]]) -> Iterator[Result]:
    folded, with_child = KINDS
    what, own = f"the {PYTHON} client, {with_child}", taken[f"{PYTHON}, {with_child}"]
    base = taken[f"{PYTHON}, {folded}"]
    yield Line(group=GROUP, what=what, unit="CPU µs", measured=own, beside=folded, base=base)
    for (name, share), kind in itertools.product(SHARES.items(), KINDS):
        what = f"the {name} client, {kind}"
        if missing[name]:
            yield Skipped(group=GROUP, what=what, why=f"it needs {', '.join(missing[name])}")
            continue
        yield Line(
            group=GROUP, what=what, unit="CPU µs", measured=taken[f"{name}, {kind}"],
            beside=f"the {PYTHON} client", base=taken[f"{PYTHON}, {kind}"], ratio_at_most=share,
        )  # fmt: skip
