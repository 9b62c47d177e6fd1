"""Measures how batches come from bytes to the arguments of the call to Redis.

The packed form and JSON, beside the reference codec, which decodes and encodes one operation after the other.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from acker_protocol.operations import Ack, Fail, Init, Operation
from acker_protocol.wire.operations import encode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.http.parameters import JSON
from acker_service.operations import decoding
from acker_service.operations.request import ApplyRequest
from acker_service.redis.codec import encode_operation
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.topology import Topology

from bench.measure import Series
from bench.progress import Progress
from bench.sizes import BATCH, Sizes
from bench.table import Line

GROUP = "decoding"
TIMES = 5
"""Each way so many times in a round."""
TOPOLOGY = Topology(name="bench", stamp=Stamp("0" * 26), config=TopologyConfig(), window_ms=600_000)
SPOUT_TASKS = {f"orders-{number}": number for number in range(3)}


def compact_acks() -> list[Operation]:
    """Acks that carry the XOR only."""
    return [Ack(root_id=_id(), ack_val=_id(), outstanding=1) for _ in range(BATCH)]


def acks_of_edges() -> list[Operation]:
    """Acks that name their edge, for a topology that dedupes."""
    return [Ack(root_id=_id(), ack_val=_id(), outstanding=1, edge_id=_id()) for _ in range(BATCH)]


def trees() -> list[Operation]:
    """Inits with message ids, and the acks of the same roots with parts."""
    inits = _inits(BATCH // 2)
    return [*inits, *(Ack(root_id=init.root_id, ack_val=_id(), outstanding=0, component="split") for init in inits)]


def inits_with_timeouts() -> list[Operation]:
    """Inits with message ids and a message timeout of their own."""
    return [*_inits(BATCH, message_timeout_ms=60_000)]


def fails() -> list[Operation]:
    """Fails with a reason."""
    return [Fail(root_id=_id(), reason=f"order {number} is late") for number in range(BATCH)]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Iterator[Line]:  # noqa: ARG001 - all modules are called so
    """Measure rounds of all, the ways in turns."""
    for make in progress.over((compact_acks, acks_of_edges, trees, inits_with_timeouts, fails)):
        taken = _measure(make(), sizes.rounds)
        kind, reference = make.__name__.replace("_", " "), taken["JSON, reference codec"]
        for way in ("packed", "JSON"):
            yield Line(
                group=GROUP,
                what=f"decoding {BATCH:,} {kind}, {way}",
                unit="CPU µs",
                measured=taken[way],
                beside="JSON, reference codec",
                base=reference,
            )


def _measure(messages: Sequence[Operation], rounds: int) -> dict[str, Series]:
    packed, json = encode_packed(messages), encode_batch(messages)
    ways: dict[str, Callable[[], None]] = {
        "packed": partial(_make_arguments, CONTENT_TYPE, packed),
        "JSON": partial(_make_arguments, JSON, json),
        "JSON, reference codec": partial(_encode_each, json),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(min(_once(way) for _ in range(TIMES)))
    return {name: Series.of(values) for name, values in taken.items()}


def _once(way: Callable[[], None]) -> float:
    began = time.thread_time()
    way()
    return (time.thread_time() - began) * 1e6


def _make_arguments(content_type: str, body: bytes) -> None:
    operations = decoding.decode(content_type, body, max_operations=BATCH)
    request = ApplyRequest(endpoint="batch", operations=operations, key="key")
    parts = operations.split(TOPOLOGY.layout, capped=False)
    request.shard_requests(parts, TOPOLOGY, SPOUT_TASKS)


def _encode_each(body: bytes) -> None:
    for operation in decoding.decode_json_batch(body, max_operations=BATCH):
        encode_operation(operation, TOPOLOGY.layout, SPOUT_TASKS.__getitem__)


def _inits(count: int, message_timeout_ms: int | None = None) -> list[Init]:
    return [
        Init(
            root_id=_id(),
            ack_val=_id(),
            outstanding=1,
            spout_task=f"orders-{number % 3}",
            message_id=f"order {number}",
            message_timeout_ms=message_timeout_ms,
        )
        for number in range(count)
    ]


def _id() -> int:
    return random.getrandbits(64) or 1
