"""Measures single acks at an acker of two api processes, beside one process that does everything."""

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from acker_service.settings import Settings

from bench import direct
from bench.http_batches import make_topology
from bench.measure import Series
from bench.progress import Progress
from bench.servers import one
from bench.serving import Served, acker, cpu_by_process, family
from bench.single import BARE_ACK, CONNECTIONS, emitted, requests_of, take
from bench.sizes import Sizes
from bench.table import Line, Result, Skipped

GROUP = "processes"
PROCESSES = 2
LOADS = (CONNECTIONS, PROCESSES * CONNECTIONS)
"""Connections in all: as many as one process gets in the group *single*, and as many for each process."""
COST_GOAL = 1.15
"""What all api processes may take for an ack, as a ratio to the one process."""
UNEVEN_GOAL = 1.1
"""How often what the busiest api process takes may hold what the other takes."""

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of both, in turns, each on a Redis of its own."""
    if GROUP not in Settings.model_fields:
        yield Skipped(group=GROUP, what="a single ack at two processes", why="this acker has no option --processes")
        return
    taken: dict[tuple[str, int], Taken] = defaultdict(lambda: defaultdict(list))
    with contextlib.ExitStack() as stack:
        served = {}
        for name, options in (("one", ()), ("two", ("--processes", str(PROCESSES)))):
            store = stack.enter_context(one(folder))
            own = folder / name
            own.mkdir()
            served[name] = stack.enter_context(acker(own, store.url, *options)), store
            make_topology(served[name][0], {"message_timeout_ms": direct.WEEK_MS})
        for _ in progress.over(range(sizes.rounds)):
            for connections, (name, (service, store)) in itertools.product(LOADS, served.items()):
                acks = emitted(service, sizes.singles)
                before = cpu_by_process(family(service.pid))
                noted = taken[name, connections]
                take(service, requests_of(BARE_ACK, acks), noted, connections, store, expected=b'"pending"')
                _note_processes(service, before, len(acks), noted)
    found = {key: {what: Series.of(own) for what, own in all_.items()} for key, all_ in taken.items()}
    for connections in LOADS:
        yield from _lines(found["two", connections], found["one", connections], f", {connections} connections")


def _note_processes(service: Served, before: dict[int, float], count: int, taken: Taken) -> None:
    """Note what the api processes took: those that took most, since the worker and the supervisor answer no ack."""
    after = cpu_by_process(family(service.pid))
    spent = sorted(((after[pid] - before.get(pid, 0.0)) / count * 1e6 for pid in after), reverse=True)
    busiest = spent[:PROCESSES] if len(spent) > 1 else spent
    taken["api"].append(sum(busiest))
    taken["busiest"].append(busiest[0])
    taken["least busy"].append(busiest[-1])
    taken["everything"].append(sum(spent))


def _lines(both: dict[str, Series], alone: dict[str, Series], load: str) -> Iterator[Line]:
    us, beside, one_cpu = "CPU µs", "one process", alone["everything"]
    yield _line(f"all api processes, a single ack{load}", us, both["api"], beside, one_cpu, goal=COST_GOAL)
    what = f"the busier api process, a single ack{load}"
    yield _line(what, us, both["busiest"], "the other", both["least busy"], goal=UNEVEN_GOAL)
    yield _line(f"all processes, a single ack{load}", us, both["everything"], beside, one_cpu)
    yield _line(f"single acks of two processes{load}", "/s", both["rate"], beside, alone["rate"])
    yield _line(f"Redis, a single ack{load}", us, both["redis"], beside, alone["redis"])


def _line(what: str, unit: str, measured: Series, beside: str, base: Series, *, goal: float | None = None) -> Line:
    return Line(group=GROUP, what=what, unit=unit, measured=measured, beside=beside, base=base, ratio_at_most=goal)
