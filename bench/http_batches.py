"""Measures root updates in batches over HTTP, beside the same apply function called directly, and an earlier commit.

Three batches update a root: its init, an ack after which it is pending, its last ack. In mixed batches each second
operation is an init of a new root, and the others are acks of roots that are pending. Acks that are all of one root go
to one shard, and thus to one core of Redis, however many there are.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from acker_protocol.wire.packed import CONTENT_TYPE, VERSION
from acker_service.http.parameters import JSON
from acker_service.operations.column_batch import ColumnBatch
from acker_service.topologies.config import TopologyConfig

from bench import baseline, direct, load
from bench.direct import Direct
from bench.measure import Series
from bench.progress import Progress
from bench.servers import Member, one
from bench.serving import Served, ackers, nothing
from bench.sizes import BATCH, Sizes
from bench.table import Curve, Line, Result, Skipped
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
BY_SIZE = {"packed": {10: 0.5, 100: 0.6, 1_000: 0.75}, "JSON": {10: 0.6, 100: 0.65, 1_000: 0.85}}
"""What an ack in a batch of a size may take of the service, as a ratio to the commit."""

Taken = dict[str, list[float]]
Turns = list[tuple[str, tuple[Served, Member]]]
FORMS = {"packed": CONTENT_TYPE, "JSON": JSON}


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of all, each way after the other."""
    taken: dict[str, Taken] = defaultdict(lambda: defaultdict(list))
    with ackers(baseline.codes(folder), folder) as services, nothing(folder, "echo") as echo, one(folder) as store:
        for service, _ in services.values():
            make_topology(service, {"message_timeout_ms": direct.WEEK_MS})
        at = direct.make(store, TopologyConfig(message_timeout_ms=direct.WEEK_MS))
        for number in progress.over(range(sizes.rounds)):
            _ceilings(at, echo, sizes, taken[""])
            _round(baseline.turns(services, number), sizes, taken)
        at.close()
    present, earlier = baseline.series(taken)
    yield from _lines(present, earlier)
    for form in FORMS:
        points = tuple((size, present[f"{form} by {size}"].median) for size in sizes.batch_sizes)
        yield Curve(group=GROUP, plot="throughput", name=form, points=points)


def make_topology(service: Served, configuration: Mapping[str, float | None]) -> None:
    """Make the topology that is loaded, or change it."""
    httpx.put(service.url + PATH, json=configuration, trust_env=False).raise_for_status()


def phases(trees: Trees, form: str, version: int = VERSION) -> list[list[bytes]]:
    """Write the requests: those of one phase may be answered in any order."""
    return [_requests(batches(columns), form, version) for columns in (trees.inits(), trees.acks(), trees.last_acks())]


def _ceilings(at: Direct, echo: Served, sizes: Sizes, taken: Taken) -> None:
    """Measure what no service could exceed: the function called directly, and the load at an echo."""
    operations = UPDATES * sizes.trees
    called = _call(at, Trees(sizes.trees))
    taken["direct/s"].append(operations / called.wall_s)
    taken["direct Redis"].append(called.redis_s / operations * 1e6)
    for form in FORMS:
        wall, _ = _send(echo, phases(Trees(sizes.trees), form), b"accepted")
        taken[f"{form} echo/s"].append(operations / wall)


def _round(turns: Turns, sizes: Sizes, taken: dict[str, Taken]) -> None:
    """Measure every code in turns."""
    idle = {code: service.idle() for code, (service, _) in turns}
    for form, (code, (service, store)) in itertools.product(FORMS, turns):
        _updates(service, store, sizes, form, idle[code], taken[code])
    for form, size, (code, (service, _)) in itertools.product(FORMS, sizes.batch_sizes, turns):
        _acks_by(service, form, size, taken[code])
    kinds = (("one root", _acks_of_one), ("many", _acks))
    for (of, make), (code, (service, store)) in itertools.product(kinds, turns):
        acks, before = make(service, sizes.mixed), store.cpu_s()
        wall, _ = _send(service, [_requests(batches(acks), "packed", service.packed_version)], DONE)
        taken[code][f"acks of {of}/s"].append(len(acks) / wall)
        taken[code][f"acks of {of} Redis"].append((store.cpu_s() - before) / len(acks) * 1e6)


def _updates(service: Served, store: Member, sizes: Sizes, form: str, idle: float, taken: Taken) -> None:
    """Update roots in one form, then in batches of inits and acks; ``idle`` is the share of the idle service."""
    operations, requests = UPDATES * sizes.trees, phases(Trees(sizes.trees), form, service.packed_version)
    before = store.cpu_s()
    sent = _timed(service, requests)
    taken[f"{form}/s"].append(operations / sent.wall_s)
    taken[f"{form} load"].append(sent.load_s / operations * 1e6)
    taken[f"{form} service"].append(sent.service_s / operations * 1e6)
    taken[f"{form} net"].append(max(0.001, sent.service_s - idle * sent.wall_s) / operations * 1e6)
    taken[f"{form} Redis"].append((store.cpu_s() - before) / operations * 1e6)
    sent = _timed(service, [_mixed(service, sizes.mixed, form)])
    taken[f"{form} mixed"].append(max(0.001, sent.service_s - idle * sent.wall_s) / sizes.mixed * 1e6)


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
    return _requests(batches(mixed(Trees(operations // 2), old)), form, service.packed_version)


def _acks_by(service: Served, form: str, size: int, taken: Taken) -> None:
    """Ack in batches of a size, over all connections: note how many a second are answered, and what each takes."""
    trees = _pending(service, min(SIZED * size, MOST_SIZED))
    sent = _timed(service, [_requests(batches(trees.acks(), size), form, service.packed_version)])
    taken[f"{form} by {size}"].append(len(trees.roots) / sent.wall_s)
    taken[f"{form} by {size} service"].append(sent.service_s / len(trees.roots) * 1e6)


def _acks(service: Served, count: int) -> ColumnBatch:
    """Emit roots; give an ack of each."""
    return _pending(service, count).acks()


def _acks_of_one(service: Served, count: int) -> ColumnBatch:
    """Emit a root; give so many acks of it, after which it is pending."""
    init, acks = one_root(count)
    load.send(service.port, _requests([init], "packed", service.packed_version), connections=1, expected=DONE)
    return acks


def _pending(service: Served, count: int) -> Trees:
    trees = Trees(count)
    inits = _requests(batches(trees.inits()), "packed", service.packed_version)
    load.send(service.port, inits, connections=CONNECTIONS, expected=DONE)
    return trees


def _requests(some: Iterable[ColumnBatch], form: str, version: int) -> list[bytes]:
    bodies = (packed_body(batch, version) if form == "packed" else json_body(batch) for batch in some)
    return [load.post(f"{PATH}/batch?results=exceptions", body, FORMS[form]) for body in bodies]


def _call(at: Direct, trees: Trees) -> direct.Taken:
    prepared = [at.prepare(columns) for columns in (trees.inits(), trees.acks(), trees.last_acks())]
    taken = [at.run(batch, word) for batch, word in zip(prepared, "ppa", strict=True)]
    return direct.Taken(wall_s=sum(part.wall_s for part in taken), redis_s=sum(part.redis_s for part in taken))


def _send(served: Served, requests: list[list[bytes]], expected: bytes) -> tuple[float, float]:
    sent = [load.send(served.port, phase, connections=CONNECTIONS, expected=expected) for phase in requests]
    return sum(part.wall_s for part in sent), sum(part.cpu_s for part in sent)


def _lines(taken: dict[str, Series], earlier: dict[str, Series]) -> Iterator[Line | Skipped]:
    us = "CPU µs"
    for form in FORMS:
        over, service = f"root updates over HTTP, {form}, {BATCH:,} a batch", taken[f"{form} service"]
        yield _line(over, "/s", taken[f"{form}/s"], "the apply function called directly", taken["direct/s"])
        for kinds, key in (("", f"{form} net"), (", inits and acks in each batch", f"{form} mixed")):
            what = f"the service, an operation, {form}, beyond the idle service{kinds}"
            line = _line(what, us, taken[key], "when nothing is taken off", service, at_most=GOALS[form])
            yield from baseline.both(line, earlier.get(key))
        for what, key in (("the service", f"{form} service"), ("Redis behind it", f"{form} Redis")):
            line = _line(f"{what}, an update, {form}", us, taken[key], "Redis, called directly", taken["direct Redis"])
            yield from baseline.both(line, earlier.get(key))
        yield _line(f"the load, an update, {form}", us, taken[f"{form} load"], "the service", service)
        beside = "the same at the service"
        yield _line(f"the load at an echo, {form}", "updates/s", taken[f"{form} echo/s"], beside, taken[f"{form}/s"])
    yield from _lines_by_size(taken, earlier)
    rate, cpu, beside = "acks of one root/s", "acks of one root Redis", "each of another root"
    yield _line("acks over HTTP, packed, all of one root", "/s", taken[rate], beside, taken["acks of many/s"])
    what = "Redis behind it, an ack, packed, all of one root"
    line = _line(what, us, taken[cpu], beside, taken["acks of many Redis"])
    yield from baseline.both(line, earlier.get(cpu))


def _lines_by_size(taken: dict[str, Series], earlier: dict[str, Series]) -> Iterator[Line | Skipped]:
    """Compare what an ack takes in batches of each size with the commit."""
    for form, goals in BY_SIZE.items():
        for size, goal in goals.items():
            key = f"{form} by {size} service"
            what = f"the service, an ack, {form}, {size:,} a batch, beside {baseline.NAME}"
            if key in earlier:
                yield Line(
                    group=GROUP, what=what, unit="CPU µs", measured=taken[key], beside=baseline.NAME,
                    base=earlier[key], ratio_at_most=goal,
                )  # fmt: skip
            else:
                yield Skipped(group=GROUP, what=what, why=baseline.MISSING)


def _line(what: str, unit: str, measured: Series, beside: str, base: Series, *, at_most: float | None = None) -> Line:
    return Line(group=GROUP, what=what, unit=unit, measured=measured, beside=beside, base=base, at_most=at_most)
