"""Knows how the time that passes reaches the store: overdue roots are told, early ones without an init dropped."""

from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import keys
from acker_service.redis.client import RedisClient
from acker_service.topologies.shards import Shards
from acker_service.topologies.stamp import Topology

RECORDS = 2_000
"""About how many records one call looks through: some milliseconds of Redis's time."""


class RootExpiry:
    """Lets time pass in topologies. Any number of replicas may: each step is atomic, no root is told twice."""

    def __init__(self, server: RedisClient, shards: Shards, meters: OperationMetrics) -> None:
        self._server, self._shards, self._meters = server, shards, meters

    async def mark_worker_alive(self) -> None:
        """Note that somebody lets time pass, for ten seconds."""
        await self._server.call("acker_note_tick_v1", [keys.TOPOLOGIES])

    async def worker_seen(self) -> bool:
        """Whether somebody lets time pass, or did in the last ten seconds."""
        return bool(await self._server.read("EXISTS", keys.TICKED))

    async def expire(self, topology: Topology) -> int:
        """End all that is overdue in a topology; gives how many roots. An empty shard costs one look."""
        ended = 0
        looked = [("EXISTS", keys.due(topology.name, n, topology.incarnation)) for n in range(len(topology.shards))]
        for shard, waiting in enumerate(await self._server.read_each(looked)):
            if waiting:
                ended += await self._expire_shard(topology, shard)
        return ended

    async def _expire_shard(self, topology: Topology, shard: int) -> int:
        ended, more = 0, 1
        while more:
            args = (topology.settings, RECORDS)
            topology, (count, more, *overfull) = await self._shards.call(topology, "acker_tick_v1", shard, *args)
            self._meters.tick_ended[topology.name].inc(count)
            ended += count
            for bucket in overfull:
                ended += await self._scan_bucket(topology, shard, bucket)
        return ended

    async def _scan_bucket(self, topology: Topology, shard: int, bucket: bytes) -> int:
        """Look through a bucket that is too large for one call, a piece at a time."""
        ended, cursor, earliest = 0, b"0", b""
        while True:
            args = (topology.settings, bucket, cursor, earliest)
            topology, (count, cursor, earliest) = await self._shards.call(topology, "acker_walk_v1", shard, *args)
            self._meters.tick_ended[topology.name].inc(count)
            ended += int(count)
            if cursor == b"0":
                return ended
