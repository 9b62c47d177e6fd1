"""Decodes and applies single operations that need one call on one shard, and no more."""

from collections.abc import Callable

import msgspec
from acker_protocol.errors import StoreUnavailable
from acker_protocol.operations import Init, Operation
from acker_protocol.wire.operations import decode_operation, names_of

from acker_service.metrics.instruments import OperationMetrics
from acker_service.monitoring.backpressure import Backpressure
from acker_service.operations.applier import ApplyRequest, Reply, apply_function, apply_limits
from acker_service.operations.batch import KINDS, STATES, ListBatch
from acker_service.operations.batcher import ApplyBatcher
from acker_service.redis import codec
from acker_service.redis.apply_functions import Applied, ApplyLimits, SpoutCheck
from acker_service.redis.codec import ShardRequest
from acker_service.redis.stamp import StaleStamp
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.spouts import SpoutRegistry
from acker_service.topologies.topology import Topology

_decode_json = msgspec.json.Decoder().decode


class NotApplied(Exception):
    """An operation needs more than one call, or its call was refused for its stamp: nothing was applied."""


def decode(verb: str, body: bytes) -> Operation:
    """Decode a single operation from JSON; reads what the reference codec reads, or less, and checks it likewise.

    Raises ``ValueError`` or `InvalidRequest`: the reference codec then decodes it, or names the error.
    """
    document = _decode_json(body)
    if type(document) is not dict:
        raise ValueError("no object")
    return decode_operation(verb, document)


class SingleApplier:
    """Applies single operations as `Applier` does, where one call suffices: the calls are coalesced with all others.

    ``max_early`` bounds the early roots of a topology.
    """

    def __init__(
        self,
        batcher: ApplyBatcher,
        registry: TopologyRegistry,
        spouts: SpoutRegistry,
        backpressure: Backpressure,
        metrics: OperationMetrics,
        *,
        max_early: int,
    ) -> None:
        self._batcher, self._registry, self._spouts = batcher, registry, spouts
        self._backpressure, self._metrics = backpressure, metrics
        self._max_early = max_early
        self._limits: dict[int, ApplyLimits] = {}

    async def apply(self, topology: Topology, verb: str, operation: Operation, key: str | None) -> Reply:
        """Apply an operation under its idempotency key (None: without one).

        Raises `NotApplied` if `Applier` has to apply it, `StoreUnavailable` as `Applier.apply` does.
        """
        request = self._shard_request(topology, verb, operation, key)
        try:
            applied = await self._call(topology, topology.layout.shard_of(operation.root_id), request)
        except StoreUnavailable as error:
            whole = ApplyRequest(endpoint=verb, operations=ListBatch([operation]), key=key)
            raise whole.result_unknown(error) from error
        self._count(topology.name, operation, applied)
        return Reply(codes=applied.codes, replayed=applied.replayed)

    async def _call(self, topology: Topology, shard: int, request: ShardRequest) -> Applied:
        function, limits = apply_function(self._backpressure), self._limits_of(topology)
        try:
            applied = await self._batcher.apply(topology, shard, function, limits, request)
        except StaleStamp as stale:
            await self._registry.refresh_after(topology, stale)
            raise NotApplied from None
        assert isinstance(applied, Applied)  # no spout task is unregistered
        return applied

    def _shard_request(self, topology: Topology, verb: str, operation: Operation, key: str | None) -> ShardRequest:
        index = self._spout_index(topology, operation) if isinstance(operation, Init) else 0
        encoded = codec.encode_operation(
            operation, topology.layout, _constant(index), trace_threshold=topology.trace_threshold
        )
        if key is None:
            return ShardRequest(operations=encoded, may_be_joined=True)
        named = encoded
        # An index may be another when it is sent again, and the share of the roots that are traced.
        # rule: a single ack is known again under another share
        if isinstance(operation, Init) or names_of(operation) or topology.trace_threshold:
            named = codec.encode_operation(operation, topology.layout, codec.name_hash, is_explained=False)
        known_by = codec.fingerprint(verb, key, named, sets=topology.seen_sets)
        return ShardRequest(operations=encoded, fingerprint=known_by, is_single=True)

    def _spout_index(self, topology: Topology, init: Init) -> int:
        """Give the index of an init's spout task, if it takes inits without further calls. Raises `NotApplied`."""
        longest_ms, timeout_ms = topology.config.longest_timeout_ms, init.message_timeout_ms or 0
        if topology.config.max_spout_pending is not None or (longest_ms and timeout_ms > longest_ms):
            raise NotApplied
        index = self._spouts.cached_index(topology, init.spout_task)
        if index is None or self._backpressure.was_full(topology, index):
            raise NotApplied
        return index

    def _limits_of(self, topology: Topology) -> ApplyLimits:
        shards = len(topology.shards)
        if shards not in self._limits:
            self._limits[shards] = apply_limits(self._max_early, topology, SpoutCheck.NONE)
        return self._limits[shards]

    def _count(self, topology: str, operation: Operation, applied: Applied) -> None:
        kind = KINDS[type(operation)]
        if applied.replayed:
            self._metrics.repeated[topology, kind].inc()
        else:
            self._metrics.operations[topology, kind, STATES[applied.codes]].inc()


def _constant(index: int) -> Callable[[str], int]:
    return lambda _: index
