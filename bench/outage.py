"""Measures what comes after an outage: the roots that were due in it time out at once or, with grace, in turn."""

import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx

from bench.http_batches import PATH, make_topology
from bench.measure import Series
from bench.progress import Progress
from bench.servers import one
from bench.serving import Served, acker, family
from bench.sizes import Sizes
from bench.table import Curve, Line, Result
from bench.timeouts import PAGE, WITHIN_S, emit_all
from bench.trees import SPOUT_TASK

GROUP = "outage"
MOST = "most timeouts in a second after an outage with {due:,} due, {grace_s:g} s of grace"
"""How its line is called."""

LEAD_S = 4.0
"""The outage begins so long before the first timeout, so that also a slow machine has emitted all roots by then."""
MARGIN_S = 0.5
"""The outage is so much longer than the last timeout."""

BySecond = list[Counter[int]]
"""By round: how many roots timed out in each second after the outage, counted from 0."""


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of both: without grace and with it."""
    found: dict[float, BySecond] = defaultdict(list)
    for _ in progress.over(range(sizes.rounds)):
        for grace_s in (0.0, sizes.grace_s):
            found[grace_s].append(_round(sizes, folder, grace_s))
    without, with_grace = found[0.0], found[sizes.grace_s]
    yield Line(
        group=GROUP,
        what=MOST.format(due=sizes.stalled, grace_s=sizes.grace_s),
        unit="roots",
        measured=Series.of(_most(with_grace)),
        beside="without grace",
        base=Series.of(_most(without)),
    )
    for name, rounds in ((f"{sizes.grace_s:g} s of grace", with_grace), ("without grace", without)):
        yield Curve(group=GROUP, plot="outage", name=name, points=tuple(_points(rounds)))


def _points(rounds: BySecond) -> Iterator[tuple[float, float]]:
    """Yield the seconds in which roots timed out, from 1, and how many in each."""
    for second in range(1 + max(second for counted in rounds for second in counted)):
        if timed_out := Series.of([float(counted[second]) for counted in rounds]).median:
            yield second + 1, timed_out


def _most(rounds: BySecond) -> list[float]:
    return [float(max(counted.values())) for counted in rounds]


def _round(sizes: Sizes, folder: Path, grace_s: float) -> Counter[int]:
    """Freeze an acker while its roots fall due, and count by second when they time out after that."""
    with one(folder) as store, acker(folder, store.url) as service:
        make_topology(service, {"grace_ms": round(grace_s * 1000)})
        time.sleep(2 * MARGIN_S)  # it has ticked since
        roots = emit_all(service, sizes.stalled, sizes.outage_s, lead_s=LEAD_S)
        processes = family(service.pid)
        _signal(processes, signal.SIGSTOP)
        time.sleep(max(roots.values()) / 1000 + MARGIN_S)
        resumed_ms = time.time() * 1e3
        _signal(processes, signal.SIGCONT)
        after_ms = [ended_ms - resumed_ms for ended_ms in _ends(service, len(roots))]
        return Counter(int(ms // 1000) for ms in after_ms if ms >= 0)  # others ended before it


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        os.kill(process, number)


def _ends(service: Served, count: int) -> list[int]:
    """Read and release until so many roots have timed out, and return when each did."""
    ended: list[int] = []
    path = f"{PATH}/spouts/{SPOUT_TASK}/completions"
    end = time.monotonic() + WITHIN_S
    with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as http:
        while len(ended) < count:
            assert time.monotonic() < end, f"{len(ended)} of {count} timed out"
            page = http.get(path, params={"limit": PAGE, "wait_ms": 5_000}).raise_for_status().json()
            ended.extend(done["at_ms"] for done in page["completions"])
            http.post(f"{path}/release", json={"cursor": page["cursor"]}).raise_for_status()
    return ended
