"""Expires roots, periodically: times out overdue ones and drops early ones without an init."""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from acker_protocol.errors import ServiceError

from acker_service.metrics.instruments import OperationMetrics
from acker_service.metrics.metrics import Metrics
from acker_service.redis import functions
from acker_service.redis.calls import Call
from acker_service.redis.client import RedisClient
from acker_service.redis.functions.topologies import ShardName
from acker_service.topologies.deletion import TopologyDeleter
from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.shards import MAX_SHARDS, Shards
from acker_service.topologies.topology import Topology, TopologyId

RECORDS = 1_000
"""Records that one call reads, about: two or three milliseconds of Redis's time."""

# rule: two shards of a topology are ticked at once, and no more
CALLS_AT_ONCE = 2
"""Calls of a topology under way at once, each on a shard of its own.

Redis need not wait for the worker between two calls; other clients wait for two at most.
"""

HEARTBEAT_INTERVAL_S = 3.0
"""Seconds between two notes that a worker is alive: a third of the time that one holds."""


NOTED_EVERY_S = 1.0
"""Seconds between two ticks of a shard of a topology with grace that has nothing due: half of what leaves a gap."""


class RootExpiry:
    """Expires the roots of topologies. Any number of replicas may: each step is atomic, and no root expires twice."""

    calls_at_once = CALLS_AT_ONCE

    def __init__(self, redis: RedisClient, shards: Shards, metrics: OperationMetrics) -> None:
        self._redis = redis
        self._shards = shards
        self._metrics = metrics

    @property
    def asks_one_server(self) -> bool:
        """Whether one server has all shards: then a look at all of them waits for no other server."""
        return not self._redis.is_cluster

    async def mark_worker_alive(self) -> None:
        """Note for ten seconds that a worker expires roots."""
        await self._redis.execute(functions.topologies.note_worker_alive())

    async def expire(self, topology: Topology) -> int:
        """Expire all that is overdue in a topology, and return how many roots.

        Tick only shards that have some, but all of a topology with grace: each tick is noted there.
        """
        # rule: every shard of a topology with grace is ticked
        if topology.config.grace_ms:
            return await self.expire_shards(topology, range(len(topology.shards)))
        due = await self._redis.execute_each(self._due_calls(_shards([topology])))
        return await self.expire_shards(topology, [shard.number for shards in due for shard in shards])

    async def expire_shards(self, topology: Topology, shards: Iterable[int]) -> int:
        """Expire all that is overdue in some shards of a topology, and return how many roots.

        Leaves out a shard that the topology does not have: it may have been made again since.
        """
        due = deque(shard for shard in shards if shard < len(topology.shards))
        # rule: a run ticks every shard of a topology with grace
        noted = range(len(topology.shards)) if topology.config.grace_ms else ()
        run = _Run(due=due, ticked_at=dict.fromkeys(noted, -math.inf))
        tasks = [self._expire_slices(topology, run) for _ in range(min(self.calls_at_once, len(due)))]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException):
                raise error
        return sum(result for result in results if isinstance(result, int))

    async def find_due(self, topologies: Iterable[Topology], *, alive: bool) -> tuple[list[str], list[ShardName]]:
        """Read the names of all topologies, and find the shards of these in which a root may be overdue.

        All in one round trip; with ``alive`` it notes that a worker is alive, too.
        """
        noted = [functions.topologies.note_worker_alive()] if alive else []
        calls: list[Call[Any]] = [functions.topologies.topology_names(), *self._due_calls(_shards(topologies)), *noted]
        names, *replies = await self._redis.execute_each(calls)
        return names, [shard for shards in replies[: len(replies) - len(noted)] for shard in shards]

    def _due_calls(self, shards: Sequence[ShardName]) -> list[Call[list[ShardName]]]:
        size = 1 if self._redis.is_cluster else MAX_SHARDS
        return [functions.topologies.find_due(shards[i : i + size]) for i in range(0, len(shards), size)]

    async def _expire_slices(self, topology: Topology, run: "_Run") -> int:
        """Tick the first shard of the queue; one that has more goes to its end. Return how many roots ended.

        So no shard waits until another is done, and the lateness of all is equal.
        """
        ended = 0
        while run.due:
            shard = run.due.popleft()
            topology, ticked = await self._tick(topology, shard, run)
            ended += ticked.ended
            for bucket in ticked.overfull_buckets:
                ended += await self._scan_bucket(topology, shard, bucket, run)
            # rule: a shard that has more is ticked again
            if ticked.more and shard not in run.due:
                # rule: a shard that has more is ticked last then
                run.due.append(shard)
            ended += await self._tick_late(topology, run)
        return ended

    async def _tick(self, topology: Topology, shard: int, run: "_Run") -> tuple[Topology, functions.expiry.Ticked]:
        if shard in run.ticked_at:
            run.ticked_at[shard] = time.monotonic()
        call = functions.expiry.tick(settings=topology.settings, max_records=RECORDS, grace_ms=topology.config.grace_ms)
        topology, ticked = await self._shards.call(topology, shard, call)
        self._metrics.tick_ended[topology.name].inc(ticked.ended)
        return topology, ticked

    async def _tick_late(self, topology: Topology, run: "_Run") -> int:
        """Tick the shards of a topology with grace that the run has left alone for a second: else they have a gap.

        It is not known how long a shard was left alone before the run, which is ticked at once therefore.
        """
        ended, before = 0, time.monotonic() - NOTED_EVERY_S
        # rule: a shard with grace is ticked once a second also while others have more
        late = [shard for shard, ticked_at in run.ticked_at.items() if ticked_at <= before]
        for shard in late:
            topology, ticked = await self._tick(topology, shard, run)
            ended += ticked.ended
            # rule: a shard that is found to have more meanwhile is due again
            if (ticked.more or ticked.overfull_buckets) and shard not in run.due:
                run.due.append(shard)
        return ended

    async def _scan_bucket(self, topology: Topology, shard: int, bucket: int, run: "_Run") -> int:
        """Expire the roots of a bucket that is too large for one call, a piece at a time."""
        ended, cursor, earliest_ms = 0, 0, None
        while True:
            call = functions.expiry.scan_bucket(
                settings=topology.settings,
                bucket=bucket,
                cursor=cursor,
                earliest_ms=earliest_ms,
                grace_ms=topology.config.grace_ms,
            )
            topology, scanned = await self._shards.call(topology, shard, call)
            self._metrics.tick_ended[topology.name].inc(scanned.ended)
            ended, cursor, earliest_ms = ended + scanned.ended, scanned.cursor, scanned.earliest_ms
            if not cursor:
                return ended
            # rule: no walk keeps a shard with grace from its ticks
            ended += await self._tick_late(topology, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run over a topology: the shards that are due, and when each was ticked last if the topology has grace."""

    due: deque[int]
    ticked_at: dict[int, float]


def _shards(topologies: Iterable[Topology]) -> list[ShardName]:
    return [
        ShardName(topology=topology.name, incarnation=topology.incarnation, number=number)
        for topology in topologies
        for number in range(len(topology.shards))
    ]


class RootExpiryTask(PeriodicTask):
    """Ticks in every topology; each root ends once, however many replicas tick.

    Where one server has all shards, one round trip a pass finds the topologies in which something is due. Elsewhere
    each topology looks by itself: one whose server hangs must keep no other waiting.
    """

    def __init__(
        self,
        *,
        registry: TopologyRegistry,
        metrics: Metrics,
        expiry: RootExpiry,
        topology_deleter: TopologyDeleter,
        interval: float,
    ) -> None:
        super().__init__(registry=registry, metrics=metrics, interval=interval, label="tick")
        self._expiry = expiry
        self._topology_deleter = topology_deleter
        self._heartbeat_at = -math.inf
        self._noted_at: dict[TopologyId, float] = {}
        self._due: dict[str, list[int]] = {}

    async def select(self) -> list[str]:
        """Return the topologies in which something is due; all of them if that cannot be found out together."""
        alive = time.monotonic() - self._heartbeat_at >= HEARTBEAT_INTERVAL_S
        if self._expiry.asks_one_server:
            # rule: a look that fails is made for each topology
            with contextlib.suppress(ServiceError):  # which may be the fault of one topology: each looks by itself
                return await self._select_due(alive=alive)
        if alive:
            await self._expiry.mark_worker_alive()
            self._note_alive()
        return await self.registry.names()

    async def run_for(self, topology: Topology) -> None:
        """End the overdue roots of a topology, or resume its deletion."""
        shards = self._due.pop(topology.name, None)
        if topology.deletion:
            await self._topology_deleter.resume(await self.registry.refresh(topology.name))
        elif shards is not None:
            await self._expiry.expire_shards(topology, shards)
        else:
            await self._expiry.expire(topology)

    async def _select_due(self, *, alive: bool) -> list[str]:
        """Look at all topologies that are in the cache, and give the others, too."""
        topologies = self.registry.all_cached()
        names, shards = await self._expiry.find_due(topologies, alive=alive)
        if alive:
            self._note_alive()
        self._due = {}
        for shard in shards:
            self._due.setdefault(shard.topology, []).append(shard.number)
        self._add_graced(topologies)
        idle = {it.name for it in topologies if not it.deletion and it.name in names} - self._due.keys()
        self.count_idle(len(idle))
        # rule: a topology that is new is ticked, one with nothing due is not
        return [name for name in names if name not in idle]

    def _add_graced(self, topologies: Iterable[Topology]) -> None:
        """Let every shard of a topology with grace be ticked once a second: a shard that is not has a gap."""
        now, noted_at = time.monotonic(), self._noted_at
        graced = [it for it in topologies if it.config.grace_ms and not it.deletion]
        self._noted_at = {it.id: noted_at.get(it.id, -math.inf) for it in graced}
        for topology in graced:
            # rule: an idle shard of a topology with grace is ticked once a second
            if now - self._noted_at[topology.id] >= NOTED_EVERY_S:
                self._due[topology.name] = [*range(len(topology.shards))]
                self._noted_at[topology.id] = now

    def _note_alive(self) -> None:
        self._heartbeat_at = time.monotonic()
