"""Measures what acks cost in the Python client: offered at 100,000 a second from one process, and its import.

Once each ack is of a root of its own, so that none folds; once a thousand are of one root, and again with an automatic
dedupe window, under which they do not fold; once each is of a root of its own and its tuple has a child with a key.
"""

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
from acker_client import Acker

from bench.http_batches import PATH, make_topology
from bench.measure import Series
from bench.progress import Progress
from bench.servers import Member, one
from bench.serving import Served, acker
from bench.sizes import BATCH, Sizes
from bench.table import AUTOMATIC, NO_WINDOW, Line
from bench.trees import draw_ids

GROUP = "client"
OFFERED = 100_000
"""Acks a second; where the process cannot keep up it goes on as fast as it can."""
STEP = 1_000
"""So many acks are made at a stretch, before it is looked whether it is too early for more."""
UNFOLDED = "1,000 of a root, none folded"
PER_ROOT = {"each of another root": 1, "1,000 of a root": 1_000, UNFOLDED: 1_000, "each with one child": 1}
GOALS = {"each of another root": 9.0, "1,000 of a root": 8.0, "each with one child": 18.0}
"""The CPU µs that an ack may take of the client."""
WEEK_MS = 604_800_000
EXTRA_MS = 100
IMPORTS = {"httpx": "import httpx", "client": "import httpx, acker_client"}

Header = dict[str, str]
Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:
    """Measure rounds of both, and of the import."""
    taken: Taken = defaultdict(list)
    with one(folder) as store, acker(folder, store.url) as service:
        for _ in progress.over(range(sizes.rounds)):
            for name, per_root in PER_ROOT.items():
                window = None if name == UNFOLDED else 0
                make_topology(service, {"message_timeout_ms": WEEK_MS, "dedupe_window_ms": window})
                _round(service, store, _emitted(service, sizes.acks, per_root), name, taken)
            _import(taken)
    yield from _lines({name: Series.of(values) for name, values in taken.items()})


def _emitted(service: Served, count: int, per_root: int) -> list[Header]:
    """Emit roots with so many edges each; gives a header for each edge, in any order."""
    edges = draw_ids(count).reshape(-1, min(per_root, count))
    roots = draw_ids(len(edges))
    ack_vals = np.bitwise_xor.reduce(edges, axis=1)
    inits = [
        {"op": "init", "root_id": f"{root:016x}", "ack_val": f"{value:016x}", "spout_task": "bench"}
        for root, value in zip(roots.tolist(), ack_vals.tolist(), strict=True)
    ]
    with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as http:
        for at in range(0, len(inits), BATCH):
            http.post(f"{PATH}/batch", json={"ops": inits[at : at + BATCH]}).raise_for_status()
    owners = np.repeat(roots, edges.shape[1]).tolist()
    anchors = zip(owners, edges.ravel().tolist(), strict=True)
    return [{"Acker-Anchors": f"00 bench {root:016x}-{edge:016x}"} for root, edge in anchors]


def _round(service: Served, store: Member, headers: list[Header], name: str, taken: Taken) -> None:
    """Ack all, and see how long it took whom until the last one was answered."""
    with Acker(service.url, topology="bench") as acker:
        own, service_s, store_s = time.process_time(), service.cpu_s(), store.cpu_s()
        began = time.perf_counter()
        _offer(acker, headers, began, with_child="child" in name)
        acker.flush()
        wall_s = time.perf_counter() - began
        taken[f"{name}/s"].append(len(headers) / wall_s)
        taken[f"{name} client"].append((time.process_time() - own) / len(headers) * 1e6)
        taken[f"{name} service"].append((service.cpu_s() - service_s) / len(headers) * 1e6)
        taken[f"{name} Redis"].append((store.cpu_s() - store_s) / len(headers) * 1e6)
    taken["offered"].append(OFFERED)


def _offer(acker: Acker, headers: list[Header], began: float, *, with_child: bool) -> None:
    """Take each tuple and ack it, never before its time; with a child, make its header first."""
    for at in range(0, len(headers), STEP):
        time.sleep(max(0.0, began + at / OFFERED - time.perf_counter()))
        for header in headers[at : at + STEP]:
            if with_child:
                with acker.receive(header, component="bench") as tup:
                    tup.headers(key="0")
            else:
                acker.ack(acker.receive(header, component="bench"))


def _import(taken: Taken) -> None:
    """See how much processor time a program takes that imports something and ends."""
    spent = {name: _program(script) for name, script in IMPORTS.items()}
    taken["import"].append(max(spent["client"] - spent["httpx"], 0.1))
    taken["import httpx"].append(spent["httpx"])


def _program(script: str) -> float:
    timed = f"import time\n{script}\nprint(time.process_time() * 1e3)"
    return float(subprocess.run([sys.executable, "-c", timed], capture_output=True, check=True, text=True).stdout)


def _lines(taken: dict[str, Series]) -> Iterator[Line]:
    half = len(taken["offered"].values) // len(PER_ROOT)
    offered = Series(taken["offered"].values[:half])
    for name in PER_ROOT:
        service = taken[f"{name} service"]
        window = AUTOMATIC if name == UNFOLDED else NO_WINDOW
        for what, unit, measured, beside, base, at_most in (
            ("acks of one process", "/s", taken[f"{name}/s"], "offered", offered, None),
            ("the client, an ack", "CPU µs", taken[f"{name} client"], "the service", service, GOALS.get(name)),
            ("Redis, an ack", "CPU µs", taken[f"{name} Redis"], "the service", service, None),
        ):
            line = _line(f"{what}, {name}", unit, measured, beside, base, at_most=at_most)
            yield replace(line, window=window)
    yield _line(
        "importing acker_client, beyond httpx", "CPU ms", taken["import"], "importing httpx", taken["import httpx"],
        at_most=EXTRA_MS,
    )  # fmt: skip


def _line(what: str, unit: str, measured: Series, beside: str, base: Series, *, at_most: float | None = None) -> Line:
    return Line(group=GROUP, what=what, unit=unit, measured=measured, beside=beside, base=base, at_most=at_most)
