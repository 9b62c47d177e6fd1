"""Knows how spout tasks leave: by a call, or an ephemeral one that nobody has used for long."""

import logging
from dataclasses import replace
from enum import StrEnum

from acker_protocol.errors import SpoutBusy, UnknownSpout

from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import mailbox_functions
from acker_service.topologies.registry import DELETION_TIMEOUT_MS, TopologyRegistry
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout, SpoutRegistry
from acker_service.topologies.stamp import Deletion, Topology
from acker_service.topologies.stats import StatsReader

_log = logging.getLogger(__name__)


class SpoutDeleteMode(StrEnum):
    """When a spout task may go: if nothing is left of it, whatever is left, or if it is unused."""

    IF_IDLE = "idle"
    DISCARD = "discard"
    UNUSED = "unused"


class SpoutDeleter:
    """Removes spout tasks. ``idle_ms`` is how long an ephemeral one stays when nobody emits under it or reads it."""

    def __init__(
        self,
        topologies: TopologyRegistry,
        shards: Shards,
        spouts: SpoutRegistry,
        counts: StatsReader,
        meters: OperationMetrics,
        *,
        idle_ms: int,
    ) -> None:
        self._topologies, self._shards = topologies, shards
        self._spouts, self._counts, self._meters, self._idle_ms = spouts, counts, meters, idle_ms

    async def delete(self, topology: Topology, name: str, leave: SpoutDeleteMode) -> None:
        """Remove a spout task. Raises `SpoutBusy`, `UnknownSpout`.

        It is marked first, and so takes no inits; then counted again; then removed, or unmarked.
        """
        topology = await self._topologies.refresh(topology.name)
        spout = await self._read(topology, name)
        marked = replace(spout, deletion=Deletion.CHECKING, deletion_started_ms=await self._topologies.now_ms())
        topology = await self._mark(topology, spout, marked)
        busy = "" if leave is SpoutDeleteMode.DISCARD else await self._in_use(topology, marked, leave)
        if busy:
            await self._mark(topology, marked, spout)
            raise SpoutBusy(f"spout task {name} has {busy}")
        going = replace(marked, deletion=Deletion.DELETING)
        await self._finish(await self._mark(topology, marked, going), going, leave.value)

    async def expire_unused(self, topology: Topology) -> None:
        """Remove the ephemeral spout tasks that nobody uses, and go on with removals that were left half-way."""
        spouts = await self._spouts.read_all(topology)
        now = await self._topologies.now_ms()
        for spout in spouts.values():
            try:
                await self._expire_one(topology, spout, now)
            except (SpoutBusy, UnknownSpout):
                _log.debug("spout task %s is used again, or another replica was faster", spout.name)

    async def _expire_one(self, topology: Topology, spout: Spout, now_ms: int) -> None:
        if spout.deletion and now_ms - spout.deletion_started_ms > DELETION_TIMEOUT_MS:
            await self._resume(topology, spout)
        elif spout.ephemeral and not spout.deletion and now_ms - spout.created_ms > self._idle_ms:
            await self._delete_if_unused(topology, spout)

    async def _delete_if_unused(self, topology: Topology, spout: Spout) -> None:
        if not await self._in_use(topology, spout, SpoutDeleteMode.UNUSED):
            await self.delete(topology, spout.name, SpoutDeleteMode.UNUSED)

    async def _resume(self, topology: Topology, spout: Spout) -> None:
        if spout.deletion == Deletion.DELETING:
            await self._finish(topology, spout, "taken_over")
        else:
            await self._mark(topology, spout, replace(spout, deletion=None, deletion_started_ms=0))

    async def _in_use(self, topology: Topology, spout: Spout, leave: SpoutDeleteMode) -> str:
        """Say what keeps a spout task from going; empty if nothing does."""
        counts = await self._counts.read(topology)
        if leave is not SpoutDeleteMode.UNUSED:
            return counts.remaining(spout.index)
        pending = counts.pending[spout.index]
        return f"{pending} pending roots" if pending else await self._recently_used(topology, spout)

    async def _recently_used(self, topology: Topology, spout: Spout) -> str:
        _, shards = await self._shards.call_all(topology, mailbox_functions.read_used())
        last = max(spout.created_ms, *(shard.used_ms.get(spout.index, 0) for shard in shards))
        return "been used lately" if max(shard.now_ms for shard in shards) - last <= self._idle_ms else ""

    async def _read(self, topology: Topology, name: str) -> Spout:
        spout = (await self._spouts.read_all(topology)).get(name)
        if spout is None:
            raise UnknownSpout(f"topology {topology.name} has no spout task {name}")
        if spout.deletion:
            raise SpoutBusy(f"spout task {name} is being removed already")
        return spout

    async def _mark(self, topology: Topology, before: Spout, after: Spout | None) -> Topology:
        """Replace a spout task, or remove it (None). Raises `SpoutBusy` if it was changed since it was read."""
        renewed = await self._spouts.mark(topology, before, after)
        if renewed is None:
            raise SpoutBusy(f"spout task {before.name} was changed meanwhile")
        return renewed

    async def _finish(self, topology: Topology, spout: Spout, why: str) -> None:
        topology, shards = await self._shards.call_all(
            topology, mailbox_functions.remove_spout(spout_index=spout.index)
        )
        discarded = sum(shards)
        self._meters.completions_discarded[topology.name, "spout_task"].inc(discarded)
        await self._mark(topology, spout, None)
        self._meters.spouts_removed[topology.name, why].inc()
        _log.info("spout task %s was removed; %d unread completions were discarded", spout.name, discarded)
