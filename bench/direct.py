"""Calls the function library on Redis directly, with the very bytes that the service would send."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import redis
from acker_service.components import Components
from acker_service.operations.column_batch import ColumnBatch
from acker_service.operations.request import ApplyRequest
from acker_service.redis import functions
from acker_service.redis.codec import ShardRequest, fingerprint
from acker_service.redis.functions.apply import ApplyLimits
from acker_service.topologies.config import ROOTS_PER_BUCKET, TopologyConfig
from acker_service.topologies.topology import Topology

from bench.servers import Member, until
from bench.sizes import BATCH
from bench.trees import SPOUT_TASK, batches

WEEK_MS = 7 * 86_400_000
DAY_MS = 86_400_000

Some = TypeVar("Some", bytes, list[bytes], list[ShardRequest])

Call = tuple[str | bytes | int, ...]
"""One FCALL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What calls took: seconds, and of Redis's processor."""

    wall_s: float
    redis_s: float


class Direct:
    """One topology on one server."""

    def __init__(self, server: Member, topology: Topology, indexes: Mapping[str, int]) -> None:
        self._server = server
        self.topology = topology
        self._indexes = indexes
        self.redis = redis.Redis(port=server.port, socket_timeout=60)

    def prepare(self, columns: ColumnBatch) -> list[list[Call]]:
        """Pack operations for a list of batches, each of which is one call a shard."""
        return [self.calls(self._packed(batch)) for batch in batches(columns)]

    def prepare_keyed(self, columns: ColumnBatch) -> Iterator[list[Call]]:
        """Pack operations as requests of their own, each under its own idempotency key, a batch of them in a call."""
        for shard, part in self._packed(columns).items():
            size = len(part.operations) // sum(columns.records["root_id"] % self.topology.layout.shards == shard)
            requests = [self._keyed(row) for row in _chunks(part.operations, size)]
            yield from ([self.call(shard, some)] for some in _chunks(requests, BATCH))

    def calls(self, packed: Mapping[int, ShardRequest]) -> list[Call]:
        """Write one call for each shard."""
        return [self.call(shard, [part]) for shard, part in packed.items()]

    def call(self, shard: int, requests: Iterable[ShardRequest]) -> Call:
        """Write a call that applies requests to one shard."""
        call = functions.apply.apply(self.topology.settings, b"", ApplyLimits(), list(requests))
        return call.at(self.topology.shards[shard], self.topology.stamp).command

    def run(self, prepared: Iterable[Sequence[Call]], word: str) -> Taken:
        """Make the calls, those of a batch in one round trip; every operation has to be answered this word."""
        began, cpu = time.perf_counter(), self._server.cpu_s()
        for calls in prepared:
            for reply in self._pipe(calls):
                _check(reply, word)
        return Taken(wall_s=time.perf_counter() - began, redis_s=self._server.cpu_s() - cpu)

    def used_memory(self) -> int:
        """Return the bytes Redis uses but for connections, once it has freed what was removed, in the background."""
        until(lambda: self.redis.info("memory")["lazyfree_pending_objects"] == 0, "all is freed", within=60)
        memory = self.redis.info("memory")
        return int(memory["used_memory"]) - int(memory["mem_clients_normal"])

    def forget(self, kind: str | None = None, *, match: str = "*") -> None:
        """Remove all keys of a type of Redis's, or whose name matches a pattern."""
        for names in _chunks(list(self.redis.scan_iter(match, _type=kind, count=10_000)), 1_000):
            self.redis.delete(*names)

    def close(self) -> None:
        """Let go of the server."""
        self.redis.close()

    def _keyed(self, row: bytes) -> ShardRequest:
        return ShardRequest(
            operations=row, fingerprint=fingerprint("ack", row.hex(), row, sets=self.topology.seen_sets)
        )

    def _packed(self, batch: ColumnBatch) -> dict[int, ShardRequest]:
        parts = batch.split(self.topology.layout, capped=False)
        return ApplyRequest(endpoint="batch", operations=batch).shard_requests(parts, self.topology, self._indexes)

    def _pipe(self, calls: Sequence[Call]) -> list[Any]:
        pipe = self.redis.pipeline(transaction=False)
        for call in calls:
            pipe.execute_command(*call)
        return list(pipe.execute())


def make(server: Member, configuration: TopologyConfig, *, name: str = "direct") -> Direct:
    """Make a topology whose requests are remembered for a week, and its spout task, on one server."""
    topology, index = asyncio.run(_make(server.url, name, configuration))
    return Direct(server, topology, {SPOUT_TASK: index})


def buckets_for(roots: int, *, ackers: int) -> int:
    """Return how many buckets a shard needs for so many roots to be kept at their cheapest."""
    return max(1, roots // ackers // ROOTS_PER_BUCKET)


async def _make(url: str, name: str, configuration: TopologyConfig) -> tuple[Topology, int]:
    parts = Components(url, window_ms=WEEK_MS)
    try:
        await parts.redis.load()
        topology = await parts.registry.create_or_update(name, lambda _: configuration)
        spout, _ = await parts.spouts.create_or_update(topology, SPOUT_TASK)
        return topology, spout.index
    finally:
        await parts.close()


def _check(reply: Any, word: str) -> None:
    """See that every operation of a call was answered this word, and none was a repeat."""
    assert reply[0] == b"ok", reply[0]
    for words in reply[2:]:
        assert words[:1] == b"+", words[:1]
        assert words.count(word.encode()) == len(words) - 1, f"not all answered {word}: {words[:50]}"


def _chunks(whole: Some, size: int) -> Iterator[Some]:
    return (whole[at : at + size] for at in range(0, len(whole), size))
