"""Measures what the same load costs on a cluster of three, beside one server: an acker before each."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import direct, load
from bench.http_batches import CONNECTIONS, DONE, UPDATES, make_topology, phases
from bench.measure import Series
from bench.progress import Progress
from bench.servers import Member, cluster_url, one, three
from bench.serving import Served, acker
from bench.sizes import Sizes
from bench.table import Line
from bench.trees import Trees

GROUP = "cluster"
ACKERS = 12
"""Enough for each of three servers to have some of the shards, wherever their slots lie."""

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:
    """Measure rounds of both."""
    on_one: Taken = defaultdict(list)
    on_three: Taken = defaultdict(list)
    (folder / "one").mkdir()
    (folder / "three").mkdir()
    with (
        one(folder) as alone,
        three(folder) as nodes,
        acker(folder / "one", alone.url) as before_one,
        acker(folder / "three", cluster_url(nodes)) as before_three,
    ):
        for service in (before_one, before_three):
            make_topology(service, {"ackers": ACKERS, "message_timeout_ms": direct.WEEK_MS})
        for _ in progress.over(range(sizes.rounds)):
            _round(before_one, [alone], sizes.trees, on_one)
            _round(before_three, nodes, sizes.trees, on_three)
    for what, unit in (("all Redis", "CPU µs"), ("the service", "CPU µs"), ("time passed", "µs")):
        yield Line(
            group=GROUP,
            what=f"{what}, an update in packed batches, on three servers",
            unit=unit,
            measured=Series.of(on_three[what]),
            beside="on one",
            base=Series.of(on_one[what]),
        )


def _round(service: Served, nodes: Sequence[Member], count: int, taken: Taken) -> None:
    requests = phases(Trees(count), "packed")
    redis, own, wall = _cpu_s(nodes), service.cpu_s(), 0.0
    for phase in requests:
        wall += load.send(service.port, phase, connections=CONNECTIONS, expected=DONE).wall_s
    each = 1e6 / (UPDATES * count)
    taken["all Redis"].append((_cpu_s(nodes) - redis) * each)
    taken["the service"].append((service.cpu_s() - own) * each)
    taken["time passed"].append(wall * each)


def _cpu_s(nodes: Sequence[Member]) -> float:
    return sum(node.cpu_s() for node in nodes)
