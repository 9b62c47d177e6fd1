"""Measures root updates in batches over HTTP, beside the same apply function called directly on the same Redis.

Three batches update a root: its init, an ack after which it is pending, its last ack.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
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
from bench.table import Line
from bench.trees import Trees, batches, json_body, packed_body

GROUP = "batches"
PATH = "/v1/topologies/bench"
CONNECTIONS = 8
UPDATES = 3
DONE = b'"exceptions":[]'

Bodies = Callable[[ColumnBatch], bytes]
FORMS: dict[str, tuple[Bodies, str]] = {"packed": (packed_body, CONTENT_TYPE), "JSON": (json_body, JSON)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All that takes part."""

    store: Member
    service: Served
    echo: Served
    direct: Direct


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:
    """Measure rounds of all, each way after the other."""
    taken: dict[str, list[float]] = defaultdict(list)
    with one(folder) as store, nothing(folder, "echo") as echo, acker(folder, store.url) as service:
        make_topology(service, {"message_timeout_ms": direct.WEEK_MS})
        at = direct.make(store, TopologyConfig(message_timeout_ms=direct.WEEK_MS))
        bench = Bench(store=store, service=service, echo=echo, direct=at)
        for _ in progress.over(range(sizes.rounds)):
            _round(bench, sizes.trees, taken)
        at.close()
    yield from _lines({name: Series.of(values) for name, values in taken.items()})


def make_topology(service: Served, configuration: dict[str, int]) -> None:
    """Make the topology that is loaded."""
    httpx.put(service.url + PATH, json=configuration, trust_env=False).raise_for_status()


def phases(trees: Trees, form: str) -> list[list[bytes]]:
    """Write the requests: those of one phase may be answered in any order."""
    write, content_type = FORMS[form]
    return [
        [load.post(f"{PATH}/batch?results=exceptions", write(batch), content_type) for batch in batches(columns)]
        for columns in (trees.inits(), trees.acks(), trees.last_acks())
    ]


def _round(bench: Bench, count: int, taken: dict[str, list[float]]) -> None:
    operations = UPDATES * count
    called = _call(bench.direct, Trees(count))
    taken["direct/s"].append(operations / called.wall_s)
    taken["direct Redis"].append(called.redis_s / operations * 1e6)
    for form in FORMS:
        requests = phases(Trees(count), form)
        service, store = bench.service.cpu_s(), bench.store.cpu_s()
        wall, load_cpu = _send(bench.service, requests, DONE)
        taken[f"{form}/s"].append(operations / wall)
        taken[f"{form} load"].append(load_cpu / operations * 1e6)
        taken[f"{form} service"].append((bench.service.cpu_s() - service) / operations * 1e6)
        taken[f"{form} Redis"].append((bench.store.cpu_s() - store) / operations * 1e6)
        wall, _ = _send(bench.echo, requests, b"accepted")
        taken[f"{form} echo/s"].append(operations / wall)


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
        beside = "Redis, called directly"
        yield _line(f"the service, an update, {form}", us, taken[f"{form} service"], beside, taken["direct Redis"])
        yield _line(f"Redis behind it, an update, {form}", us, taken[f"{form} Redis"], beside, taken["direct Redis"])
        beside = "the service"
        yield _line(f"the load, an update, {form}", us, taken[f"{form} load"], beside, taken[f"{form} service"])
        beside = "the same at the service"
        yield _line(f"the load at an echo, {form}", "updates/s", taken[f"{form} echo/s"], beside, taken[f"{form}/s"])


def _line(what: str, unit: str, measured: Series, beside: str, base: Series) -> Line:
    return Line(group=GROUP, what=what, unit=unit, measured=measured, beside=beside, base=base)
