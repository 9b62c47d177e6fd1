"""Measures how late the real service reports timeouts: many that fall due at once, beside few.

A timeout is late until the tick looks, until its calls have come to it, and until it is delivered; each is a line.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import numpy as np
from acker_protocol.ids import format_id
from acker_protocol.wire.packed import CONTENT_TYPE
from acker_service.operations.column_batch import ColumnBatch

from bench import load
from bench.http_batches import DONE, PATH, make_topology
from bench.measure import Series, percentile
from bench.progress import Progress
from bench.servers import Member, one, until
from bench.serving import Served, acker
from bench.sizes import Sizes
from bench.table import Curve, Line, Result
from bench.trees import SPOUT_TASK, Trees, batches, packed_body

GROUP = "timeouts"
LEAD_S = 0.1
"""No timeout is shorter."""
EMITTED_AT_LEAST = 30_000
"""So many inits a second any machine emits in batches; the first timeout waits for the last init."""
PROMISED_MS = 1_000
WITHIN_S = 120.0
PAGE = 10_000
SOME = 4
"""The wave between the two has so many times fewer timeouts than the large one."""

P50, P99, LATEST = "p50 of the lateness", "p99 of the lateness", "greatest lateness"
ENDED, DELIVERED = "mean lateness up to the end of the root", "mean time from there to its reader"
TICK, CALL = "mean time of a tick of all shards", "mean time of one of its calls"
TICKING = "share of the time with a tick under way"
REDIS, SERVICE = "Redis, each", "the service, each, with its reading,"
REDIS_BUSY, SERVICE_BUSY = "Redis, of one processor", "the service, of one processor"
FIGURES = (
    (P50, "ms", None),
    (P99, "ms", PROMISED_MS),
    (LATEST, "ms", None),
    (ENDED, "ms", None),
    (DELIVERED, "ms", None),
    (TICK, "ms", None),
    (CALL, "ms", None),
    (TICKING, "%", None),
    (REDIS_BUSY, "%", None),
    (SERVICE_BUSY, "%", None),
    (REDIS, "CPU µs", None),
    (SERVICE, "CPU µs", None),
)

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Result]:
    """Measure rounds of both."""
    many: Taken = defaultdict(list)
    some: Taken = defaultdict(list)
    few: Taken = defaultdict(list)
    with one(folder) as store, acker(folder, store.url) as service:
        make_topology(service, {})
        for _ in progress.over(range(sizes.rounds)):
            _round(service, store, (sizes.few_due, sizes.few_due_s), few)
            _round(service, store, (sizes.due // SOME, sizes.due_s), some)
            _round(service, store, (sizes.due, sizes.due_s), many)
    for name, unit, goal in FIGURES:
        yield Line(
            group=GROUP,
            what=f"{name} of {sizes.due:,} timeouts within {sizes.due_s:g} s",
            unit=unit,
            measured=Series.of(many[name]),
            beside=f"of {sizes.few_due:,} within {sizes.few_due_s:g} s",
            base=Series.of(few[name]),
            at_most=goal,
        )
    waves = {sizes.few_due / sizes.few_due_s: few, sizes.due / SOME / sizes.due_s: some, sizes.due / sizes.due_s: many}
    for name in (P50, P99, LATEST):
        points = tuple((rate, Series.of(taken[name]).median) for rate, taken in sorted(waves.items()))
        yield Curve(group=GROUP, plot="lateness", name=name.removesuffix(" of the lateness"), points=points)


def _round(service: Served, store: Member, due: tuple[int, float], taken: Taken) -> None:
    """Emit so many roots, wait until their timeouts were reported and read, and see how late each was."""
    began, before = time.monotonic(), _ticks(service)
    timeouts = emit_all(service, *due)
    emitted, redis, own = time.monotonic(), store.cpu_s(), service.cpu_s()
    late = _read(service, timeouts)
    elapsed_s, redis, own = time.monotonic() - emitted, store.cpu_s() - redis, service.cpu_s() - own
    until(lambda: _ticks(service).ticks > before.ticks, "a tick has ended")
    _note_ticks(_ticks(service).since(before), time.monotonic() - began, taken)
    taken[REDIS].append(redis / len(timeouts) * 1e6)
    taken[SERVICE].append(own / len(timeouts) * 1e6)
    taken[REDIS_BUSY].append(redis / elapsed_s * 100)
    taken[SERVICE_BUSY].append(own / elapsed_s * 100)
    taken[ENDED].append(statistics.fmean(late.ended_ms))
    taken[DELIVERED].append(statistics.fmean(late.delivered_ms))
    told_ms = [ended + delivered for ended, delivered in zip(late.ended_ms, late.delivered_ms, strict=True)]
    taken[P50].append(percentile(told_ms, 0.5))
    taken[P99].append(percentile(told_ms, 0.99))
    taken[LATEST].append(max(told_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lateness:
    """By timeout: how late its root ended, and how long its completion took from there to the reader."""

    ended_ms: list[float]
    delivered_ms: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ticks:
    """What the service counts: ticks of the topology when something was due, and their calls to Redis."""

    ticks: float
    ticks_s: float
    calls: float
    calls_s: float

    def since(self, before: "_Ticks") -> "_Ticks":
        """Return what was counted since."""
        return _Ticks(**{name: value - getattr(before, name) for name, value in asdict(self).items()})


def _ticks(service: Served) -> _Ticks:
    """Read what the service counts."""
    page = httpx.get(f"{service.url}/metrics", trust_env=False).raise_for_status().text
    visit, trip = 'acker_visit_seconds_{}{{rounds="tick"}}', 'acker_store_round_trip_seconds_{}{{call="{}"}}'
    names = {
        "ticks": visit.format("count"),
        "ticks_s": visit.format("sum"),
        "calls": trip.format("count", "acker_tick_v1"),
        "calls_s": trip.format("sum", "acker_tick_v1"),
    }
    values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    return _Ticks(**{name: float(values.get(metric, 0)) for name, metric in names.items()})


def _note_ticks(ticks: _Ticks, elapsed_s: float, taken: Taken) -> None:
    taken[TICK].append(ticks.ticks_s / ticks.ticks * 1e3)
    taken[CALL].append(ticks.calls_s / max(1, ticks.calls) * 1e3)
    taken[TICKING].append(ticks.ticks_s / elapsed_s * 100)


def emit_all(service: Served, count: int, within_s: float, *, lead_s: float = LEAD_S) -> dict[str, int]:
    """Emit roots whose timeouts fall due evenly within so many seconds, and return these timeouts.

    The first falls due ``lead_s`` seconds after the last init, as fast as inits are emitted at least.
    """
    trees = Trees(count)
    lead_ms = (lead_s + count / EMITTED_AT_LEAST) * 1e3
    due_ms = lead_ms + np.random.default_rng().random(count) * within_s * 1e3
    timeouts: dict[str, int] = {}
    began = time.monotonic()
    for batch in batches(trees.inits(timeouts_ms=due_ms.astype(np.int64))):
        _emit(service, batch, int((time.monotonic() - began) * 1e3), timeouts)
    return timeouts


def _emit(service: Served, batch: ColumnBatch, elapsed_ms: int, timeouts: dict[str, int]) -> None:
    records = batch.records
    records["message_timeout_ms"] = np.maximum(records["message_timeout_ms"].astype(np.int64) - elapsed_ms, 100)
    request = load.post(f"{PATH}/batch?results=exceptions", packed_body(batch), CONTENT_TYPE)
    load.send(service.port, [request], connections=1, expected=DONE)
    own = zip(records["root_id"].tolist(), records["message_timeout_ms"].tolist(), strict=True)
    timeouts.update((format_id(root), timeout) for root, timeout in own)


def _read(service: Served, timeouts: dict[str, int]) -> _Lateness:
    """Read and release until every root was reported. The store's clock is this machine's."""
    ended: dict[str, float] = {}
    delivered: dict[str, float] = {}
    path = f"{PATH}/spouts/{SPOUT_TASK}/completions"
    end = time.monotonic() + WITHIN_S
    with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as http:
        while len(ended) < len(timeouts):
            assert time.monotonic() < end, f"{len(ended)} of {len(timeouts)} were reported"
            page = http.get(path, params={"limit": PAGE, "wait_ms": 5_000}).raise_for_status().json()
            now_ms = time.time() * 1e3
            for done in page["completions"]:
                assert done["outcome"] == "timed_out", done
                root = done["root_id"]
                ended[root] = done["complete_latency_ms"] - timeouts[root]
                delivered[root] = now_ms - done["at_ms"]
            http.post(f"{path}/release", json={"cursor": page["cursor"]}).raise_for_status()
    return _Lateness(ended_ms=list(ended.values()), delivered_ms=list(delivered.values()))
