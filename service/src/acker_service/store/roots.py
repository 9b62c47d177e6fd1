"""Knows how one root stands."""

from dataclasses import dataclass
from typing import Any

from acker_protocol.messages import Outcome

from acker_service.domain.routing import bucket_of, shard_of
from acker_service.store import packing
from acker_service.store.spouts import Spouts
from acker_service.store.topologies import Topologies
from acker_service.store.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One root as it stands. ``state`` is N (unknown), E (early), P (pending) or F (finished, with its outcome)."""

    state: str
    now_ms: int
    outcome: Outcome | None = None
    ack_val: int = 0
    outstanding: int | None = None
    started_ms: int = 0
    due_ms: int = 0
    spout_task: str | None = None
    message_id: str | None = None


class Roots:
    """Reads roots."""

    def __init__(self, topologies: Topologies, spouts: Spouts) -> None:
        self._topologies, self._spouts = topologies, spouts

    async def read(self, topology: Topology, root_id: int) -> Root:
        """Read one root."""
        shards, buckets = topology.layout.shards, topology.layout.buckets
        shard, bucket = shard_of(root_id, shards), bucket_of(root_id, shards, buckets)
        args = (topology.settings, bucket, root_id.to_bytes(8, "big"))
        topology, reply = await self._topologies.ask(topology, "acker_read_root_v1", shard, *args)
        return await self._root(topology, reply)

    async def _root(self, topology: Topology, reply: list[Any]) -> Root:
        now, state = reply[0], reply[1].decode()
        if state == "N":
            return Root(state=state, now_ms=now)
        if state == "F":
            return Root(state=state, now_ms=now, outcome=packing.OUTCOMES[reply[2].decode()])
        ack_val, outstanding, started, due, spout, message_id = reply[2:]
        return Root(
            state=state,
            now_ms=now,
            ack_val=int.from_bytes(ack_val, "big"),
            outstanding=None if outstanding == b"" else outstanding,
            started_ms=started,
            due_ms=due,
            spout_task=await self._spouts.named(topology, spout) if state == "P" else None,
            message_id=None if message_id is None else message_id.decode(),
        )
