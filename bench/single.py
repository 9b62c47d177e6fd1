"""Measures single requests, beside an empty route of FastAPI that is served the same way, and an earlier commit."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from acker_service.http.parameters import JSON

from bench import baseline, direct, load
from bench.http_batches import DONE, PATH, make_topology
from bench.measure import Series, percentile
from bench.progress import Progress
from bench.servers import Member, one
from bench.serving import Served, acker, nothing
from bench.sizes import Sizes
from bench.table import Curve, Line, Result, Skipped
from bench.trees import Trees, batches, json_body, json_operations

GROUP = "single"
CONNECTIONS = 32
FEWER = 5
"""One connection sends so many times fewer requests."""
CPU_GOAL, CPU_GOAL_ALONE, P99_GOAL = 1.0, 2.5, 2.0
"""What is to be reached, as ratios to the empty route: with 32 connections, with one; with 32."""
REDIS_GOAL = 0.4
"""What Redis may take, as a ratio to the earlier commit."""
SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
ROUTE = "an empty route of FastAPI"

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of all, and of an echo without a framework."""
    taken: dict[str, Taken] = defaultdict(lambda: defaultdict(list))
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(one(folder)) for _ in range(2)]
        empty, echo = (stack.enter_context(nothing(folder, kind)) for kind in ("empty", "echo"))
        service = stack.enter_context(acker(folder, stores[0].url))
        services = {"service": (service, stores[0])}
        if code := stack.enter_context(baseline.checkout(folder)):
            services["earlier"] = stack.enter_context(acker(folder, stores[1].url, code=code)), stores[1]
        for served, _ in services.values():
            make_topology(served, {"message_timeout_ms": direct.WEEK_MS})
        for _ in progress.over(range(sizes.rounds)):
            for connections, count in ((CONNECTIONS, sizes.singles), (1, sizes.singles // FEWER)):
                for name, (served, store) in services.items():
                    acks = emitted(served, count)
                    take(served, f"{PATH}/ack", acks, taken[f"{name} {connections}"], connections, store)
                for name, served in (("empty", empty), ("echo", echo)):
                    take(served, "/", acks, taken[f"{name} {connections}"], connections)
    series = {name: {what: Series.of(values) for what, values in own.items()} for name, own in taken.items()}
    yield from _lines(series)
    yield from (
        _distribution(name, taken[f"{key} {CONNECTIONS}"]) for name, key in (("Acker", "service"), (ROUTE, "empty"))
    )


def emitted(service: Served, count: int) -> list[bytes]:
    """Emit roots in batches, and give the body of a single ack for each."""
    trees = Trees(count)
    bodies = [load.post(f"{PATH}/batch?results=exceptions", json_body(some), JSON) for some in batches(trees.inits())]
    load.send(service.port, bodies, connections=1, expected=DONE)
    return [body.encode() for body in json_operations(trees.acks(), verb="")]


def take(
    served: Served, path: str, bodies: list[bytes], taken: Taken, connections: int, store: Member | None = None
) -> None:
    """Send bodies over so many connections, and note what it took of whom."""
    requests = [load.post(path, body, JSON) for body in bodies]
    cpu, redis = served.cpu_s(), store.cpu_s() if store else 0.0
    expected = b'"pending"' if store else b"accepted"
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
    service, empty, echo = (taken[f"{name} {CONNECTIONS}"] for name in ("service", "empty", "echo"))
    alone, empty_alone = taken["service 1"], taken["empty 1"]
    many, us = f"{CONNECTIONS} connections", "CPU µs"
    yield _line(f"single acks, {many}", "/s", service["rate"], ROUTE, empty["rate"])
    yield _line(f"the service, a single ack, {many}", us, service["cpu"], ROUTE, empty["cpu"], at_most=CPU_GOAL)
    yield _line(
        "the service, a single ack, 1 connection", us, alone["cpu"], ROUTE, empty_alone["cpu"], at_most=CPU_GOAL_ALONE
    )
    yield _line(f"p99 of a single ack, {many}", "ms", service["p99"], ROUTE, empty["p99"], at_most=P99_GOAL)
    yield _line("p99 of a single ack, 1 connection", "ms", alone["p99"], ROUTE, empty_alone["p99"])
    what = f"Redis, a single ack, {many}"
    if earlier := taken.get(f"earlier {CONNECTIONS}"):
        yield _line(what, us, service["redis"], baseline.NAME, earlier["redis"], at_most=REDIS_GOAL)
        what = f"the service, a single ack, {many}, beside {baseline.NAME}"
        yield _line(what, us, service["cpu"], baseline.NAME, earlier["cpu"])
    else:
        yield Skipped(group=GROUP, what=what, why=baseline.MISSING)
    yield _line(f"the load, a single ack, {many}", us, service["load"], "the service", service["cpu"])
    yield _line("the load at an echo", "requests/s", echo["rate"], "the same at the service", service["rate"])


def _distribution(name: str, taken: Taken) -> Curve:
    """Return the milliseconds that a share of all requests, in percent, did not exceed."""
    points = tuple((share * 100, Series.of(taken[f"at {share}"]).median) for share in SHARES)
    return Curve(group=GROUP, plot="latency", name=name, points=points)


def _line(what: str, unit: str, measured: Series, beside: str, base: Series, *, at_most: float | None = None) -> Line:
    return Line(group=GROUP, what=what, unit=unit, measured=measured, beside=beside, base=base, ratio_at_most=at_most)
