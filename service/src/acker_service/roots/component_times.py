"""Measures how long components take, by the trees of the roots that were traced last.

The time of an edge is from when its tuple was sent until the tuple was acked or failed: in the queue, and at work.
"""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from acker_service.redis import functions
from acker_service.redis.functions.traces import TraceReply
from acker_service.roots.edges import EdgeTree, build_tree
from acker_service.topologies.shards import Shards
from acker_service.topologies.topology import Topology

TRACES = 200
"""The most traces that are looked at."""

TRACES_PER_CALL = 8
"""Traces that are read at once: each takes up to 256 KiB."""

MAX_COMPONENTS = 100
PAGE_S = 1.0
"""Seconds after which no more traces are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentTimes:
    """How many edges a component ended, and percentiles of their times in milliseconds."""

    component: str
    edges: int
    p50_ms: int
    p95_ms: int
    p99_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesByComponent:
    """The components, the slowest first, and of how many traces their times are."""

    traces: int
    components: Sequence[ComponentTimes]


class ComponentTimesReader:
    """Reads how long components take. ``clock`` gives seconds."""

    def __init__(self, shards: Shards, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._shards = shards
        self._clock = clock

    async def read(self, topology: Topology) -> TimesByComponent:
        """Read the times of the components of a topology."""
        until_s = self._clock() + PAGE_S
        limit = -(-TRACES // max(1, len(topology.shards)))
        topology, listed = await self._shards.call_all(topology, functions.traces.list_traces(limit=limit))
        roots = [root_id for ids in listed for root_id in ids]
        times: dict[str, list[int]] = defaultdict(list)
        traces = 0
        for at in range(0, len(roots), TRACES_PER_CALL):
            topology, replies = await self._read_traces(topology, roots[at : at + TRACES_PER_CALL])
            for reply in replies:
                if reply.entries:
                    traces += 1
                    add_times(times, build_tree(reply.entries))
                    await asyncio.sleep(0)  # a large tree takes milliseconds to build: others run in between
            if self._clock() >= until_s:
                break
        return TimesByComponent(traces=traces, components=slowest_first(times))

    async def _read_traces(self, topology: Topology, roots: Iterable[int]) -> tuple[Topology, list[TraceReply]]:
        layout = topology.layout
        calls = [
            (
                layout.shard_of(root_id),
                functions.traces.read_trace(
                    settings=topology.settings, bucket=layout.bucket_of(root_id), root_id=root_id
                ),
            )
            for root_id in roots
        ]
        return await self._shards.call_at(topology, calls)


def add_times(times: Mapping[str, list[int]], tree: EdgeTree) -> None:
    """Add the times of the edges of a tree that a component ended, by component."""
    for edge in tree.edges:
        if edge.ended_by is not None and edge.sent_ms is not None:
            times[edge.ended_by].append(max(0, edge.since_ms - edge.sent_ms))


def slowest_first(times: Mapping[str, list[int]]) -> list[ComponentTimes]:
    """Return the times of each component, the largest 95th percentile first."""
    found = [
        ComponentTimes(
            component=component,
            edges=len(each),
            p50_ms=percentile(each, 0.5),
            p95_ms=percentile(each, 0.95),
            p99_ms=percentile(each, 0.99),
        )
        for component, each in times.items()
    ]
    return sorted(found, key=lambda one: (-one.p95_ms, one.component))[:MAX_COMPONENTS]


def percentile(times: Sequence[int], share: float) -> int:
    """Return the least time that this share of the times does not exceed."""
    return sorted(times)[max(0, math.ceil(share * len(times)) - 1)]
