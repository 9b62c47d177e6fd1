"""Measures what a root costs in memory: while it is pending, when it is finished, and its requests' keys.

Each round is a topology of its own, and all of them lie in one server at once: together they have the roots that are
reported. Beside each figure is that of a key of its own in Redis with a time to live, the least that one thing costs
otherwise.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from acker_service.topologies.config import TopologyConfig

from bench import direct
from bench.direct import DAY_MS, WEEK_MS, Direct
from bench.measure import Series
from bench.progress import Progress
from bench.servers import Member, one
from bench.sizes import Sizes
from bench.table import Line
from bench.trees import Trees

GROUP = "memory"
ACKERS = 4
BARE, NAMED = "a pending root", "a pending root with a message id of 12 bytes"
KEYS, FINISHED = "an idempotency key and shard", "a finished root"
GOALS = {BARE: 52.0, NAMED: None, KEYS: 12.0, FINISHED: 19.0}
RECORD_BYTES = 22

_PLAIN = """
for i = 1, ARGV[1] do redis.call('SET', struct.pack('>I8', i + ARGV[4]), ARGV[2], 'PX', ARGV[3]) end
"""
"""The key is as long as a root id."""

Topologies = list[tuple[Direct, Trees]]
Taken = dict[str, Series]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:
    """Measure all, a round a topology."""
    taken: Taken = {}
    with one(folder) as server:
        for step in progress.over((_lives, _with_message_ids, _plain)):
            server.ask("FLUSHALL")
            taken |= step(server, sizes)
    for what, goal in GOALS.items():
        yield Line(
            group=GROUP,
            what=f"{what}, at {sizes.pending:,}",
            unit="bytes",
            measured=taken[what],
            beside="a key with a time to live",
            base=taken["plain"],
            at_most=goal,
        )


def _lives(server: Member, sizes: Sizes) -> Taken:
    """Follow roots from their init to their end, with each first ack under an idempotency key of its own."""
    topologies = _topologies(server, sizes)
    pending = _grown(topologies, sizes, lambda at, trees: at.run(at.prepare(trees.inits()), "p"))
    keyed = _grown(topologies, sizes, lambda at, trees: at.run(at.prepare_keyed(trees.acks()), "p"))
    topologies[0][0].forget("zset")
    ended = _grown(topologies, sizes, _end)
    _close(topologies)
    finished = Series.of(map(sum, zip(pending.values, ended.values, strict=True)))
    return {BARE: pending, KEYS: keyed, FINISHED: finished}


def _end(at: Direct, trees: Trees) -> None:
    """End trees, and remove what does not stay: readers release the mailbox, and the tick the deadline index."""
    at.run(at.prepare(trees.last_acks()), "a")
    at.forget("stream")


def _with_message_ids(server: Member, sizes: Sizes) -> Taken:
    topologies = _topologies(server, sizes)
    ids = [f"order {number:06}" for number in range(_each(sizes))]
    grown = _grown(topologies, sizes, lambda at, trees: at.run(at.prepare(trees.inits(message_ids=ids)), "p"))
    _close(topologies)
    return {NAMED: grown}


def _plain(server: Member, sizes: Sizes) -> Taken:
    """Set keys in rounds as large; what they cost goes up and down with the size of Redis's table, so: all together."""
    at = _topology(server, sizes, "plain")
    before = at.used_memory()
    for number in range(sizes.rounds):
        at.redis.eval(_PLAIN, 0, _each(sizes), "x" * RECORD_BYTES, WEEK_MS, number * _each(sizes))
    cost = (at.used_memory() - before) / (sizes.rounds * _each(sizes))
    at.close()
    return {"plain": Series.of([cost] * sizes.rounds)}


def _grown(topologies: Topologies, sizes: Sizes, step: Callable[[Direct, Trees], object]) -> Series:
    """Take a step in each topology, and return by how many bytes a root Redis grew in each."""
    grown = []
    for at, trees in topologies:
        before = at.used_memory()
        step(at, trees)
        grown.append((at.used_memory() - before) / _each(sizes))
    return Series.of(grown)


def _topologies(server: Member, sizes: Sizes) -> Topologies:
    return [(_topology(server, sizes, f"bench-{n}"), Trees(_each(sizes))) for n in range(sizes.rounds)]


def _topology(server: Member, sizes: Sizes, name: str) -> Direct:
    buckets = direct.buckets_for(_each(sizes), ackers=ACKERS)
    configuration = TopologyConfig(ackers=ACKERS, buckets=buckets, message_timeout_ms=WEEK_MS, retention_ms=DAY_MS)
    return direct.make(server, configuration, name=name)


def _each(sizes: Sizes) -> int:
    return sizes.pending // sizes.rounds


def _close(topologies: Topologies) -> None:
    for at, _ in topologies:
        at.close()
