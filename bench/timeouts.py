"""Measures how late the real service reports timeouts: many that fall due at once, beside few."""

import time
from collections import defaultdict
from collections.abc import Iterator
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
from bench.servers import Member, one
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
REDIS, SERVICE = "Redis, each", "the service, each, with its reading,"
FIGURES = (
    (P50, "ms", None),
    (P99, "ms", PROMISED_MS),
    (LATEST, "ms", None),
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
    timeouts = _emit_all(service, *due)
    redis, own = store.cpu_s(), service.cpu_s()
    late_ms = _read(service, timeouts)
    taken[REDIS].append((store.cpu_s() - redis) / len(timeouts) * 1e6)
    taken[SERVICE].append((service.cpu_s() - own) / len(timeouts) * 1e6)
    taken[P50].append(percentile(late_ms, 0.5))
    taken[P99].append(percentile(late_ms, 0.99))
    taken[LATEST].append(max(late_ms))


def _emit_all(service: Served, count: int, within_s: float) -> dict[str, int]:
    """Emit roots whose timeouts fall due evenly within so many seconds; gives these timeouts."""
    trees = Trees(count)
    lead_ms = (LEAD_S + count / EMITTED_AT_LEAST) * 1e3
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


def _read(service: Served, timeouts: dict[str, int]) -> list[float]:
    """Read and release until every root was reported."""
    late: dict[str, float] = {}
    path = f"{PATH}/spouts/{SPOUT_TASK}/completions"
    until = time.monotonic() + WITHIN_S
    with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as http:
        while len(late) < len(timeouts):
            assert time.monotonic() < until, f"{len(late)} of {len(timeouts)} were reported"
            page = http.get(path, params={"limit": PAGE, "wait_ms": 5_000}).raise_for_status().json()
            for done in page["completions"]:
                assert done["outcome"] == "timed_out", done
                late[done["root_id"]] = done["complete_latency_ms"] - timeouts[done["root_id"]]
            http.post(f"{path}/release", json={"cursor": page["cursor"]}).raise_for_status()
    return list(late.values())
