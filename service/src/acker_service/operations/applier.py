"""Applies requests to the roots of a topology, each part exactly once."""

import asyncio
import contextvars
import math
from collections.abc import Mapping, Sequence

import numpy as np
from acker_protocol.errors import ServiceError, StoreUnavailable, TopologyBusy
from acker_protocol.operations import Init

from acker_service.background import Awaited, Waiter
from acker_service.metrics.instruments import OperationMetrics
from acker_service.monitoring.backpressure import Backpressure
from acker_service.operations.batch import KINDS, STATES, OperationBatch, ShardPart
from acker_service.operations.batcher import ApplyBatcher
from acker_service.operations.pending_limit import PendingLimiter
from acker_service.operations.request import ApplyRequest, Reply
from acker_service.redis import functions
from acker_service.redis.client import RedisClient
from acker_service.redis.codec import ShardRequest
from acker_service.redis.errors import PermissionDenied
from acker_service.redis.functions.apply import (
    FIND,
    REGISTER,
    Applied,
    ApplyFunction,
    ApplyLimits,
    Result,
    SpoutCheck,
    SpoutsNeeded,
)
from acker_service.redis.stamp import StaleStamp
from acker_service.topologies.registry import TopologyRegistry, retries
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import NOT_FOUND_AGAIN, UNREGISTERED, SpoutRegistry
from acker_service.topologies.topology import Deletion, Topology

_KNOWN_LIMITS = 128
"""So many limits of calls are kept; the bytes in them change with what Redis may take."""

ShardResults = dict[int, tuple[ShardPart, Applied]]
"""The parts of a request that have been applied, by shard."""


class Applier:
    """Applies requests, each shard's part in one atomic step.

    ``max_early`` bounds the early roots of a topology; each of its shards takes an equal part, as of all that
    `Backpressure` bounds.
    """

    def __init__(
        self,
        redis: RedisClient,
        registry: TopologyRegistry,
        shards: Shards,
        spouts: SpoutRegistry,
        backpressure: Backpressure,
        metrics: OperationMetrics,
        *,
        max_early: int,
    ) -> None:
        self._registry = registry
        self._spouts = spouts
        self._backpressure = backpressure
        self._metrics = metrics
        self._max_early = max_early
        self._known_limits: dict[tuple[int, int, int, int, SpoutCheck], ApplyLimits] = {}
        self._again: set[asyncio.Task[None]] = set()
        self.batcher = ApplyBatcher(redis)
        self.limiter = PendingLimiter(redis, shards)

    async def apply(self, topology: Topology, request: ApplyRequest) -> Reply:
        """Apply a request.

        If a shard refuses the stamp, read the topology again and apply that shard's part once more.

        Raises `StoreUnavailable` if a shard did not answer, or may not have applied its part; ``retryable`` says
        whether the request may be sent again: not where the login lacks a right.
        """
        waiting: Awaited[Reply] = Awaited()
        return await (waiting if self.begin(topology, request, waiting) else self._apply_to_shards(topology, request))

    def begin(self, topology: Topology, request: ApplyRequest, waiter: Waiter[Reply]) -> bool:
        """Apply a single operation that one call applies, which is sent together with others.

        ``waiter`` is given what `apply` would return or raise. False: it takes more than one call, or is none, and
        nothing was done.
        """
        if not request.is_single or topology.deletion is not None:
            return False
        own = self._at_once(topology, request)
        if own is None:
            return False
        shard = topology.layout.shard_of(request.single.root_id)
        function, limits = apply_function(self._backpressure), self._limits(topology, SpoutCheck.NONE)
        self.batcher.begin(topology, shard, function, limits, own, _Single(self, topology, request, waiter))
        return True

    def _at_once(self, topology: Topology, request: ApplyRequest) -> ShardRequest | None:
        """Encode a single operation that one call applies.

        None: it takes more than one call. That is so for an init whose spout task is capped, not known here, or may
        have a full mailbox.
        """
        operation = request.single
        if not isinstance(operation, Init):
            return request.single_shard_request(topology, 0)
        if topology.config.max_spout_pending is not None:
            return None
        index = self._spouts.cached_index(topology, operation.spout_task)
        if index is None or self._backpressure.was_full(topology, index):
            return None
        return request.single_shard_request(topology, index)

    def reply_to_single(self, topology: Topology, request: ApplyRequest, applied: Result) -> Reply:
        """Count an applied operation, and return the reply to its request."""
        assert isinstance(applied, Applied)  # every spout task is registered
        kind = KINDS[type(request.single)]
        if applied.replayed:
            self._metrics.repeated[topology.name, kind].inc()
        else:
            self._metrics.operations[topology.name, kind, STATES[applied.codes]].inc()
        return Reply(codes=applied.codes, replayed=applied.replayed)

    def apply_again(
        self,
        topology: Topology,
        request: ApplyRequest,
        stale: StaleStamp,
        waiter: Waiter[Reply],
        context: contextvars.Context,
    ) -> None:
        """Read a topology again whose shard refused its stamp, and give the waiter what applying results in then."""

        async def apply() -> None:
            try:
                reply = await self._apply_to_shards(await self._registry.refresh_after(topology, stale), request)
            except Exception as error:  # noqa: BLE001 - who waits gets the error
                waiter.set_exception(error)
            else:
                waiter.set_result(reply)

        task = asyncio.get_running_loop().create_task(apply(), context=context)
        self._again.add(task)
        task.add_done_callback(self._again.discard)

    async def _apply_to_shards(self, topology: Topology, request: ApplyRequest) -> Reply:
        """Apply a request shard by shard, as often as shards refuse its stamp."""
        results: ShardResults = {}
        try:
            for _ in retries(f"topology {topology.name}", shards=len(topology.shards)):
                if topology.deletion:
                    topology = await self._wait_until_admitted(topology, request)
                try:
                    await self._apply_remaining(topology, request, results)
                    break
                except StaleStamp as stale:
                    topology = await self._registry.refresh_after(topology, stale)
        except ServiceError as error:
            if results or isinstance(error, StoreUnavailable):
                raise request.result_unknown(error) from error
            raise
        finally:
            self._record(topology.name, request.operations, results)
        replayed = bool(results) and all(applied.replayed for _, applied in results.values())
        return Reply(codes=_codes_in_order(results, len(request.operations)), replayed=replayed)

    async def _wait_until_admitted(self, topology: Topology, request: ApplyRequest) -> Topology:
        """Wait until a deletion ends. A request with inits also waits while a deletion is only being considered.

        Raises `TopologyBusy` if the topology drains.
        """
        while topology.deletion is Deletion.DELETING or (topology.deletion and request.operations.spout_tasks):
            if topology.deletion is Deletion.DRAINING:
                raise TopologyBusy(f"topology {topology.name} is being deleted and takes no more inits")
            topology = await self._registry.wait_for_deletion(topology)
        return topology

    async def _apply_remaining(self, topology: Topology, request: ApplyRequest, results: ShardResults) -> None:
        """Apply the parts without a result; the results of other shards stay if one is stale. Raises `StaleStamp`.

        Spout tasks are registered only once a shard needs them: a repeat must not create one that was deleted. If roots
        change meanwhile, a shard may need more.
        """
        # rule: what may begin a root is refused when Redis has no memory
        function = apply_function(self._backpressure)
        spout_tasks = request.operations.spout_tasks
        indexes = await self._spouts.find(topology, spout_tasks) if spout_tasks else {}
        parts = request.operations.split(topology.layout, capped=topology.config.max_spout_pending is not None)
        for _ in retries(f"topology {topology.name}"):
            remaining = [part for part in parts if part.shard not in results]
            if _has_unregistered(indexes):
                registered = await self._register_needed(topology, request, remaining, function, indexes)
                indexes |= registered
                # rule: without memory for a spout task its inits are refused
                if UNREGISTERED in registered.values():  # there is no memory for them
                    function = functions.apply.apply_without_new_roots
            await self._apply_parts(topology, request, remaining, function, indexes, results)
            if all(part.shard in results for part in parts):
                return

    async def _register_needed(
        self,
        topology: Topology,
        request: ApplyRequest,
        parts: Sequence[ShardPart],
        function: ApplyFunction,
        indexes: Mapping[str, int],
    ) -> dict[str, int]:
        """Ask the shards which spout tasks without an index they need. Register those, and give their indexes."""
        requests, limits = request.shard_requests(parts, topology, indexes), self._limits(topology, SpoutCheck.ONLY)
        replies = await self.batcher.apply(topology, function, limits, requests)
        if errors := [reply for reply in replies if isinstance(reply, BaseException)]:
            raise _first_error(errors)
        new, missed = set[str](), set[str]()
        for part, reply in zip(parts, replies, strict=True):
            if isinstance(reply, SpoutsNeeded):
                # rule: a spout task is registered only if a shard needs it
                new |= request.operations.spout_tasks_of(reply.marked(REGISTER, part.apply_order))
                # rule: a spout task that was registered meanwhile is looked for again
                missed |= request.operations.spout_tasks_of(reply.marked(FIND, part.apply_order))
        found = await self._spouts.find(topology, missed - new) if missed - new else {}
        found = {name: NOT_FOUND_AGAIN if index == UNREGISTERED else index for name, index in found.items()}
        return found | (await self._spouts.ensure(topology, new) if new else {})

    async def _apply_parts(
        self,
        topology: Topology,
        request: ApplyRequest,
        parts: Sequence[ShardPart],
        function: ApplyFunction,
        indexes: Mapping[str, int],
        results: ShardResults,
    ) -> None:
        """Apply parts; one that needs a spout task which is not registered stays without a result."""
        full = await self._backpressure.full_mailboxes(topology, indexes.values()) if indexes else set[int]()
        limits = self._limits(topology, SpoutCheck.IF_NEEDED if _has_unregistered(indexes) else SpoutCheck.NONE)
        requests = request.shard_requests(parts, topology, indexes)
        if (topology.config.max_spout_pending is not None or full) and indexes:
            by_shard = {part.shard: part for part in parts}
            async for shard, result in self.limiter.apply(topology, indexes, requests, function, limits, full):
                if isinstance(result, Applied):
                    results[shard] = (by_shard[shard], result)
            return
        replies = await self.batcher.apply(topology, function, limits, requests)
        for part, reply in zip(parts, replies, strict=True):
            if isinstance(reply, Applied):
                results[part.shard] = (part, reply)
        if errors := [reply for reply in replies if isinstance(reply, BaseException)]:
            raise _first_error(errors)

    def _limits(self, topology: Topology, spouts: SpoutCheck) -> ApplyLimits:
        """Return the limits of a call on one shard; there are few, and every call has some."""
        shards, bounds = len(topology.shards), self._backpressure
        early, remembered = bounds.early_max_bytes, bounds.remembered_max_bytes
        known = (shards, early, remembered, bounds.remembered_max_bytes_if_full, spouts)
        limits = self._known_limits.get(known)
        if limits is None:
            limits = ApplyLimits(
                # rule: each shard takes an equal part of the early roots
                max_early=math.ceil(self._max_early / shards),
                # rule: each shard takes an equal part of the bytes of early roots
                max_early_bytes=early // shards,
                # rule: each shard takes an equal part of the bytes of what is remembered
                max_remembered=remembered // shards,
                # rule: each shard takes an equal part of the bytes up to which edges are remembered in a full store
                max_remembered_if_full=bounds.remembered_max_bytes_if_full // shards,
                spouts=spouts,
            )
            if len(self._known_limits) >= _KNOWN_LIMITS:
                self._known_limits.clear()
            self._known_limits[known] = limits
        return limits

    def _record(self, topology: str, operations: OperationBatch, results: ShardResults) -> None:
        """Count applied operations; count replayed ones in a separate metric."""
        for is_repeat in {applied.replayed for _, applied in results.values()}:
            parts = [(part, applied.codes) for part, applied in results.values() if applied.replayed is is_repeat]
            for kind, state, count in operations.count_by_kind_and_state(parts):
                if is_repeat:
                    self._metrics.repeated[topology, kind].inc(count)
                else:
                    self._metrics.operations[topology, kind, state].inc(count)


class _Single:
    """Waits for the result of a single operation, and gives its own waiter the reply."""

    __slots__ = ("_applier", "_context", "_request", "_topology", "_waiter")

    def __init__(self, applier: Applier, topology: Topology, request: ApplyRequest, waiter: Waiter[Reply]) -> None:
        self._applier = applier
        self._topology = topology
        self._request = request
        self._waiter = waiter
        self._context = contextvars.copy_context()

    def set_result(self, result: Result, /) -> None:
        try:
            reply = self._applier.reply_to_single(self._topology, self._request, result)
        except Exception as error:  # noqa: BLE001 - who waits gets the error
            self._waiter.set_exception(error)
        else:
            self._waiter.set_result(reply)

    def set_exception(self, error: BaseException, /) -> None:
        if isinstance(error, StaleStamp):
            self._applier.apply_again(self._topology, self._request, error, self._waiter, self._context)
            return
        if isinstance(error, StoreUnavailable):
            cause, error = error, self._request.result_unknown(error)
            error.__cause__ = cause
        self._waiter.set_exception(error)


def apply_function(backpressure: Backpressure) -> ApplyFunction:
    """Choose how requests are applied: Redis runs the call that begins no roots even when its memory is full."""
    # rule: a full store begins no roots, also without inits
    return functions.apply.apply_without_new_roots if backpressure.is_store_full else functions.apply.apply


def _codes_in_order(results: ShardResults, count: int) -> str:
    """Put the codes of all shards in the order of the request."""
    if count == 1:  # the most frequent request, which should not pay for an array
        [(_, applied)] = results.values()
        return applied.codes
    codes = np.zeros(count, np.uint8)
    for part, applied in results.values():
        codes[np.asarray(part.apply_order)] = np.frombuffer(applied.codes.encode(), np.uint8)
    return codes.tobytes().decode()


def _has_unregistered(indexes: Mapping[str, int]) -> bool:
    return max(indexes.values(), default=0) >= NOT_FOUND_AGAIN


def _first_error(errors: Sequence[BaseException]) -> BaseException:
    """Return the first error: a missing right before others, and a stale stamp, which is only retried, last."""
    kinds = (PermissionDenied, StoreUnavailable, ServiceError, BaseException)
    return next(error for kind in kinds for error in errors if isinstance(error, kind))
