"""Knows how one root stands, and what an operator may do to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acker_protocol.operations import Outcome

from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import codec
from acker_service.redis.codec import OperationResult
from acker_service.redis.node import Argument
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import SpoutRegistry
from acker_service.topologies.stamp import Topology

FORCED_FAIL = "forced_fail"
"""The kind of operation under which metrics count the fails of an operator."""

ROOT_FIELDS = 7
"""With so many values Lua shows an early or pending root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootView:
    """One root as it stands. ``state`` is N (unknown), E (early), P (pending) or F (finished, with its outcome).

    ``spout_task`` is None where none is known: of an early root, and of one whose spout task was removed.
    """

    root_id: int
    state: str
    now_ms: int
    outcome: Outcome | None = None
    ack_val: int = 0
    outstanding: int | None = None
    started_ms: int = 0
    due_ms: int = 0
    spout_task: str | None = None
    message_id: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether nothing more can happen to it: it is neither early nor pending."""
        return self.state not in "EP"


class RootReader:
    """Reads roots, and fails them for an operator."""

    def __init__(self, shards: Shards, spouts: SpoutRegistry, meters: OperationMetrics) -> None:
        self._shards, self._spouts, self._meters = shards, spouts, meters

    async def read(self, topology: Topology, root_id: int) -> RootView:
        """Read one root."""
        topology, (now, state, *rest) = await self._ask(topology, "acker_read_root_v1", root_id)
        if state == b"N":
            return RootView(root_id=root_id, state="N", now_ms=now)
        if state == b"F":
            return RootView(root_id=root_id, state="F", now_ms=now, outcome=codec.OUTCOMES[rest[0].decode()])
        spout = await self._spouts.names(topology, {rest[5]}) if state == b"P" else {}
        return decode_root(rest, state.decode(), now, spout)

    async def force_fail(self, topology: Topology, root_id: int, reason: str) -> OperationResult | None:
        """Fail a root that is known, also an early one; gives what a fail is answered, None for an unknown root."""
        _, [word] = await self._ask(topology, "acker_force_fail_v1", root_id, reason)
        if word == b"N":
            return None
        answer = codec.RESULTS[word.decode()]
        self._meters.operations[topology.name, FORCED_FAIL, answer.state.value].inc()
        return answer

    async def _ask(
        self, topology: Topology, function: str, root_id: int, *args: Argument
    ) -> tuple[Topology, list[Any]]:
        shard, bucket = topology.layout.shard_of(root_id), topology.layout.bucket_of(root_id)
        where = (topology.settings, bucket, root_id.to_bytes(8, "big"))
        return await self._shards.call(topology, function, shard, *where, *args)


def decode_root(shown: Sequence[Any], state: str, now_ms: int, names: dict[int, str]) -> RootView:
    """Read an early or pending root as Lua shows it; ``names`` are those of the spout tasks by index."""
    root_id, ack_val, outstanding, started, due, spout, message_id = shown
    return RootView(
        root_id=int.from_bytes(root_id, "big"),
        state=state,
        now_ms=now_ms,
        ack_val=int.from_bytes(ack_val, "big"),
        outstanding=None if outstanding == b"" else outstanding,
        started_ms=started,
        due_ms=due,
        spout_task=names.get(spout) or None,
        message_id=None if message_id is None else message_id.decode(),
    )
