"""Measures single requests, beside an empty route of FastAPI that is served the same way, and an earlier commit.

Each request is sent once bare, and once as clients send it: with an idempotency key and the component's name. So are
last acks, each of which completes a root.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from acker_service.http.parameters import JSON

from bench import baseline, direct, load
from bench.http_batches import DONE, PATH, make_topology
from bench.measure import Series, percentile
from bench.progress import Progress
from bench.servers import Member
from bench.serving import Served, ackers, nothing
from bench.sizes import Sizes
from bench.table import Curve, Line, Result, Skipped
from bench.trees import Trees, batches, json_body, json_operations

GROUP = "single"
CONNECTIONS = 32
FEWER = 5
"""One connection sends so many times fewer requests."""
CPU_GOAL, CPU_GOAL_ALONE, P99_GOAL = 0.62, 1.25, 1.2
"""What is to be reached, as ratios to the empty route: with 32 connections, with one; with 32."""
BARE_ACK, KEYED_ACK = "a single ack", "a single ack with key and component"
LAST_ACK = "a last ack by itself"
REDIS_RATIOS = {KEYED_ACK: 0.8, LAST_ACK: 0.5}
"""What is to be reached of Redis, as ratios to the commit."""
SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
ROUTE = "an empty route of FastAPI"
CPU_US = "CPU µs"

MOST_CHANGE = 1.25
"""So many times the least processor time of the empty route may be its greatest, over the rounds of a run."""

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of all, and of an echo without a framework."""
    taken: dict[str, Taken] = defaultdict(lambda: defaultdict(list))
    with (
        ackers(baseline.codes(folder), folder) as services,
        nothing(folder, "empty") as empty,
        nothing(folder, "echo") as echo,
    ):
        for service, _ in services.values():
            make_topology(service, {"message_timeout_ms": direct.WEEK_MS})
        for number in progress.over(range(sizes.rounds)):
            for connections, count in ((CONNECTIONS, sizes.singles), (1, sizes.singles // FEWER)):
                for what in (BARE_ACK, KEYED_ACK, LAST_ACK):
                    for code, (service, store) in baseline.turns(services, number):
                        bodies = emitted(service, count, are_last=what == LAST_ACK)
                        own = taken[f"{what} {connections}{code}"]
                        expected = b'"acked"' if what == LAST_ACK else b'"pending"'
                        take(service, requests_of(what, bodies), own, connections, store, expected=expected)
                for name, served in (("empty", empty), ("echo", echo)):
                    requests = [load.post("/", body, JSON) for body in bodies]
                    take(served, requests, taken[f"{name} {connections}"], connections)
    series = {name: {what: Series.of(values) for what, values in own.items()} for name, own in taken.items()}
    yield from _lines(series)
    yield from (
        _distribution(name, taken[f"{key} {CONNECTIONS}"]) for name, key in (("Acker", BARE_ACK), (ROUTE, "empty"))
    )


def speed_changes(results: Iterable[Result]) -> str:
    """Describe how the speed of the machine changed while it was measured; empty where it did not.

    The empty route does the same in each round. Where it took more than `MOST_CHANGE` times as much in one round as in
    another, so did all else, and the figures of the run say little.
    """
    for line in results:
        if isinstance(line, Line) and line.group == GROUP and line.beside == ROUTE and line.unit == CPU_US:
            least, most = line.base.low, line.base.high
            if most > MOST_CHANGE * least:
                return (
                    f"the speed of the machine changed, for {ROUTE} took {least:.0f} to {most:.0f} {CPU_US} between "
                    f"rounds, beside {line.what!r}: run make bench again while nothing else runs"
                )
    return ""


def emitted(service: Served, count: int, *, are_last: bool = False) -> list[bytes]:
    """Emit roots in batches, and give the body of a single ack for each; with ``are_last`` one that completes it."""
    trees = Trees(count)
    before, acks = [trees.inits()], trees.acks()
    if are_last:
        before, acks = [*before, acks], trees.last_acks()
    for columns in before:
        bodies = [load.post(f"{PATH}/batch?results=exceptions", json_body(some), JSON) for some in batches(columns)]
        load.send(service.port, bodies, connections=1, expected=DONE)
    return [body.encode() for body in json_operations(acks, verb="")]


def requests_of(what: str, bodies: list[bytes]) -> list[bytes]:
    """Write the requests of acks, bare or with what a client sends besides."""
    path = f"{PATH}/ack"
    if what == BARE_ACK:
        return [load.post(path, body, JSON) for body in bodies]
    return [load.post(path, body[:-1] + b',"component":"bench"}', JSON, key=uuid.uuid4().hex) for body in bodies]


def take(
    served: Served, requests: list[bytes], taken: Taken, connections: int, store: Member | None = None,
    *, expected: bytes = b"accepted",
) -> None:  # fmt: skip
    """Send requests over so many connections, and note what it took of whom."""
    cpu, redis = served.cpu_s(), store.cpu_s() if store else 0.0
    sent = load.send(served.port, requests, connections=connections, expected=expected)
    taken["cpu"].append((served.cpu_s() - cpu) / len(requests) * 1e6)
    if store:
        taken["redis"].append((store.cpu_s() - redis) / len(requests) * 1e6)
    taken["load"].append(sent.cpu_s / len(requests) * 1e6)
    taken["rate"].append(len(requests) / sent.wall_s)
    taken["p99"].append(percentile(sent.each_s, 0.99) * 1e3)
    for share in SHARES:
        taken[f"at {share}"].append(percentile(sent.each_s, share) * 1e3)


def _lines(taken: dict[str, dict[str, Series]]) -> Iterator[Line | Skipped]:
    many, us = f"{CONNECTIONS} connections", CPU_US
    for connections, load_of, cpu_goal, p99_goal in (
        (CONNECTIONS, many, CPU_GOAL, P99_GOAL),
        (1, "1 connection", CPU_GOAL_ALONE, None),
    ):
        empty = taken[f"empty {connections}"]
        for what in (BARE_ACK, KEYED_ACK):
            service, earlier = taken[f"{what} {connections}"], taken.get(f"{what} {connections}{baseline.NAME}", {})
            line = _line(f"the service, {what}, {load_of}", us, service["cpu"], ROUTE, empty["cpu"], at_most=cpu_goal)
            yield from baseline.both(line, earlier.get("cpu"))
            line = _line(f"Redis, {what}, {load_of}", us, service["redis"], "the service", service["cpu"])
            yield from baseline.both(line, earlier.get("redis"), ratio_at_most=REDIS_RATIOS.get(what))
            yield _line(f"p99 of {what}, {load_of}", "ms", service["p99"], ROUTE, empty["p99"], at_most=p99_goal)
        yield from _last_lines(taken, connections, load_of)
    service, empty, echo = (taken[f"{name} {CONNECTIONS}"] for name in (BARE_ACK, "empty", "echo"))
    yield _line(f"single acks, {many}", "/s", service["rate"], ROUTE, empty["rate"])
    yield _line(f"the load, a single ack, {many}", us, service["load"], "the service", service["cpu"])
    yield _line("the load at an echo", "requests/s", echo["rate"], "the same at the service", service["rate"])


def _last_lines(taken: dict[str, dict[str, Series]], connections: int, load_of: str) -> Iterator[Line | Skipped]:
    """Compare a last ack with one that leaves its root pending, and with the commit."""
    last, pending = taken[f"{LAST_ACK} {connections}"], taken[f"{KEYED_ACK} {connections}"]
    earlier = taken.get(f"{LAST_ACK} {connections}{baseline.NAME}", {})
    for part, key in (("the service", "cpu"), ("Redis", "redis")):
        line = _line(f"{part}, {LAST_ACK}, {load_of}", CPU_US, last[key], KEYED_ACK, pending[key])
        goal = REDIS_RATIOS[LAST_ACK] if key == "redis" else None
        yield from baseline.both(line, earlier.get(key), ratio_at_most=goal)


def _distribution(name: str, taken: Taken) -> Curve:
    """Return the milliseconds that a share of all requests, in percent, did not exceed."""
    points = tuple((share * 100, Series.of(taken[f"at {share}"]).median) for share in SHARES)
    return Curve(group=GROUP, plot="latency", name=name, points=points)


def _line(what: str, unit: str, measured: Series, beside: str, base: Series, *, at_most: float | None = None) -> Line:
    return Line(group=GROUP, what=what, unit=unit, measured=measured, beside=beside, base=base, ratio_at_most=at_most)
