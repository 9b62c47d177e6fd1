"""Measures what an automatic dedupe window costs beside none: of Redis's processor an ack, and of its memory an edge.

Both topologies lie on one server and do the same: roots with two edges, whose acks name their edges, as those of the
Python client do on a topology with a window. What a window costs where the client would fold acks is a line of
`bench.client`.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from acker_service.topologies.config import merge

from bench import direct
from bench.direct import DAY_MS, WEEK_MS, Direct
from bench.measure import Series
from bench.progress import Progress
from bench.servers import Member, one
from bench.sizes import Sizes
from bench.table import AUTOMATIC, Line
from bench.trees import Trees

GROUP = "window"
ACKERS = 4
WINDOWS = {"none": 0, "automatic": None}
"""The dedupe window of each topology, as a PUT names it."""
ACKS = ("an ack", "a last ack")

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:
    """Measure rounds of both, by turns, with topologies of their own."""
    taken: Taken = defaultdict(list)
    with one(folder) as server:
        for number in progress.over(range(sizes.rounds)):
            for window in WINDOWS:
                _round(server, sizes.trees, f"{window}-{number}", window, taken)
    series = {name: Series.of(values) for name, values in taken.items()}
    for ack in ACKS:
        yield Line(
            group=GROUP, what=f"Redis, {ack} that names its edge", unit="CPU µs", measured=series[f"automatic {ack}"],
            beside="without a window", base=series[f"none {ack}"], window=AUTOMATIC,
        )  # fmt: skip
    yield Line(
        group=GROUP, what="Redis's memory, an edge that is remembered", unit="bytes", measured=series["automatic edge"],
        beside="a pending root", base=series["automatic root"], window=AUTOMATIC,
    )  # fmt: skip


def _round(server: Member, count: int, name: str, window: str, taken: Taken) -> None:
    at, trees = _topology(server, count, name, window), Trees(count)
    empty = at.used_memory()
    at.run(at.prepare(trees.inits()), "p")
    taken[f"{window} root"].append((at.used_memory() - empty) / count)
    for ack, columns, word in ((ACKS[0], trees.acks(), "p"), (ACKS[1], trees.last_acks(), "a")):
        columns.records["edge_id"] = columns.records["ack_val"]
        taken[f"{window} {ack}"].append(at.run(at.prepare(columns), word).redis_s / count * 1e6)
    done = at.used_memory()
    at.forget("set")  # nothing else that is used here is a set
    taken[f"{window} edge"].append((done - at.used_memory()) / (2 * count))
    server.ask("FLUSHALL")
    at.close()


def _topology(server: Member, count: int, name: str, window: str) -> Direct:
    document = {
        "ackers": ACKERS, "message_timeout_ms": WEEK_MS, "retention_ms": DAY_MS, "dedupe_window_ms": WINDOWS[window],
    }  # fmt: skip
    buckets = direct.buckets_for(count, ackers=ACKERS)
    return direct.make(server, merge(None, document, buckets=buckets), name=name)
