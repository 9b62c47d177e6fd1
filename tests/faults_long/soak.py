"""An hour at half of what an acker can do: ``python -m tests.faults_long.soak``, or ``make soak``.

Memory and open files of the service and its store must not grow, and when all has ended and is forgotten, not one key
may be there that was not there before the hour.
"""

import contextlib
import json
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Annotated

import httpx
import redis
import typer
from acker_protocol import routes
from acker_service.redis import keys

from bench.servers import Member, one
from docs.trust import results
from examples.support.ports import free_port
from tests.faults_long.programs import SPOUTS, Plans, Program
from tests.support.exposition import read
from tests.support.processes import resident_kib
from tests.support.servers import AckerProcess, acker_serve

WINDOW_MS = 60_000
TOPOLOGIES = {"deduped": WINDOW_MS, "plain": 0}
"""The topologies, and their dedupe windows: what is forgotten in an hour many times over."""

UNBOUNDED = 1_000_000.0
SAMPLE_S = 10.0
GROWTH, SLACK_KIB = 0.05, 4_096
"""How much the mean of the last third may be above that of the one before: a share, or so many KiB."""

FILES = 5
"""So many more open files count as growth."""

WHOLE_MINUTES = 60.0
"""What a soak for docs/trust.md has at least."""

ACKERS = 4
STEADY_S = 2.5 * WINDOW_MS / 1000
"""What can be forgotten is forgotten two windows later."""

LAST_FAILURES = re.compile(r":failures[0-8]$")
"""The keys of the list of the last failures, which is bounded, and kept for a day (lua/failures.lua)."""

LEAST_SAMPLES = 30
"""In less time nothing can be told of growth: connections are still opened."""

FORGOTTEN_S = 15 * 60
"""All that has ended is forgotten by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What service and store hold at a time, in KiB and in open files; and the operations so far."""

    seconds: float
    service_kib: int
    store_kib: int
    store_used_kib: int
    service_files: int
    store_files: int
    keys: int
    operations: float


MEASURED = ("service_kib", "store_kib", "store_used_kib", "service_files", "store_files")


def key_names(store: Member) -> set[str]:
    """Return the names of all keys of a store."""
    with redis.Redis(port=store.port, socket_timeout=20) as client:
        return {name.decode(errors="backslashreplace") for name in client.scan_iter(count=10_000)}


def sample(acker: AckerProcess, store: Member, began: float) -> Sample:
    """Measure once."""
    service, server = acker.process.pid, store.process.pid
    return Sample(
        seconds=round(time.monotonic() - began, 1),
        service_kib=resident_kib(service),
        store_kib=resident_kib(server),
        store_used_kib=store.used_memory() // 1024,
        service_files=open_files(service),
        store_files=open_files(server),
        keys=int(store.ask("DBSIZE")),
        operations=operations(acker),
    )


def open_files(pid: int) -> int:
    """Return how many files a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def operations(acker: AckerProcess) -> float:
    """Return how many operations an acker has answered."""
    return sum(read(acker.http.get("/metrics").text).values("acker_operations_total").values())


def grown(samples: Sequence[Sample]) -> dict[str, list[float]]:
    """Return what grew from the second third of the time to the last: its mean in either."""
    third = len(samples) // 3
    found: dict[str, list[float]] = {}
    if len(samples) < LEAST_SAMPLES:
        return found
    for name in MEASURED:
        before, after = (
            mean(getattr(each, name) for each in part) for part in (samples[third:-third], samples[-third:])
        )
        slack = FILES if name.endswith("files") else max(SLACK_KIB, before * GROWTH)
        if after > before + slack:
            found[name] = [round(before, 1), round(after, 1)]
    return found


@contextlib.contextmanager
def loaded(acker: AckerProcess, store: Member, folder: Path, rate: float) -> Iterator[None]:
    """Load an acker, and read what it tells, until the block is left; then wait until all is told."""
    folder.mkdir()
    plans = Plans(
        folder=folder, seed=1, urls=[acker.url], windows_ms=TOPOLOGIES, rate=rate, redis_url=store.url, records=False
    )
    loads = [*plans.loads()]
    hook_port = free_port()
    readers = plans.readers({topology: configure(acker, topology, hook_port) for topology in TOPOLOGIES}, hook_port)
    for program in (*readers, *loads):
        program.start()
    try:
        yield
        _end(loads)
        _until(lambda: all(is_told(acker, topology) for topology in TOPOLOGIES), "all is told")
        _end(readers)
    finally:
        for program in (*loads, *readers):
            if program.process.poll() is None:
                program.kill()


def _end(programs: Sequence[Program]) -> None:
    for program in programs:
        program.end()


def configure(acker: AckerProcess, topology: str, hook_port: int) -> dict[str, dict[str, str] | None]:
    """Make a topology with its spout tasks, and return their callbacks."""
    window_ms = TOPOLOGIES[topology]
    rules = {"ackers": ACKERS, "message_timeout_ms": WINDOW_MS, "dedupe_window_ms": window_ms, "retention_ms": 5_000}
    acker.http.put(routes.topology(topology), json=rules).raise_for_status()
    hook = {"kind": "webhook", "url": f"http://127.0.0.1:{hook_port}/"}
    callbacks = dict(zip(SPOUTS, (None, hook, {"kind": "pubsub"}), strict=True))
    for spout_task, callback in callbacks.items():
        acker.http.put(routes.spout(topology, spout_task), json={"callback": callback}).raise_for_status()
    return callbacks


def is_told(acker: AckerProcess, topology: str) -> bool:
    """Whether no root is pending, and no completion unread."""
    shown = acker.http.get(routes.topology(topology)).json()
    return bool(shown["pending"] == 0 and shown["unread"] == 0)


def steady_keys(store: Member) -> set[str]:
    """Return the keys of a store once all that can be forgotten is: none came or went for more than two windows."""
    names, since, end = key_names(store), time.monotonic(), time.monotonic() + FORGOTTEN_S
    while time.monotonic() < since + STEADY_S and time.monotonic() < end:
        time.sleep(SAMPLE_S / 10)
        if (now := key_names(store)) != names:
            names, since = now, time.monotonic()
    return names


def left_over(acker: AckerProcess, store: Member, before: set[str]) -> list[str]:
    """Return the keys that an acker has more when all has ended than before it was loaded, key by key.

    Then delete the topologies: of each is left that it is gone, for a day, and nothing of its roots.
    """
    left = {name for name in steady_keys(store) - before if of_a_topology(name) and not LAST_FAILURES.search(name)}
    for topology in TOPOLOGIES:
        acker.http.delete(routes.topology(topology)).raise_for_status()
    gone = {keys.shard(topology, shard) for topology in TOPOLOGIES for shard in range(ACKERS)}
    return sorted(left | {name for name in key_names(store) if of_a_topology(name)} - gone)


def of_a_topology(name: str) -> bool:
    """Whether a key belongs to one of the topologies of the load."""
    return any(name.startswith(f"acker:{{{topology}/") for topology in TOPOLOGIES)


def _until(look: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + FORGOTTEN_S
    while not look():
        if time.monotonic() > end:
            raise AssertionError(f"not within {FORGOTTEN_S} s: {what}")
        time.sleep(0.5)


def main(
    minutes: Annotated[float, typer.Option(help="How long it is loaded")] = 60.0,
    rate: Annotated[float, typer.Option(help="Operations a second; 0: half of what it can do")] = 0.0,
) -> None:
    """Exit with 1 if something grew, or a key is left."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    running = results.Run(command=f"make soak MINUTES={minutes:g}", seed=1)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="acker-soak-")))
        store = stack.enter_context(one(folder / "store", "--appendonly", "yes", "--appendfsync", "everysec"))
        options = ("--idempotency-window-ms", "60000", "--callback-allow-cidrs", "127.0.0.0/8")
        acker = stack.enter_context(acker_serve(folder / "acker", "--redis-url", store.url, *options))
        capacity = measured_capacity(acker, store, folder)
        rate = rate or capacity / 2
        before = steady_keys(store)
        typer.echo(f"it can do {capacity:,.0f} operations a second; loaded with {rate:,.0f} for {minutes:g} minutes")
        samples = soak(acker, store, folder, rate, minutes * 60)
        left = left_over(acker, store, before)
        after = sample(acker, store, time.monotonic())
    found = {
        "minutes": minutes,
        "capacity": round(capacity),
        "rate": round((samples[-1].operations - samples[0].operations) / (samples[-1].seconds - samples[0].seconds)),
        "operations": round(samples[-1].operations),
        "first": {name: getattr(samples[len(samples) // 3], name) for name in MEASURED},
        "last": {name: getattr(samples[-1], name) for name in MEASURED},
        "most_keys": max(each.keys for each in samples),
        "when_all_has_ended": {name: getattr(after, name) for name in MEASURED},
        "keys_left": left,
        "grown": grown(samples),
    }
    typer.echo(json.dumps(found, indent=1))
    if left or found["grown"]:
        sys.exit("something grew, or was left")
    if minutes >= WHOLE_MINUTES:
        results.keep("soak", running.document(), found)


def measured_capacity(acker: AckerProcess, store: Member, folder: Path, seconds: float = 30.0) -> float:
    """Return how many operations a second an acker does for these clients."""
    with loaded(acker, store, folder / "capacity", UNBOUNDED):
        time.sleep(seconds / 3)
        began, before = time.monotonic(), operations(acker)
        time.sleep(seconds)
        return (operations(acker) - before) / (time.monotonic() - began)


def soak(acker: AckerProcess, store: Member, folder: Path, rate: float, seconds: float) -> list[Sample]:
    """Load an acker for so long, and return what was measured meanwhile."""
    samples: list[Sample] = []
    with loaded(acker, store, folder / "soak", rate):
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            time.sleep(SAMPLE_S)
            with contextlib.suppress(httpx.HTTPError):
                samples.append(sample(acker, store, began))
    return samples


if __name__ == "__main__":
    cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cli.command()(main)
    cli()
