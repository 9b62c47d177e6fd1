"""Knows how topologies go: what is marked, counted, failed and swept, in that order, by whichever replica is there."""

import logging
from enum import StrEnum

from acker_protocol.problems import TopologyBusy

from acker_service.store import keys
from acker_service.store.counts import CountsReader
from acker_service.store.server import Server
from acker_service.store.shards import Shards
from acker_service.store.topologies import DEFAULT, PATIENCE_MS, Topologies
from acker_service.store.topology import Doom, Topology
from acker_service.telemetry.work import WorkMeters

RECORDS = 2_000
STEP = 256
ROUNDS = 100
"""So many calls a shard and visit at most: late acks may bring early roots as fast as they are dropped."""

_log = logging.getLogger(__name__)


class Haste(StrEnum):
    """How a topology is deleted: only if nothing is left in it, once what is left was told, or at once."""

    IDLE = "idle"
    FORCE = "force"
    DISCARD = "discard"


class Removal:
    """Removes topologies. Each step may be repeated, and gone on with by another replica."""

    def __init__(
        self, server: Server, topologies: Topologies, shards: Shards, counts: CountsReader, meters: WorkMeters
    ) -> None:
        self._server, self._topologies, self._shards = server, topologies, shards
        self._counts, self._meters = counts, meters

    async def delete(self, name: str, haste: Haste) -> None:
        """Delete a topology. Raises `TopologyBusy`, `UnknownTopology`.

        Forced, it fails what is pending at once and goes when all completions were released (see `advance`).
        """
        if name == DEFAULT:
            raise TopologyBusy("the topology default always exists", retryable=False)
        topology = await self._topologies.read(name)
        while topology.doom in (Doom.PROBE, Doom.GONE):
            topology = await self._topologies.wait(topology)
        if haste is Haste.DISCARD:
            discarded = (await self._counts.read(topology)).kept_in_all
            await self._finish(await self._topologies.mark(topology, Doom.GONE), discarded)
        elif haste is Haste.FORCE:
            forced = topology if topology.doom else await self._topologies.mark(topology, Doom.FORCE)
            await self.advance(forced)
        else:
            await self._delete_idle(topology)

    async def advance(self, topology: Topology) -> None:
        """Go on with a removal: of a forced one, or of one whose remover has not been heard of for long. Idempotent."""
        if topology.doom is Doom.FORCE:
            await self._advance_forced(topology)
        elif topology.doom and await self._topologies.now_ms() - topology.doomed_ms > PATIENCE_MS:
            if topology.doom is Doom.GONE:
                await self._finish(topology)
            else:
                await self._topologies.mark(topology, None)

    async def _delete_idle(self, topology: Topology) -> None:
        if topology.doom:
            raise TopologyBusy(f"topology {topology.name} is being deleted already")
        probed = await self._topologies.mark(topology, Doom.PROBE)
        if busy := await self._busy(probed):
            await self._topologies.mark(probed, None)
            raise TopologyBusy(f"topology {topology.name} has {busy}; ?force=true ends them")
        await self._finish(await self._topologies.mark(probed, Doom.GONE))

    async def _advance_forced(self, topology: Topology) -> None:
        for shard in range(len(topology.shards)):
            for _ in range(ROUNDS):
                args = (topology.settings, RECORDS)
                topology, (more,) = await self._shards.ask(topology, "acker_fail_all_v1", shard, *args)
                if not more:
                    break
        if not await self._busy(topology):
            await self._finish(await self._topologies.mark(topology, Doom.GONE))

    async def _busy(self, topology: Topology) -> str:
        """Say what keeps a topology from going; empty if nothing does."""
        return (await self._counts.read(topology)).busy_in_all

    async def _finish(self, topology: Topology, discarded: int = 0) -> None:
        """Bury all shards, so that nobody writes there again, then sweep them, then forget the topology."""
        for key in topology.shards:
            await self._server.call("acker_bury_v1", [key], topology.pair)
        for key in topology.shards:
            for first in range(0, await self._most(topology), STEP):
                await self._server.call("acker_sweep_v1", [key], topology.pair, first, first + STEP - 1)
        names = (keys.topology(topology.name), keys.spouts(topology.name, topology.incarnation), keys.TOPOLOGIES)
        await self._server.call("acker_remove_topology_v1", names, topology.pair, topology.name)
        self._topologies.forget(topology.name)
        self._meters.topologies_removed.inc()
        self._meters.completions_discarded[topology.name, "topology"].inc(discarded)
        _log.info("topology %s was removed; %d unread completions were discarded", topology.name, discarded)

    async def _most(self, topology: Topology) -> int:
        """How many buckets, sets of seen requests and mailboxes a shard has at most, whichever is most."""
        spouts = await self._server.read("HGET", keys.topology(topology.name), "next")
        return max(topology.configuration.buckets, topology.seen_sets, int(spouts or 0))
