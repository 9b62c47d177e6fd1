"""Measures what operators take: the open page and scraped metrics under load, traces, and details of pending roots.

The same load is sent with and without them, by turns. The page is its stream of events.
"""

import contextlib
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx
from acker_service.topologies.config import TopologyConfig

from bench import direct
from bench.direct import DAY_MS, WEEK_MS, Direct
from bench.http_batches import CONNECTIONS, DONE, UPDATES, make_topology, phases
from bench.load import send
from bench.measure import Series
from bench.memory import ACKERS
from bench.progress import Progress
from bench.servers import Member, one
from bench.serving import Served, acker
from bench.sizes import Sizes
from bench.table import Line
from bench.trees import Trees

GROUP = "operating"
WATCHED = "the service and Redis, an operation, with the page open and metrics scraped once a second"
TRACED = "the service and Redis, an operation, with one root of a hundred traced"
ALONE = "without both"
DETAILED, BARE = "a pending root with an ack, with its details", "a pending root with an ack, without details"
UNTRACED = "a pending root with an ack, with its details, not traced among a hundredth that is"
AT_MOST = {DETAILED: 52.0, BARE: 42.0, UNTRACED: 52.0}
"""The bytes that a pending root may take."""
RATIO_AT_MOST = 1.03
WAYS = (WATCHED, ALONE, TRACED)
SHARE = 0.01
SCRAPED_EACH_S, WITHIN_S = 1.0, 30.0


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:
    """Measure several rounds, then the memory of roots with and without details."""
    taken: dict[str, list[float]] = defaultdict(list)
    for _ in progress.over(range(sizes.rounds * sizes.watched)):
        for way, cpu_us in _round(sizes, folder).items():
            taken[way].append(cpu_us)
    for way in (WATCHED, TRACED):
        yield Line(
            group=GROUP,
            what=way,
            unit="CPU µs",
            measured=Series.of(taken[way]),
            beside=ALONE,
            base=Series.of(taken[ALONE]),
            ratio_at_most=RATIO_AT_MOST,
        )
    with one(folder) as store:
        sizes_of = {
            DETAILED: _bytes(store, sizes),
            BARE: _bytes(store, sizes, root_details=False),
            UNTRACED: _bytes(store, sizes, trace=SHARE),
        }
    for what, at_most in AT_MOST.items():
        beside = BARE if what == DETAILED else DETAILED
        yield Line(
            group=GROUP,
            what=f"{what}, at {sizes.pending:,}",
            unit="bytes",
            measured=sizes_of[what],
            beside=beside,
            base=sizes_of[beside],
            at_most=at_most,
        )


def _round(sizes: Sizes, folder: Path) -> dict[str, float]:
    """Return the CPU µs of an operation in each way, measured by turns on a store of their own.

    The store fills meanwhile and costs more, so each is the mean of two turns, in opposite orders of the ways.
    """
    spent_s = defaultdict[str, float](float)
    with one(folder) as store, acker(folder, store.url) as service:
        for way in (*WAYS, *WAYS[::-1]):
            make_topology(service, {"message_timeout_ms": WEEK_MS, "trace": SHARE if way == TRACED else 0})
            with _watched(service) if way == WATCHED else contextlib.nullcontext(Counter(events=1, scrapes=1)) as read:
                spent_s[way] += _spent_s(service, store, sizes)
            assert read["events"] > 0, "the stream gave no event"
            assert read["scrapes"] > 0, "no metrics were scraped"
    return {way: spent_s[way] / (2 * UPDATES * sizes.trees) * 1e6 for way in WAYS}


def _spent_s(service: Served, store: Member, sizes: Sizes) -> float:
    """Return the processor seconds that service and Redis together take for trees that are sent at full speed."""
    requests = phases(Trees(sizes.trees), "packed")
    before = service.cpu_s() + store.cpu_s()
    for phase in requests:
        send(service.port, phase, connections=CONNECTIONS, expected=DONE)
    return service.cpu_s() + store.cpu_s() - before


@contextlib.contextmanager
def _watched(service: Served) -> Iterator[Counter[str]]:
    """Read events and metrics in threads of their own until the block is left, and yield how many were read."""
    read, ended, both = Counter[str](), threading.Event(), threading.Barrier(3)
    threads = [threading.Thread(target=work, args=(service, read, ended, both)) for work in (_follow, _scrape)]
    for thread in threads:
        thread.start()
    both.wait(WITHIN_S)
    try:
        yield read
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _follow(service: Served, read: Counter[str], ended: threading.Event, both: threading.Barrier) -> None:
    """Read the stream of events, as the open page does."""
    with httpx.stream("GET", f"{service.url}/v1/events", timeout=WITHIN_S, trust_env=False) as stream:
        for line in stream.iter_lines():
            if not line.startswith("data:"):
                continue
            read["events"] += 1
            if read["events"] == 1:
                both.wait(WITHIN_S)
            if ended.is_set():
                return


def _scrape(service: Served, read: Counter[str], ended: threading.Event, both: threading.Barrier) -> None:
    """Read the metrics, as Prometheus does."""
    while not ended.is_set():
        httpx.get(f"{service.url}/metrics", timeout=WITHIN_S, trust_env=False).raise_for_status()
        read["scrapes"] += 1
        if read["scrapes"] == 1:
            both.wait(WITHIN_S)
        ended.wait(SCRAPED_EACH_S)


def _bytes(server: Member, sizes: Sizes, *, root_details: bool = True, trace: float = 0) -> Series:
    """Return by how many bytes a root Redis grew in each round, after an ack of a component that leaves it pending.

    Traces are not counted: they are removed before.
    """
    each, grown, topologies = sizes.pending // sizes.rounds, [], list[Direct]()
    server.ask("FLUSHALL")
    for number in range(sizes.rounds):
        configuration = TopologyConfig(
            ackers=ACKERS,
            buckets=direct.buckets_for(each, ackers=ACKERS),
            message_timeout_ms=WEEK_MS,
            retention_ms=DAY_MS,
            root_details=root_details,
            trace=trace,
        )
        at, trees = direct.make(server, configuration, name=f"bench-{number}"), Trees(each)
        topologies.append(at)
        before = at.used_memory()
        at.run(at.prepare(trees.inits()), "p")
        at.run(at.prepare(trees.acks(component="charge")), "p")
        at.forget(match="*:trace*")
        grown.append((at.used_memory() - before) / each)
    for at in topologies:
        at.close()
    return Series.of(grown)
