"""Knows how topologies go: what is marked, counted, failed and swept, in that order, by whichever replica is there."""

import logging
from enum import StrEnum

from acker_protocol.errors import TopologyBusy

from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import config_functions, functions
from acker_service.redis.client import RedisClient
from acker_service.topologies.registry import DEFAULT, DELETION_TIMEOUT_MS, TopologyRegistry
from acker_service.topologies.shards import Shards
from acker_service.topologies.stamp import Deletion, Topology
from acker_service.topologies.stats import StatsReader

RECORDS = 2_000
SWEEP_STEP = 256
MAX_CALLS = 100
"""So many calls a shard and visit at most: late acks may bring early roots as fast as they are dropped."""

_log = logging.getLogger(__name__)


class TopologyDeleteMode(StrEnum):
    """How a topology is deleted: only if nothing is left in it, once what is left was told, or at once."""

    IF_IDLE = "idle"
    DRAIN = "force"
    DISCARD = "discard"


class TopologyDeleter:
    """Removes topologies. Each step may be repeated, and gone on with by another replica."""

    def __init__(
        self,
        server: RedisClient,
        topologies: TopologyRegistry,
        shards: Shards,
        counts: StatsReader,
        meters: OperationMetrics,
    ) -> None:
        self._server, self._topologies, self._shards = server, topologies, shards
        self._counts, self._meters = counts, meters

    async def delete(self, name: str, haste: TopologyDeleteMode) -> None:
        """Delete a topology. Raises `TopologyBusy`, `UnknownTopology`.

        Forced, it fails what is pending at once and goes when all completions were released (see `advance`).
        """
        if name == DEFAULT:
            raise TopologyBusy("the topology default always exists", retryable=False)
        topology = await self._topologies.refresh(name)
        while topology.deletion in (Deletion.CHECKING, Deletion.DELETING):
            topology = await self._topologies.wait_for_deletion(topology)
        if haste is TopologyDeleteMode.DISCARD:
            discarded = (await self._counts.read(topology)).stored_total
            await self._finish(await self._topologies.set_deletion(topology, Deletion.DELETING), discarded)
        elif haste is TopologyDeleteMode.DRAIN:
            forced = topology if topology.deletion else await self._topologies.set_deletion(topology, Deletion.DRAINING)
            await self.resume(forced)
        else:
            await self._delete_idle(topology)

    async def resume(self, topology: Topology) -> None:
        """Go on with a removal: of a forced one, or of one whose remover has not been heard of for long. Idempotent."""
        if topology.deletion is Deletion.DRAINING:
            await self._resume_draining(topology)
        elif topology.deletion and await self._topologies.now_ms() - topology.deletion_started_ms > DELETION_TIMEOUT_MS:
            if topology.deletion is Deletion.DELETING:
                await self._finish(topology)
            else:
                await self._topologies.set_deletion(topology, None)

    async def _delete_idle(self, topology: Topology) -> None:
        if topology.deletion:
            raise TopologyBusy(f"topology {topology.name} is being deleted already")
        probed = await self._topologies.set_deletion(topology, Deletion.CHECKING)
        if busy := await self._remaining(probed):
            await self._topologies.set_deletion(probed, None)
            raise TopologyBusy(f"topology {topology.name} has {busy}; ?force=true ends them")
        await self._finish(await self._topologies.set_deletion(probed, Deletion.DELETING))

    async def _resume_draining(self, topology: Topology) -> None:
        for shard in range(len(topology.shards)):
            for _ in range(MAX_CALLS):
                call = functions.fail_all(settings=topology.settings, max_roots=RECORDS)
                topology, more = await self._shards.call(topology, shard, call)
                if not more:
                    break
        if not await self._remaining(topology):
            await self._finish(await self._topologies.set_deletion(topology, Deletion.DELETING))

    async def _remaining(self, topology: Topology) -> str:
        """Say what keeps a topology from going; empty if nothing does."""
        return (await self._counts.read(topology)).remaining_total

    async def _finish(self, topology: Topology, discarded: int = 0) -> None:
        """Bury all shards, so that nobody writes there again, then sweep them, then forget the topology."""
        stamp = topology.stamp
        for key in topology.shards:
            await self._server.execute(config_functions.bury(key, stamp))
        for key in topology.shards:
            for first in range(0, await self._highest_index(topology), SWEEP_STEP):
                sweep = config_functions.sweep(key, stamp, first=first, last=first + SWEEP_STEP - 1)
                await self._server.execute(sweep)
        await self._server.execute(config_functions.remove_topology(topology.name, stamp=stamp))
        self._topologies.evict(topology.name)
        self._meters.topologies_removed.inc()
        self._meters.completions_discarded[topology.name, "topology"].inc(discarded)
        _log.info("topology %s was removed; %d unread completions were discarded", topology.name, discarded)

    async def _highest_index(self, topology: Topology) -> int:
        """How many buckets, sets of seen requests and mailboxes a shard has at most, whichever is most."""
        spouts = await self._server.execute(config_functions.spout_index_count(topology.name))
        return max(topology.config.buckets, topology.seen_sets, spouts)
