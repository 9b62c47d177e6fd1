"""Measures single requests, beside an empty route of FastAPI that is served the same way."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from acker_service.http.parameters import JSON

from bench import direct, load
from bench.http_batches import DONE, PATH, make_topology
from bench.measure import Series, percentile
from bench.progress import Progress
from bench.servers import one
from bench.serving import Served, acker, nothing
from bench.sizes import Sizes
from bench.table import Line
from bench.trees import Trees, batches, json_body, json_operations

GROUP = "single"
CONNECTIONS = 32

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:
    """Measure rounds of both, and of an echo without a framework."""
    taken: dict[str, Taken] = defaultdict(lambda: defaultdict(list))
    with (
        one(folder) as store,
        nothing(folder, "empty") as empty,
        nothing(folder, "echo") as echo,
        acker(folder, store.url) as service,
    ):
        make_topology(service, {"message_timeout_ms": direct.WEEK_MS})
        for _ in progress.over(range(sizes.rounds)):
            acks = _emitted(service, sizes.singles)
            _take(service, f"{PATH}/ack", acks, b'"pending"', taken["service"])
            _take(empty, "/", acks, b"accepted", taken["empty"])
            _take(echo, "/", acks, b"accepted", taken["echo"])
    series = {name: {what: Series.of(values) for what, values in own.items()} for name, own in taken.items()}
    yield from _lines(series)


def _emitted(service: Served, count: int) -> list[bytes]:
    """Emit roots in batches, and give the body of a single ack for each."""
    trees = Trees(count)
    bodies = [load.post(f"{PATH}/batch?results=exceptions", json_body(some), JSON) for some in batches(trees.inits())]
    load.send(service.port, bodies, connections=1, expected=DONE)
    return [body.encode() for body in json_operations(trees.acks(), verb="")]


def _take(served: Served, path: str, bodies: list[bytes], expected: bytes, taken: Taken) -> None:
    requests = [load.post(path, body, JSON) for body in bodies]
    cpu = served.cpu_s()
    sent = load.send(served.port, requests, connections=CONNECTIONS, expected=expected)
    taken["cpu"].append((served.cpu_s() - cpu) / len(requests) * 1e6)
    taken["load"].append(sent.cpu_s / len(requests) * 1e6)
    taken["rate"].append(len(requests) / sent.wall_s)
    taken["p99"].append(percentile(sent.each_s, 0.99) * 1e3)


def _lines(taken: dict[str, dict[str, Series]]) -> Iterator[Line]:
    service, empty, echo, route = taken["service"], taken["empty"], taken["echo"], "an empty route of FastAPI"
    yield _line(f"single acks, {CONNECTIONS} connections", "/s", service["rate"], route, empty["rate"])
    yield _line("p99 of a single ack", "ms", service["p99"], route, empty["p99"])
    yield _line("the service, a single ack", "CPU µs", service["cpu"], route, empty["cpu"])
    yield _line("the load, a single ack", "CPU µs", service["load"], "the service", service["cpu"])
    yield _line("the load at an echo", "requests/s", echo["rate"], "the same at the service", service["rate"])


def _line(what: str, unit: str, measured: Series, beside: str, base: Series) -> Line:
    return Line(group=GROUP, what=what, unit=unit, measured=measured, beside=beside, base=base)
