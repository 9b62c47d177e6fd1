"""Applies requests to the roots of a topology, once each."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from acker_protocol.errors import ServiceError, StoreUnavailable, TopologyBusy
from acker_protocol.operations import REFUSED, OperationState

from acker_service.metrics.operations import OperationMetrics
from acker_service.monitoring.backpressure import Backpressure
from acker_service.operations import operation_metrics
from acker_service.operations.batcher import APPLY, APPLY_WITHOUT_INITS, ApplyBatcher
from acker_service.operations.pending_limit import PendingLimiter
from acker_service.operations.request import ApplyRequest
from acker_service.operations.routing import ShardPart, split
from acker_service.redis import codec
from acker_service.redis.client import RedisClient
from acker_service.redis.codec import OperationResult
from acker_service.redis.functions import Applied
from acker_service.redis.stamp import StaleStamp
from acker_service.topologies.registry import TopologyRegistry, retries
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import UNREGISTERED, SpoutRegistry
from acker_service.topologies.stamp import Deletion, Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a request was answered, a letter an operation; ``repeated`` if every shard knew it from before."""

    codes: str
    replayed: bool

    @property
    def results(self) -> list[OperationResult]:
        """One answer an operation."""
        return codec.decode_results(self.codes)

    @property
    def refused(self) -> list[tuple[int, OperationState]]:
        """Which operations were refused, and how."""
        if codec.REFUSED_CODES.isdisjoint(self.codes):
            return []
        return [(index, answer.state) for index, answer in enumerate(self.results) if answer.state in REFUSED]


ShardResults = dict[int, tuple[ShardPart, Applied]]
"""What of a request has been applied, by shard."""


class Applier:
    """Applies requests, each shard's part in one atomic step."""

    def __init__(
        self,
        server: RedisClient,
        topologies: TopologyRegistry,
        shards: Shards,
        spouts: SpoutRegistry,
        fullness: Backpressure,
        meters: OperationMetrics,
    ) -> None:
        self._topologies, self._spouts, self._fullness, self._meters = topologies, spouts, fullness, meters
        self._turns, self._caps = ApplyBatcher(server), PendingLimiter(server, shards)

    async def apply(self, topology: Topology, request: ApplyRequest) -> Reply:
        """Apply a request.

        Raises `StoreUnavailable` if a shard did not answer, or is not known to have done its part; ``retryable`` says
        whether the request may be sent again.
        """
        done: ShardResults = {}
        try:
            await self._apply(topology, request, done)
        except ServiceError as fault:
            if done or isinstance(fault, StoreUnavailable):
                raise StoreUnavailable(fault.detail, retryable=request.repeatable) from fault
            raise
        finally:
            operation_metrics.record(self._meters, topology.name, request.operations, done.values())
        repeated = bool(done) and all(applied.replayed for _, applied in done.values())
        return Reply(codes=_codes_in_order(done, len(request.operations)), replayed=repeated)

    async def _apply(self, topology: Topology, request: ApplyRequest, done: ShardResults) -> None:
        """Apply the parts of a request; those of stale shards again, by the configuration that holds there now."""
        for _ in retries(topology):
            topology = await self._wait_until_admitted(topology, request)
            try:
                indexes = await self._spouts.ensure(topology, request.spout_tasks)
                await self._apply_remaining(topology, request, indexes, done)
            except StaleStamp as stale:
                topology = await self._topologies.refresh_after(topology, stale)
            else:
                return

    async def _wait_until_admitted(self, topology: Topology, request: ApplyRequest) -> Topology:
        """Let a request with inits wait for a topology that may be going. Raises `TopologyBusy` if it will go."""
        while topology.deletion is Deletion.DELETING or (topology.deletion and request.spout_tasks):
            if topology.deletion is Deletion.DRAINING:
                raise TopologyBusy(f"topology {topology.name} is being deleted and takes no more inits")
            topology = await self._topologies.wait_for_deletion(topology)
        return topology

    async def _apply_remaining(
        self, topology: Topology, request: ApplyRequest, indexes: dict[str, int], done: ShardResults
    ) -> None:
        """Apply the parts that are not done; what is done stays done if another shard is stale. Raises `Stale`."""
        cap = topology.config.max_spout_pending
        parts = split(request.operations, shards=topology.layout.shards, capped=cap)
        rest = {part.shard: part for part in parts if part.shard not in done}
        packed = request.shard_requests(rest.values(), topology, indexes)
        full = await self._fullness.full_mailboxes(topology, indexes.values())
        no_room = self._fullness.is_store_full or UNREGISTERED in indexes.values()
        function = APPLY if indexes and not no_room else APPLY_WITHOUT_INITS
        if (cap is not None or full) and indexes:
            async for shard, applied in self._caps.apply(topology, indexes, packed, function, full):
                done[shard] = (rest[shard], applied)
            return
        calls = [self._turns.apply(topology, shard, function, own) for shard, own in packed.items()]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for part, result in zip(rest.values(), results, strict=True):
            if isinstance(result, Applied):
                done[part.shard] = (part, result)
        _raise_first(results)


def _codes_in_order(done: ShardResults, count: int) -> str:
    """Put the letters that the shards answered in the order of the request."""
    letters = np.zeros(count, np.uint8)
    for part, applied in done.values():
        letters[np.asarray(part.apply_order)] = np.frombuffer(applied.codes.encode(), np.uint8)
    return letters.tobytes().decode()


def _raise_first(results: Sequence[Applied | BaseException]) -> None:
    """Raise the first fault; a problem before a stale shard, which is only tried again."""
    for kind in (StoreUnavailable, ServiceError, BaseException):
        for result in results:
            if isinstance(result, kind):
                raise result
