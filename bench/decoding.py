"""Compares how batches of 1,000 operations come from bytes to the arguments of the call to Redis, in one run.

Three ways: the packed form and JSON by the fast decoders, JSON by the reference codec. Processor time, medians; the
ratios are what to look at, since they hold on any machine.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence

from acker_protocol.messages import Ack, Init, Message
from acker_protocol.wire.operations import encode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.api import decoders
from acker_service.api.bodies import JSON
from acker_service.domain.columns import Operations
from acker_service.domain.limits import Configuration
from acker_service.domain.routing import split
from acker_service.store.request import Request
from acker_service.store.topology import Topology

OPERATIONS = 1_000
TIMES = 25
TOPOLOGY = Topology(name="bench", pair="0" * 26, configuration=Configuration(), window_ms=600_000)
SPOUT_TASKS = {f"orders-{number}": number for number in range(3)}


def compact_acks() -> list[Message]:
    """Acks that are told the XOR only."""
    return [Ack(root_id=_id(), ack_val=_id(), outstanding=1) for _ in range(OPERATIONS)]


def acks_of_edges() -> list[Message]:
    """Acks that name their edge, for a topology that dedupes."""
    return [Ack(root_id=_id(), ack_val=_id(), outstanding=1, edge_id=_id()) for _ in range(OPERATIONS)]


def trees() -> list[Message]:
    """Inits with message ids, and the acks of the same roots with components."""
    roots = [_id() for _ in range(OPERATIONS // 2)]
    inits: list[Message] = [
        Init(
            root_id=root, ack_val=_id(), outstanding=1, spout_task=f"orders-{number % 3}", message_id=f"order {number}"
        )
        for number, root in enumerate(roots)
    ]
    return inits + [Ack(root_id=root, ack_val=_id(), outstanding=0, component="split") for root in roots]


def measure(messages: Sequence[Message]) -> dict[str, float]:
    """Give the microseconds of each way, taken in turns."""
    packed, json = encode_packed(messages), encode_batch(messages)
    ways: dict[str, Callable[[], Operations]] = {
        "packed fast": lambda: decoders.decode(CONTENT_TYPE, packed, most=OPERATIONS),
        "JSON fast": lambda: decoders.decode(JSON, json, most=OPERATIONS),
        "JSON reference": lambda: decoders.decode_json_batch(json, most=OPERATIONS),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TIMES):
        for name, decode in ways.items():
            began = time.thread_time()
            _arguments(decode())
            taken[name].append((time.thread_time() - began) * 1e6)
    return {name: statistics.median(times) for name, times in taken.items()}


def _arguments(operations: Operations) -> None:
    request = Request(endpoint="batch", messages=operations, key="key")
    parts = split(operations, shards=TOPOLOGY.layout.shards, capped=None)
    request.pack(parts, TOPOLOGY, SPOUT_TASKS)


def _id() -> int:
    return random.getrandbits(64) or 1


if __name__ == "__main__":
    for make in (compact_acks, acks_of_edges, trees):
        measured = measure(make())
        fastest = min(measured.values())
        told = " : ".join(f"{name} {taken / fastest:.1f} ({taken:.0f} µs)" for name, taken in measured.items())
        print(f"{make.__name__.replace('_', ' ')}: {told}")
