"""Measures what an init, an ack and a last ack take of Redis's processor, with ever more roots pending."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from acker_service.topologies.config import TopologyConfig

from bench import direct
from bench.direct import DAY_MS, WEEK_MS, Direct
from bench.measure import Series
from bench.progress import Progress
from bench.servers import Member, one
from bench.sizes import BATCH, Sizes
from bench.table import Line
from bench.trees import Trees

GROUP = "redis"
ACKERS = 4
MOST = 20_000
"""So many roots a round adds to those that are pending, and a fifth of these at most."""
FILL = 100_000
UNIT = "CPU µs"

Taken = dict[str, list[float]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:
    """Measure rounds at every level."""
    levels: dict[int, dict[str, Series]] = {}
    with one(folder) as server:
        rounds = iter(progress.over(range(len(sizes.levels) * sizes.rounds)))
        for pending in sizes.levels:
            taken: Taken = defaultdict(list)
            at = _filled(server, pending)
            for _ in range(sizes.rounds):
                next(rounds)
                _round(at, server, min(MOST, pending // 5), taken)
            at.close()
            levels[pending] = {name: Series.of(values) for name, values in taken.items()}
        next(rounds, None)
    yield from _lines(levels)


def _filled(server: Member, pending: int) -> Direct:
    server.ask("FLUSHALL")
    buckets = direct.buckets_for(pending, ackers=ACKERS)
    configuration = TopologyConfig(ackers=ACKERS, buckets=buckets, message_timeout_ms=WEEK_MS, retention_ms=DAY_MS)
    at = direct.make(server, configuration)
    for start in range(0, pending, FILL):
        at.run(at.prepare(Trees(min(FILL, pending - start)).inits()), "p")
    return at


def _round(at: Direct, server: Member, count: int, taken: Taken) -> None:
    trees = Trees(count)
    for name, word, columns in (
        ("an init", "p", trees.inits()),
        ("an ack", "p", trees.acks()),
        ("a last ack", "a", trees.last_acks()),
    ):
        taken[name].append(at.run(at.prepare(columns), word).redis_s / count * 1e6)
    taken["SET"].append(_plain(at, server, count))


def _plain(at: Direct, server: Member, count: int) -> float:
    """Set one key so many times, as many in a round trip as there are operations in a batch."""
    cpu = server.cpu_s()
    for _ in range(count // BATCH):
        pipe = at.redis.pipeline(transaction=False)
        for _ in range(BATCH):
            pipe.execute_command("SET", "plain", "x" * 26)
        pipe.execute()
    return (server.cpu_s() - cpu) / (count // BATCH * BATCH) * 1e6


def _lines(levels: dict[int, dict[str, Series]]) -> Iterator[Line]:
    first = next(iter(levels))
    for name in ("an init", "an ack", "a last ack"):
        for pending, taken in levels.items():
            beside, base = f"at {first:,}", levels[first][name]
            if pending == first:
                beside, base = f"a SET, {BATCH:,} in a round trip", taken["SET"]
            what = f"{name}, {pending:,} pending"
            yield Line(group=GROUP, what=what, unit=UNIT, measured=taken[name], beside=beside, base=base)
