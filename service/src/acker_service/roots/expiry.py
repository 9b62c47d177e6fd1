"""Expires roots, periodically: times out overdue ones and drops early ones without an init."""

import math
import time

from acker_service.metrics.instruments import OperationMetrics
from acker_service.metrics.registry import Metrics
from acker_service.redis import config_functions, functions
from acker_service.redis.client import RedisClient
from acker_service.topologies.deletion import TopologyDeleter
from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.shards import Shards
from acker_service.topologies.topology import Topology

RECORDS = 2_000
"""Records that one call reads, about: some milliseconds of Redis's time."""

HEARTBEAT_INTERVAL_S = 1.0


class RootExpiry:
    """Expires the roots of topologies. Any number of replicas may: each step is atomic, and no root expires twice."""

    def __init__(self, redis: RedisClient, shards: Shards, metrics: OperationMetrics) -> None:
        self._redis, self._shards, self._metrics = redis, shards, metrics

    async def mark_worker_alive(self) -> None:
        """Note for ten seconds that a worker expires roots."""
        await self._redis.execute(config_functions.note_tick())

    async def worker_seen(self) -> bool:
        """Check whether a worker expired roots in the last ten seconds."""
        return await self._redis.execute(config_functions.worker_seen())

    async def expire(self, topology: Topology) -> int:
        """Expire all that is overdue in a topology; gives how many roots. An empty shard costs one EXISTS."""
        ended = 0
        calls = [
            config_functions.has_deadlines(topology.name, topology.incarnation, shard)
            for shard in range(len(topology.shards))
        ]
        for shard, has_deadlines in enumerate(await self._redis.execute_each(calls)):
            if has_deadlines:
                ended += await self._expire_shard(topology, shard)
        return ended

    async def _expire_shard(self, topology: Topology, shard: int) -> int:
        ended, more = 0, True
        while more:
            call = functions.tick(settings=topology.settings, max_records=RECORDS)
            topology, ticked = await self._shards.call(topology, shard, call)
            self._metrics.tick_ended[topology.name].inc(ticked.ended)
            ended, more = ended + ticked.ended, ticked.more
            for bucket in ticked.overfull_buckets:
                ended += await self._scan_bucket(topology, shard, bucket)
        return ended

    async def _scan_bucket(self, topology: Topology, shard: int, bucket: int) -> int:
        """Expire the roots of a bucket that is too large for one call, a piece at a time."""
        ended, cursor, earliest_ms = 0, 0, None
        while True:
            call = functions.scan_bucket(
                settings=topology.settings, bucket=bucket, cursor=cursor, earliest_ms=earliest_ms
            )
            topology, walked = await self._shards.call(topology, shard, call)
            self._metrics.tick_ended[topology.name].inc(walked.ended)
            ended, cursor, earliest_ms = ended + walked.ended, walked.cursor, walked.earliest_ms
            if not cursor:
                return ended


class RootExpiryTask(PeriodicTask):
    """Ticks in every topology; each root ends once, however many replicas tick."""

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
        self._expiry, self._topology_deleter = expiry, topology_deleter
        self._heartbeat_at = -math.inf

    async def before_pass(self) -> None:
        """Record in the store that a worker is alive, once a second."""
        now = time.monotonic()
        if now - self._heartbeat_at >= HEARTBEAT_INTERVAL_S:
            await self._expiry.mark_worker_alive()
            self._heartbeat_at = now

    async def run_for(self, topology: Topology) -> None:
        """End the overdue roots of a topology, or resume its deletion."""
        if topology.deletion:
            await self._topology_deleter.resume(await self.registry.refresh(topology.name))
        else:
            await self._expiry.expire(topology)
