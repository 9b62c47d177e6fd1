"""Deletes topologies and spout tasks, in steps that any replica may repeat or take over.

Both follow one state machine: mark, so that no inits are admitted; count again; then remove, or unmark what is in use.
A mark that is older than `DELETION_TIMEOUT_MS` is left from a replica that died: another one removes or unmarks.
"""

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from acker_protocol.errors import ServiceError, SpoutBusy, TopologyBusy, UnknownSpout

from acker_service.metrics.instruments import OperationMetrics
from acker_service.metrics.metrics import Metrics
from acker_service.redis import functions
from acker_service.redis.client import RedisClient
from acker_service.redis.functions.traces import remove_traces
from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.registry import DEFAULT, DELETION_TIMEOUT_MS, TopologyRegistry
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout, SpoutRegistry
from acker_service.topologies.stats import StatsReader
from acker_service.topologies.topology import Deletion, Topology

RECORDS = 2_000
"""Approximate number of roots that one call fails."""

SWEEP_STEP = 1_024
"""Buckets and spout indexes that one call sweeps."""

TRACES = 1_000
"""Traces that one call removes."""

MAX_CALLS = 100
"""Maximum number of calls per shard in one visit: late acks may add early roots as fast as they are dropped."""

TAKEN_OVER = "taken_over"
"""The reason, as metrics show it, of a deletion that another replica began."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class DeleteMode(StrEnum):
    """When a topology or a spout task may be deleted; the value is the reason that metrics show."""

    IF_IDLE = "idle"
    """If nothing is left of it."""
    DRAIN = "drain"
    """Once its completions are released; a topology only."""
    DISCARD = "discard"
    """At once."""
    UNUSED = "unused"
    """If it is an ephemeral spout task that is unused; internal."""


class _Deleter(ABC, Generic[T]):
    """The state machine of a deletion, over topologies or spout tasks."""

    @abstractmethod
    async def _mark(self, target: T, deletion: Deletion | None) -> T:
        """Write the state of the deletion, or remove the mark (None), and return the target as it is then."""

    @abstractmethod
    async def _in_use(self, target: T, mode: DeleteMode) -> str:
        """Describe what keeps the target from being deleted; empty if nothing does."""

    @abstractmethod
    async def _remove(self, target: T, reason: str) -> int:
        """Remove the target, which is marked as being deleted, and return how many completions it had. Idempotent."""

    @abstractmethod
    def _busy(self, target: T, use: str) -> ServiceError:
        """Return the error for a target in use."""

    async def _delete_unless_used(self, target: T, mode: DeleteMode) -> int:
        marked = await self._mark(target, Deletion.CHECKING)
        # rule: what is marked is looked at again for its use
        if use := await self._in_use(marked, mode):
            # rule: what is in use is unmarked
            await self._mark(marked, None)
            raise self._busy(marked, use)
        return await self._remove(await self._mark(marked, Deletion.DELETING), mode.value)

    async def _take_over(self, target: T, deletion: Deletion, age_ms: int) -> None:
        """Finish a deletion, or remove the mark, if the replica that set the mark must have died."""
        # rule: a young mark is left to whoever set it
        if age_ms > DELETION_TIMEOUT_MS:
            if deletion is Deletion.DELETING:
                await self._remove(target, TAKEN_OVER)
            else:
                await self._mark(target, None)


class TopologyDeleter(_Deleter[Topology]):
    """Deletes topologies."""

    def __init__(
        self,
        redis: RedisClient,
        registry: TopologyRegistry,
        shards: Shards,
        stats: StatsReader,
        metrics: OperationMetrics,
    ) -> None:
        self._redis = redis
        self._registry = registry
        self._shards = shards
        self._stats = stats
        self._metrics = metrics

    async def delete(self, name: str, mode: DeleteMode) -> int:
        """Delete a topology, and return how many completions were discarded. Raises `TopologyBusy`, `UnknownTopology`.

        `DeleteMode.DRAIN` fails what is pending, and gives how many roots were; `resume` deletes the topology once all
        completions are released.
        """
        if name == DEFAULT:
            raise TopologyBusy("the topology default always exists", retryable=False)
        topology = await self._registry.refresh(name)
        while topology.deletion in (Deletion.CHECKING, Deletion.DELETING):
            topology = await self._registry.wait_for_deletion(topology)
        if mode is DeleteMode.DISCARD:
            discarded = (await self._stats.read(topology)).stored_total
            return await self._finish(await self._mark(topology, Deletion.DELETING), discarded)
        if mode is DeleteMode.DRAIN:
            pending = (await self._stats.read(topology)).pending.total()
            await self.resume(topology if topology.deletion else await self._mark(topology, Deletion.DRAINING))
            return pending
        if topology.deletion:
            raise TopologyBusy(f"topology {name} is being deleted already")
        return await self._delete_unless_used(topology, mode)

    async def resume(self, topology: Topology) -> None:
        """Continue to drain a topology, or take a deletion over from a replica that died. Idempotent."""
        if topology.deletion is Deletion.DRAINING:
            await self._drain(topology)
        elif topology.deletion:
            age_ms = await self._registry.now_ms() - topology.deletion_started_ms
            await self._take_over(topology, topology.deletion, age_ms)

    async def _drain(self, topology: Topology) -> None:
        for shard in range(len(topology.shards)):
            for _ in range(MAX_CALLS):
                call = functions.expiry.fail_all(settings=topology.settings, max_roots=RECORDS)
                topology, more = await self._shards.call(topology, shard, call)
                if not more:
                    break
        # rule: a forced deletion waits until all was released
        if not await self._in_use(topology, DeleteMode.DRAIN):
            await self._remove(await self._mark(topology, Deletion.DELETING), DeleteMode.DRAIN.value)

    async def _mark(self, target: Topology, deletion: Deletion | None) -> Topology:
        return await self._registry.set_deletion(target, deletion)

    async def _in_use(self, target: Topology, mode: DeleteMode) -> str:  # noqa: ARG002 - any use counts, in every mode
        return (await self._stats.read(target)).remaining_total

    def _busy(self, target: Topology, use: str) -> ServiceError:
        return TopologyBusy(f"topology {target.name} has {use}; ?force=true ends them")

    async def _remove(self, target: Topology, reason: str) -> int:  # noqa: ARG002 - the metric has no reason
        return await self._finish(target, discarded=0)

    async def _finish(self, topology: Topology, discarded: int) -> int:
        """Bury all shards, so that no call writes there again; sweep them; remove the configuration."""
        stamp = topology.stamp
        for key in topology.shards:
            await self._redis.execute(functions.topologies.bury(key, stamp))
        await self._sweep(topology)
        await self._redis.execute(functions.topologies.remove_topology(topology.name, stamp=stamp))
        self._registry.evict(topology.name)
        self._metrics.topologies_removed.inc()
        self._metrics.completions_discarded[topology.name, "topology"].inc(discarded)
        _log.info("topology %s was removed; %d unread completions were discarded", topology.name, discarded)
        return discarded

    async def _sweep(self, topology: Topology) -> None:
        """Remove all keys of the shards. Edges that were remembered before a dedupe window was taken away expire."""
        spout_indexes = await self._redis.execute(functions.topologies.spout_index_count(topology.name))
        numbers = max(topology.config.buckets, topology.seen_sets, spout_indexes)
        for key in topology.shards:
            while await self._redis.execute(remove_traces(key, topology.stamp, limit=TRACES)) == TRACES:
                pass
            if not await self._redis.execute(functions.topologies.is_used(key, topology.stamp)):
                continue
            for first in reversed(range(0, numbers, SWEEP_STEP)):
                sweep = functions.topologies.sweep(
                    key,
                    topology.stamp,
                    first=first,
                    last=first + SWEEP_STEP - 1,
                    seen_sets=topology.seen_sets,
                    spout_indexes=spout_indexes,
                    remembers_edges=topology.config.dedupe_window_ms > 0,
                )
                await self._redis.execute(sweep)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpoutTarget:
    topology: Topology
    spout: Spout


class SpoutDeleter(_Deleter[_SpoutTarget]):
    """Deletes spout tasks. ``idle_ms`` is how long an ephemeral one stays without an emit or a read."""

    def __init__(
        self,
        registry: TopologyRegistry,
        shards: Shards,
        spouts: SpoutRegistry,
        stats: StatsReader,
        metrics: OperationMetrics,
        *,
        idle_ms: int,
    ) -> None:
        self._registry = registry
        self._shards = shards
        self._spouts = spouts
        self._stats = stats
        self._metrics = metrics
        self._idle_ms = idle_ms

    async def delete(self, topology: Topology, name: str, mode: DeleteMode) -> int:
        """Delete a spout task, and return how many completions it had. It does not drain.

        Raises `SpoutBusy`, `UnknownSpout`, or `TopologyRecreated`.
        """
        topology = await self._registry.refresh(topology.name)
        spout = await self._spouts.read(topology, name)
        if spout.deletion:
            raise SpoutBusy(f"spout task {name} is being removed already")
        return await self._delete_unless_used(_SpoutTarget(topology=topology, spout=spout), mode)

    async def expire_unused(self, topology: Topology) -> None:
        """Delete the ephemeral spout tasks that are unused, and take deletions over from replicas that died."""
        spouts = await self._spouts.read_all(topology)
        now_ms = await self._registry.now_ms()
        for spout in spouts.values():
            try:
                await self._expire_one(_SpoutTarget(topology=topology, spout=spout), now_ms)
            except (SpoutBusy, UnknownSpout):
                _log.debug("spout task %s is used again, or another replica was faster", spout.name)

    async def _expire_one(self, target: _SpoutTarget, now_ms: int) -> None:
        spout = target.spout
        if spout.deletion:
            await self._take_over(target, spout.deletion, now_ms - spout.deletion_started_ms)
            return
        is_old = now_ms - spout.created_ms > self._idle_ms
        if spout.ephemeral and is_old and not await self._in_use(target, DeleteMode.UNUSED):
            await self.delete(target.topology, spout.name, DeleteMode.UNUSED)

    async def _mark(self, target: _SpoutTarget, deletion: Deletion | None) -> _SpoutTarget:
        started_ms = (target.spout.deletion_started_ms or await self._registry.now_ms()) if deletion else 0
        marked = replace(target.spout, deletion=deletion, deletion_started_ms=started_ms)
        return _SpoutTarget(topology=await self._write(target, marked), spout=marked)

    async def _write(self, target: _SpoutTarget, changed: Spout | None) -> Topology:
        topology = await self._spouts.mark(target.topology, target.spout, changed)
        if topology is None:
            raise SpoutBusy(f"spout task {target.spout.name} was changed meanwhile")
        return topology

    async def _in_use(self, target: _SpoutTarget, mode: DeleteMode) -> str:
        if mode is DeleteMode.DISCARD:
            return ""
        stats = await self._stats.read(target.topology)
        if mode is not DeleteMode.UNUSED:
            # rule: a spout task is counted again behind its mark
            return stats.remaining(target.spout.index)
        pending = stats.pending[target.spout.index]
        return f"{pending} pending roots" if pending else await self._recently_used(target)

    async def _recently_used(self, target: _SpoutTarget) -> str:
        _, shards = await self._shards.call_all(target.topology, functions.spouts.read_used())
        used_ms = (shard.used_ms.get(target.spout.index, 0) for shard in shards)
        last_ms = max(target.spout.created_ms, *used_ms)
        return "been used lately" if max(shard.now_ms for shard in shards) - last_ms <= self._idle_ms else ""

    def _busy(self, target: _SpoutTarget, use: str) -> ServiceError:
        return SpoutBusy(f"spout task {target.spout.name} has {use}")

    async def _remove(self, target: _SpoutTarget, reason: str) -> int:
        call = functions.mailboxes.remove_spout(spout_index=target.spout.index)
        topology, counts = await self._shards.call_all(target.topology, call)
        discarded = sum(counts)
        self._metrics.completions_discarded[topology.name, "spout_task"].inc(discarded)
        await self._write(replace(target, topology=topology), None)
        self._metrics.spouts_removed[topology.name, reason].inc()
        _log.info("spout task %s was removed; %d unread completions were discarded", target.spout.name, discarded)
        return discarded


class SpoutExpiry(PeriodicTask):
    """Deletes ephemeral spout tasks that stayed unused, and resumes deletions that another process left unfinished."""

    def __init__(
        self, *, registry: TopologyRegistry, metrics: Metrics, spout_deleter: SpoutDeleter, interval: float
    ) -> None:
        super().__init__(registry=registry, metrics=metrics, interval=interval, label="spout_expiry")
        self._spout_deleter = spout_deleter

    async def run_for(self, topology: Topology) -> None:
        """Delete the unused spout tasks of a topology, unless the topology itself is being deleted."""
        if not topology.deletion:
            await self._spout_deleter.expire_unused(topology)
