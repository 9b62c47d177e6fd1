"""What a load needs: cores of Redis and of the service, shards and memory, from the costs of single operations.

The formulas are those of docs/capacity.md.
"""

import math
from dataclasses import dataclass

FINISHED_BYTES = 19.0
RETENTION_S = 60.0
SERVICE_US = 2.0
"""Processor time of the service for an operation in a packed batch of 1,000; less with larger batches."""
BUSY = 0.6
"""The share of a core to plan with: a Redis that is busier answers late."""
MEMORY_HEADROOM = 1.5
"""Redis needs room besides the data: fragmentation, buffers, a fork for a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCosts:
    """Microseconds of Redis's processor for an operation: an init, an ack that leaves a root pending, a last ack."""

    init_us: float
    ack_us: float
    last_ack_us: float

    def root_us(self, edges: int) -> float:
        """Give the cost of a root with so many edges, one or more, each acked by an operation of its own."""
        return self.init_us + (edges - 1) * self.ack_us + self.last_ack_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Roots a second of so many edges each, which are pending for so many seconds on the average."""

    roots_per_s: float
    edges: int
    pending_s: float

    @property
    def pending(self) -> float:
        """How many roots are pending at once (Little's law)."""
        return self.roots_per_s * self.pending_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a load needs: Redis servers of one core, shards at least, service processes, and bytes of memory in all."""

    redis_cores: float
    servers: int
    processes: int
    memory_bytes: float


def needs(load: Load, costs: OperationCosts, *, root_bytes: float) -> Needs:
    """Say what a load needs.

    ``servers`` is also the least number of shards (ackers) of the topology, since a shard is on one server.
    """
    redis_cores = load.roots_per_s * costs.root_us(load.edges) / 1e6
    service_cores = load.roots_per_s * (load.edges + 1) * SERVICE_US / 1e6
    finished = load.roots_per_s * RETENTION_S * FINISHED_BYTES
    return Needs(
        redis_cores=redis_cores,
        servers=max(1, math.ceil(redis_cores / BUSY)),
        processes=max(1, math.ceil(service_cores / BUSY)),
        memory_bytes=(load.pending * root_bytes + finished) * MEMORY_HEADROOM,
    )


def roots_per_s(costs: OperationCosts, *, edges: int) -> float:
    """Say how many roots a second of so many edges one Redis server carries."""
    return BUSY * 1e6 / costs.root_us(edges)
