"""Knows a request: operations that came together, and how its parts are packed for their shards."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from acker_protocol.operations import Ack, Init

from acker_service.operations.batcher import ShardRequest
from acker_service.operations.column_batch import ColumnBatch, Operations, contains
from acker_service.operations.routing import Indexes, ShardPart
from acker_service.redis import codec
from acker_service.redis.column_codec import ColumnEncoder
from acker_service.topologies.stamp import Topology

EncodeRows = Callable[[Indexes], bytes]
"""Gives the packed operations of these indexes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """Operations that came together: to one endpoint, under one idempotency key (None: none)."""

    endpoint: str
    operations: Operations
    key: str | None = None

    @property
    def spout_tasks(self) -> set[str]:
        """The spout tasks that its inits name."""
        if isinstance(self.operations, ColumnBatch):
            return set(self.operations.spout_tasks)
        return {message.spout_task for message in self.operations if isinstance(message, Init)}

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again when its fate is unknown: with a key, or if it holds no ack."""
        return self.key is not None or not contains(self.operations, Ack)

    def shard_requests(
        self, parts: Iterable[ShardPart], topology: Topology, indexes: Mapping[str, int]
    ) -> dict[int, ShardRequest]:
        """Pack parts of it, by shard; ``indexes`` are those of its spout tasks."""
        take = self._row_encoder(topology, indexes)
        if self.key is None:
            return {part.shard: ShardRequest(operations=take(part.apply_order)) for part in parts}
        lasting = self._row_encoder(topology, {name: codec.name_hash(name) for name in indexes}) if indexes else take
        return {
            part.shard: ShardRequest(
                operations=take(part.apply_order), fingerprint=self._fingerprint(lasting(part.request_order), topology)
            )
            for part in parts
        }

    def _fingerprint(self, given: bytes, topology: Topology) -> tuple[str, str, str]:
        """Name what goes to a shard, by the names of its spout tasks: a repeat may find them under other indexes."""
        assert self.key is not None
        return codec.fingerprint(self.endpoint, self.key, given, sets=topology.seen_sets)

    def _row_encoder(self, topology: Topology, indexes: Mapping[str, int]) -> EncodeRows:
        if isinstance(self.operations, ColumnBatch):
            return ColumnEncoder(self.operations, topology.layout, indexes).encode
        rows = [codec.encode_operation(message, topology.layout, indexes.__getitem__) for message in self.operations]
        return lambda order: b"".join([rows[index] for index in order])
