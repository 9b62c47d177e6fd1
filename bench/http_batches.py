"""Measures root updates in batches over HTTP, beside the same apply function called directly on the same Redis.

Three batches update a root: its init, an ack after which it is pending, its last ack. In mixed batches each second
operation is an init of a new root, and the others are acks of roots that are pending. Acks that are all of one root go
to one shard, and thus to one core of Redis, however many there are.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from acker_protocol.wire.packed import CONTENT_TYPE
from acker_service.http.parameters import JSON
from acker_service.operations.column_batch import ColumnBatch
from acker_service.topologies.config import TopologyConfig

from bench import direct, load
from bench.direct import Direct, Taken
from bench.measure import Series
from bench.progress import Progress
from bench.servers import Member, one
from bench.serving import Served, acker, nothing
from bench.sizes import BATCH, Sizes
from bench.table import Curve, Line, Result
from bench.trees import Trees, batches, json_body, mixed, one_root, packed_body

GROUP = "batches"
PATH = "/v1/topologies/bench"
CONNECTIONS = 8
UPDATES = 3
SIZED, MOST_SIZED = 500, 50_000
"""So many batches of each size are sent, but no more operations than this."""
DONE = b'"exceptions":[]'
GOALS = {"packed": 1.4, "JSON": 2.3}
"""The CPU µs that an operation may take of the service, beyond what it takes while it is idle."""

Bodies = Callable[[ColumnBatch], bytes]
FORMS: dict[str, tuple[Bodies, str]] = {"packed": (packed_body, CONTENT_TYPE), "JSON": (json_body, JSON)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All that takes part."""

    store: Member
    service: Served
    echo: Served
    direct: Direct


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of all, each way after the other."""
    taken: dict[str, list[float]] = defaultdict(list)
    with one(folder) as store, nothing(folder, "echo") as echo, acker(folder, store.url) as service:
        make_topology(service, {"message_timeout_ms": direct.WEEK_MS})
        at = direct.make(store, TopologyConfig(message_timeout_ms=direct.WEEK_MS))
        bench = Bench(store=store, service=service, echo=echo, direct=at)
        for _ in progress.over(range(sizes.rounds)):
            _round(bench, sizes, taken)
        at.close()
    series = {name: Series.of(values) for name, values in taken.items()}
    yield from _lines(series)
    for form in FORMS:
        points = tuple((size, series[f"{form} by {size}"].median) for size in sizes.batch_sizes)
        yield Curve(group=GROUP, plot="throughput", name=form, points=points)


def make_topology(service: Served, configuration: Mapping[str, float | None]) -> None:
    """Make the topology that is loaded, or change it."""
    httpx.put(service.url + PATH, json=configuration, trust_env=False).raise_for_status()


def phases(trees: Trees, form: str) -> list[list[bytes]]:
    """Write the requests: those of one phase may be answered in any order."""
    return [_requests(batches(columns), form) for columns in (trees.inits(), trees.acks(), trees.last_acks())]


def _round(bench: Bench, sizes: Sizes, taken: dict[str, list[float]]) -> None:
    operations = UPDATES * sizes.trees
    called = _call(bench.direct, Trees(sizes.trees))
    taken["direct/s"].append(operations / called.wall_s)
    taken["direct Redis"].append(called.redis_s / operations * 1e6)
    idle = bench.service.idle()
    for form in FORMS:
        requests = phases(Trees(sizes.trees), form)
        store = bench.store.cpu_s()
        sent = _timed(bench.service, requests)
        taken[f"{form}/s"].append(operations / sent.wall_s)
        taken[f"{form} load"].append(sent.load_s / operations * 1e6)
        taken[f"{form} service"].append(sent.service_s / operations * 1e6)
        taken[f"{form} net"].append(max(0.001, sent.service_s - idle * sent.wall_s) / operations * 1e6)
        taken[f"{form} Redis"].append((bench.store.cpu_s() - store) / operations * 1e6)
        wall, _ = _send(bench.echo, requests, b"accepted")
        taken[f"{form} echo/s"].append(operations / wall)
        sent = _timed(bench.service, [_mixed(bench.service, sizes.mixed, form)])
        taken[f"{form} mixed"].append(max(0.001, sent.service_s - idle * sent.wall_s) / sizes.mixed * 1e6)
        for size in sizes.batch_sizes:
            taken[f"{form} by {size}"].append(_rate(bench.service, form, size))
    for of, acks in (
        ("one root", _acks_of_one(bench.service, sizes.mixed)),
        ("many", _acks(bench.service, sizes.mixed)),
    ):
        store = bench.store.cpu_s()
        wall, _ = _send(bench.service, [_requests(batches(acks), "packed")], DONE)
        taken[f"acks of {of}/s"].append(len(acks) / wall)
        taken[f"acks of {of} Redis"].append((bench.store.cpu_s() - store) / len(acks) * 1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The seconds that requests took: on the wall, of the service, of the load."""

    wall_s: float
    service_s: float
    load_s: float


def _timed(service: Served, requests: list[list[bytes]]) -> Sent:
    before = service.cpu_s()
    wall, load_cpu = _send(service, requests, DONE)
    return Sent(wall_s=wall, service_s=service.cpu_s() - before, load_s=load_cpu)


def _mixed(service: Served, operations: int, form: str) -> list[bytes]:
    """Emit half as many roots; write batches of which half are acks of these, half inits of others."""
    old = _pending(service, operations // 2)
    return _requests(batches(mixed(Trees(operations // 2), old)), form)


def _rate(service: Served, form: str, size: int) -> float:
    """Return how many acks a second are answered in batches of a size, over all connections."""
    trees = _pending(service, min(SIZED * size, MOST_SIZED))
    wall, _ = _send(service, [_requests(batches(trees.acks(), size), form)], DONE)
    return len(trees.roots) / wall


def _acks(service: Served, count: int) -> ColumnBatch:
    """Emit roots; give an ack of each."""
    return _pending(service, count).acks()


def _acks_of_one(service: Served, count: int) -> ColumnBatch:
    """Emit a root; give so many acks of it, after which it is pending."""
    init, acks = one_root(count)
    load.send(service.port, _requests([init], "packed"), connections=1, expected=DONE)
    return acks


def _pending(service: Served, count: int) -> Trees:
    trees = Trees(count)
    load.send(service.port, _requests(batches(trees.inits()), "packed"), connections=CONNECTIONS, expected=DONE)
    return trees


def _requests(some: Iterable[ColumnBatch], form: str) -> list[bytes]:
    write, content_type = FORMS[form]
    return [load.post(f"{PATH}/batch?results=exceptions", write(batch), content_type) for batch in some]


def _call(at: Direct, trees: Trees) -> Taken:
    prepared = [at.prepare(columns) for columns in (trees.inits(), trees.acks(), trees.last_acks())]
    taken = [at.run(batch, word) for batch, word in zip(prepared, "ppa", strict=True)]
    return Taken(wall_s=sum(part.wall_s for part in taken), redis_s=sum(part.redis_s for part in taken))


def _send(served: Served, requests: list[list[bytes]], expected: bytes) -> tuple[float, float]:
    sent = [load.send(served.port, phase, connections=CONNECTIONS, expected=expected) for phase in requests]
    return sum(part.wall_s for part in sent), sum(part.cpu_s for part in sent)


def _lines(taken: dict[str, Series]) -> Iterator[Line]:
    for form in FORMS:
        over, us = f"root updates over HTTP, {form}, {BATCH:,} a batch", "CPU µs"
        yield _line(over, "/s", taken[f"{form}/s"], "the apply function called directly", taken["direct/s"])
        beside = "when nothing is taken off"
        for kinds, key in (("", "net"), (", inits and acks in each batch", "mixed")):
            what = f"the service, an operation, {form}, beyond the idle service{kinds}"
            net = taken[f"{form} {key}"]
            yield _line(what, us, net, beside, taken[f"{form} service"], at_most=GOALS[form])
        beside = "Redis, called directly"
        yield _line(f"the service, an update, {form}", us, taken[f"{form} service"], beside, taken["direct Redis"])
        yield _line(f"Redis behind it, an update, {form}", us, taken[f"{form} Redis"], beside, taken["direct Redis"])
        beside = "the service"
        yield _line(f"the load, an update, {form}", us, taken[f"{form} load"], beside, taken[f"{form} service"])
        beside = "the same at the service"
        yield _line(f"the load at an echo, {form}", "updates/s", taken[f"{form} echo/s"], beside, taken[f"{form}/s"])
    for what, unit, key in (
        ("acks over HTTP, packed", "/s", "/s"),
        ("Redis behind it, an ack, packed", "CPU µs", " Redis"),
    ):
        of_one, many = taken[f"acks of one root{key}"], taken[f"acks of many{key}"]
        yield _line(f"{what}, all of one root", unit, of_one, "each of another root", many)


def _line(what: str, unit: str, measured: Series, beside: str, base: Series, *, at_most: float | None = None) -> Line:
    return Line(group=GROUP, what=what, unit=unit, measured=measured, beside=beside, base=base, at_most=at_most)
