"""Measures a root of twelve operations through the Python client: a spout, a split, ten counts with keys.

All three parts run in this process: the acks fold, the inits go in batches, and the spout reads each completion. Beside
it runs Storm's own topology of the same tree between two workers, where `make bench-long GROUP=storm` has installed it.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from acker_client import Acker
from acker_client.sync.spout import Spout

from bench.http_batches import make_topology
from bench.kept import Kept
from bench.measure import Series
from bench.peers import storm
from bench.progress import Progress
from bench.servers import Member, one
from bench.serving import Served, acker
from bench.sizes import Sizes
from bench.table import Line

GROUP = "tree"
ROOT = "a root of 12 operations: client, service and Redis"
"""How the line of a whole root is called."""

COUNTS = 10
AT_ONCE = 100
"""So many roots are emitted in one batch, before their tuples are worked on."""
GOAL = 6.0
"""What the client, the service and Redis may take for a root, as a ratio to all processes of Storm."""
RECORDED = "storm, cost"
"""What `make bench-long` calls its case of Storm."""
STORM_US, ELSEWHERE = 46.0, "two idle cores of another machine"
"""What Storm takes for a root where it was measured first."""
WEEK_MS = 604_800_000
WITHIN_S = 60.0
PARTS = ("the client", "the service", "Redis")

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:
    """Measure rounds, each beside one of Storm where it is installed."""
    yield from lines(rounds(sizes, folder, progress), Kept())


def rounds(sizes: Sizes, folder: Path, progress: Progress) -> dict[str, Series]:
    """Return what each part, and Storm, took for a root in each round."""
    taken: Taken = defaultdict(list)
    installed, seconds = storm.program(), storm.SECONDS if sizes.words > AT_ONCE else 1
    with one(folder) as store, acker(folder, store.url) as service:
        make_topology(service, {"message_timeout_ms": WEEK_MS})
        for _ in progress.over(range(sizes.rounds)):
            _round(service, store, sizes.words, taken)
            if installed:
                taken["Storm"].append(storm.run(installed, seconds=seconds, warm_up_s=seconds).cpu_us)
    return {name: Series.of(values) for name, values in taken.items()}


def _round(service: Served, store: Member, count: int, taken: Taken) -> None:
    with Acker(service.url, topology="bench") as client:
        spout = client.spout("sentences")
        before = (time.process_time(), service.cpu_s(), store.cpu_s())
        for at in range(0, count, AT_ONCE):
            _process(client, spout, range(at, min(count, at + AT_ONCE)))
        client.flush()
        _read(spout, count)
        after = (time.process_time(), service.cpu_s(), store.cpu_s())
    for part, began, ended in zip(PARTS, before, after, strict=True):
        taken[part].append((ended - began) / count * 1e6)
    taken["all"].append((sum(after) - sum(before)) / count * 1e6)


def _process(client: Acker, spout: Spout, numbers: range) -> None:
    """Emit roots in a batch, split each, and count its words."""
    sentences = []
    with client.batch():
        for number in numbers:
            with spout.emit(message_id=str(number)) as root:
                sentences.append(root.headers(key="sentence"))
    words: list[dict[str, str]] = []
    for headers in sentences:
        with client.receive(headers, component="split") as tup:
            words.extend(tup.headers(key=str(number)) for number in range(COUNTS))
    for headers in words:
        with client.receive(headers, component="count"):
            pass


def _read(spout: Spout, count: int) -> None:
    end = time.monotonic() + WITHIN_S
    read: set[str | None] = set()
    for completion in spout.completions(stop=lambda: len(read) >= count, page_size=1_000, poll_timeout=1.0):
        assert completion.acked, completion
        assert time.monotonic() < end, f"{len(read)} of {count} were acked"
        read.add(completion.message_id)


def lines(taken: dict[str, Series], kept: Kept) -> Iterator[Line]:
    """Write the lines; Storm's figure is that of the same run or else the last one that there is."""
    us, rounds = "CPU µs", len(taken["all"].values)
    beside, base = "Storm, two workers, all in", taken.get("Storm")
    if base is None:
        recorded = (kept.get(RECORDED) or {}).get("Storm")
        known = f"commit {kept.commit(RECORDED)}" if recorded else ELSEWHERE
        beside = f"{beside}, {known}; not of this run"
        base = Series.of([recorded.median if recorded else STORM_US] * rounds)
    yield Line(
        group=GROUP, what=ROOT, unit=us, measured=taken["all"],
        beside=beside, base=base, ratio_at_most=GOAL,
    )  # fmt: skip
    for part in PARTS:
        yield Line(
            group=GROUP, what=f"{part}, a root of 12 operations", unit=us, measured=taken[part], beside="all three",
            base=taken["all"],
        )  # fmt: skip
