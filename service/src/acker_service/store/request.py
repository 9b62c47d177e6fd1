"""Knows a request: operations that came together, and how its parts are packed for their shards."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from acker_protocol.messages import Ack, Init

from acker_service.domain.columns import Columns, Operations, holds
from acker_service.domain.routing import Indexes, Part
from acker_service.store import packing
from acker_service.store.rows import Rows
from acker_service.store.topology import Topology
from acker_service.store.turns import Packed

Take = Callable[[Indexes], bytes]
"""Gives the packed operations of these indexes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Operations that came together: to one endpoint, under one idempotency key (None: none)."""

    endpoint: str
    messages: Operations
    key: str | None = None

    @property
    def spout_tasks(self) -> set[str]:
        """The spout tasks that its inits name."""
        if isinstance(self.messages, Columns):
            return set(self.messages.spout_tasks)
        return {message.spout_task for message in self.messages if isinstance(message, Init)}

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again when its fate is unknown: with a key, or if it holds no ack."""
        return self.key is not None or not holds(self.messages, Ack)

    def pack(self, parts: Iterable[Part], topology: Topology, indexes: Mapping[str, int]) -> dict[int, Packed]:
        """Pack parts of it, by shard; ``indexes`` are those of its spout tasks."""
        take = self._rows(topology, indexes)
        if self.key is None:
            return {part.shard: Packed(operations=take(part.order)) for part in parts}
        lasting = self._rows(topology, {name: packing.number(name) for name in indexes}) if indexes else take
        return {
            part.shard: Packed(operations=take(part.order), identity=self._identify(lasting(part.given), topology))
            for part in parts
        }

    def _identify(self, given: bytes, topology: Topology) -> tuple[str, str, str]:
        """Name what goes to a shard, by the names of its spout tasks: a repeat may find them under other indexes."""
        assert self.key is not None
        return packing.identify(self.endpoint, self.key, given, sets=topology.seen_sets)

    def _rows(self, topology: Topology, indexes: Mapping[str, int]) -> Take:
        if isinstance(self.messages, Columns):
            return Rows(self.messages, topology.layout, indexes).take
        rows = [packing.pack(message, topology.layout, indexes.__getitem__) for message in self.messages]
        return lambda order: b"".join([rows[index] for index in order])
