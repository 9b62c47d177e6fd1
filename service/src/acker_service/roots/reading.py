"""Reads single roots, and fails them for an operator."""

from collections.abc import Sequence
from dataclasses import dataclass

from acker_protocol.operations import Outcome

from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import codec, functions
from acker_service.redis.codec import CodeResult
from acker_service.redis.functions.failures import FailureRecord
from acker_service.redis.functions.roots import RootRecord, RootState, StateReply
from acker_service.roots.failures import FailureReader
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import SpoutRegistry
from acker_service.topologies.topology import Topology

FORCED_FAIL = "forced_fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootView:
    """One root at ``now_ms``; times in Unix milliseconds. A finished root has an outcome.

    ``spout_task`` is None for an early root, and for a root whose spout task was deleted; ``outstanding`` is None while
    it is unknown. ``acks`` is None for a root without details. ``failure`` is how a finished root failed or timed out,
    while the list of failures has it.
    """

    root_id: int
    state: RootState
    now_ms: int
    outcome: Outcome | None = None
    ack_val: int = 0
    outstanding: int | None = None
    started_ms: int = 0
    due_ms: int = 0
    spout_task: str | None = None
    message_id: str | None = None
    failure: FailureRecord | None = None
    last_ack_ms: int | None = None
    last_component: str | None = None
    acks: int | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the root can no longer change: it is neither early nor pending."""
        return self.state not in (RootState.EARLY, RootState.PENDING)


class RootReader:
    """Reads roots, and fails them for an operator."""

    def __init__(
        self, shards: Shards, spouts: SpoutRegistry, failures: FailureReader, metrics: OperationMetrics
    ) -> None:
        self._shards = shards
        self._spouts = spouts
        self._failures = failures
        self._metrics = metrics

    async def read(self, topology: Topology, root_id: int) -> RootView:
        """Read one root."""
        layout = topology.layout
        call = functions.roots.read_root(settings=topology.settings, bucket=layout.bucket_of(root_id), root_id=root_id)
        topology, reply = await self._shards.call(topology, layout.shard_of(root_id), call)
        if reply.record is None:
            has_failed = reply.outcome in (Outcome.FAILED, Outcome.TIMED_OUT)
            return RootView(
                root_id=root_id,
                state=reply.state,
                now_ms=reply.now_ms,
                outcome=reply.outcome,
                failure=await self._failures.find(topology, root_id) if has_failed else None,
            )
        indexes = {reply.record.spout_index} if reply.state is RootState.PENDING else set[int]()
        names = await self._spouts.names(topology, indexes) if indexes else {}
        return view_record(reply.record, reply.state, reply.now_ms, names)

    async def read_states(self, topology: Topology, root_ids: Sequence[int]) -> list[StateReply]:
        """Read the states of roots, in their order, with one call on each shard that has any of them."""
        layout = topology.layout
        by_shard: dict[int, dict[int, None]] = {}
        for root_id in root_ids:
            by_shard.setdefault(layout.shard_of(root_id), {})[root_id] = None
        calls = []
        for shard, own in by_shard.items():
            with_buckets = [(layout.bucket_of(root_id), root_id) for root_id in own]
            calls.append((shard, functions.roots.read_states(with_buckets, settings=topology.settings)))
        _, replies = await self._shards.call_at(topology, calls)
        found: dict[int, StateReply] = {}
        for roots, states in zip(by_shard.values(), replies, strict=True):
            found.update(zip(roots, states, strict=True))
        return [found[root_id] for root_id in root_ids]

    async def force_fail(self, topology: Topology, root_id: int, reason: str) -> CodeResult | None:
        """Fail a root, also an early one, and return the result of the fail, None for an unknown root."""
        layout = topology.layout
        call = functions.roots.force_fail(
            settings=topology.settings, bucket=layout.bucket_of(root_id), root_id=root_id, reason=reason
        )
        _, code = await self._shards.call(topology, layout.shard_of(root_id), call)
        if code is None:
            return None
        result = codec.RESULTS[code]
        self._metrics.operations[topology.name, FORCED_FAIL, result.state.value].inc()
        return result


def view_record(record: RootRecord, state: RootState, now_ms: int, names: dict[int, str]) -> RootView:
    """View an early or pending root; ``names`` are the names of spout tasks by index."""
    return RootView(
        root_id=record.root_id,
        state=state,
        now_ms=now_ms,
        ack_val=record.ack_val,
        outstanding=record.outstanding,
        started_ms=record.started_ms,
        due_ms=record.due_ms,
        spout_task=names.get(record.spout_index) or None,
        message_id=record.message_id,
        last_ack_ms=record.last_ack_ms,
        last_component=record.last_component,
        acks=record.acks,
    )
