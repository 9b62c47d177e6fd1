"""Expires roots: times out overdue ones and drops early ones without an init."""

from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import config_functions, functions
from acker_service.redis.client import RedisClient
from acker_service.topologies.shards import Shards
from acker_service.topologies.stamp import Topology

RECORDS = 2_000
"""Records that one call reads, about: some milliseconds of Redis's time."""


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
            call = functions.walk(settings=topology.settings, bucket=bucket, cursor=cursor, earliest_ms=earliest_ms)
            topology, walked = await self._shards.call(topology, shard, call)
            self._metrics.tick_ended[topology.name].inc(walked.ended)
            ended, cursor, earliest_ms = ended + walked.ended, walked.cursor, walked.earliest_ms
            if not cursor:
                return ended
