"""What a load needs: servers of Redis, processes of the acker, shards and memory, from the costs of single operations.

The formulas are those of docs/capacity.md; `bench.capacity` fits `GROWTH` to measurements and checks it.
"""

import math
from dataclasses import dataclass, replace

from acker_service.topologies.config import BUCKETS

FINISHED_BYTES = 20.0
RETENTION_S = 60.0
BATCH = 1_000
"""How many operations a batch has whose costs are measured."""
SERVICE_US = 0.8
"""Processor time of the service for an operation in a packed batch.

With `SERVICE_BATCH_US` 1.5 µs in batches of 1,000. How that divides was measured in one run with acks by 10, 100 and
1,000, on a machine three times as fast: 0.26 µs an operation and 220 µs a batch.
"""
SERVICE_BATCH_US = 700.0
"""Processor time of the service for a packed batch besides its operations."""
SHARDS = 4
"""How many shards a topology has that was made without a word about it."""
BUSY = 0.6
"""The share of a core to plan with: a Redis that is busier answers late."""
MEMORY_HEADROOM = 1.5
"""Redis needs room besides the data: fragmentation, buffers, a fork for a snapshot."""
SPARE_PROCESSES = 1
"""So many processes of the acker may be down."""
FEWEST = 10_000.0
"""With fewer roots pending on one server, operations get no cheaper."""
GROWTH = (0.3, 0.25, 0.3)
"""What each tenfold of pending roots adds to an init, an ack and a last ack, as shares of their costs at `FEWEST`."""
FORGET = 0.3
"""What the tick takes to forget a finished root, as a share of a last ack with as many roots pending."""
SET_BYTES, EDGE_BYTES, MOST_OF_A_SMALL_SET, EDGE_BYTES_OF_A_LARGE_SET = 224, 10, 512, 80
"""What Redis is counted to take for remembered edges, as in lua/remembered.lua."""
REMEMBERED_HEADROOM = 4.5
"""The maxmemory of each server as a multiple of what edges take: roots begin up to nine tenths of a quarter of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCosts:
    """Microseconds of Redis's processor for an operation: an init, an ack that leaves a root pending, a last ack.

    They hold with ``pending`` roots pending on the server, in batches of `BATCH`. ``call_us`` is what a call takes
    besides its operations: the smaller a batch is, the fewer of them share one.
    """

    init_us: float
    ack_us: float
    last_ack_us: float
    pending: float = FEWEST
    call_us: float = 0.0

    def root_us(self, edges: int, *, batch: int = BATCH, shards: int = SHARDS) -> float:
        """Return the cost of a root with so many edges, one or more, each acked by an operation of its own.

        ``batch`` operations come together, for so many shards.
        """
        calls = calls_of(batch, shards) / batch - calls_of(BATCH, SHARDS) / BATCH
        operations = self.init_us + (edges - 1) * self.ack_us + self.last_ack_us * (1 + FORGET)
        return operations + (edges + 1) * max(0.0, calls) * self.call_us

    def at(self, pending: float) -> "OperationCosts":
        """Return the costs with another number of roots pending on the server."""
        init, ack, last = (
            us * (1 + growth * _tenfolds(pending)) / (1 + growth * _tenfolds(self.pending))
            for us, growth in zip((self.init_us, self.ack_us, self.last_ack_us), GROWTH, strict=True)
        )
        return replace(self, init_us=init, ack_us=ack, last_ack_us=last, pending=pending)


def calls_of(batch: int, shards: int) -> float:
    """Return to how many shards the operations of a batch go, on the average: each to any of them."""
    return shards * (1 - (1 - 1 / shards) ** batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Roots a second of so many edges each, which are pending for so many seconds on the average.

    ``window_s`` is the dedupe window of their topology, in which acked edges are remembered; 0: it has none.
    ``batch`` operations come in a request.
    """

    roots_per_s: float
    edges: int
    pending_s: float
    window_s: float = 30.0
    batch: int = BATCH

    @property
    def pending(self) -> float:
        """How many roots are pending at once (Little's law)."""
        return self.roots_per_s * self.pending_s

    @property
    def outcomes(self) -> float:
        """How many outcomes are stored at most.

        Those of two retentions have to be kept. The expired ones are removed when they are as many as what has to be
        kept at that time: all pending roots, and the outcomes of one retention.
        """
        return self.pending + 3 * self.roots_per_s * RETENTION_S

    def remembered_bytes(self, shards: int) -> float:
        """Return what the edges take that are remembered: those of two windows, in sets over all buckets."""
        edges = self.roots_per_s * self.edges * self.window_s
        if not edges:
            return 0.0
        sets = min(2 * shards * BUCKETS, edges)
        each = EDGE_BYTES if edges / sets <= MOST_OF_A_SMALL_SET else EDGE_BYTES_OF_A_LARGE_SET
        return 2 * (edges * each + sets * SET_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What a load needs: Redis servers of one core, service processes, and bytes of memory in all.

    ``servers`` is also the least number of shards (ackers) of the topology, since a shard is on one server.
    ``redis_cores`` is what Redis uses of that many servers, ``service_cores`` likewise; ``processes`` has the spare.
    ``maxmemory_bytes`` is what each server may not have less of: the bound on what a topology remembers is a part of
    the smallest maxmemory, however many servers there are.
    """

    redis_cores: float
    servers: int
    service_cores: float
    processes: int
    memory_bytes: float
    maxmemory_bytes: float


def needs(load: Workload, costs: OperationCosts, *, root_bytes: float) -> Requirement:
    """Return what a load needs, with the costs of one server."""
    servers = max(1, math.ceil(_redis_cores(load, costs, 1) / BUSY))
    while servers > 1 and _redis_cores(load, costs, servers - 1) <= BUSY * (servers - 1):
        servers -= 1  # fewer roots on each make operations cheaper
    service_cores = load.roots_per_s * (load.edges + 1) * _service_us(load.batch) / 1e6
    remembered = load.remembered_bytes(servers)
    memory = (load.pending * root_bytes + load.outcomes * FINISHED_BYTES + remembered) * MEMORY_HEADROOM
    return Requirement(
        redis_cores=_redis_cores(load, costs, servers),
        servers=servers,
        service_cores=service_cores,
        processes=max(1, math.ceil(service_cores / BUSY)) + SPARE_PROCESSES,
        memory_bytes=memory,
        maxmemory_bytes=max(memory / servers, remembered * REMEMBERED_HEADROOM),
    )


def roots_per_s(costs: OperationCosts, *, edges: int) -> float:
    """Return how many roots a second of so many edges one Redis server carries."""
    return BUSY * 1e6 / costs.root_us(edges)


def service_roots_per_s(*, edges: int) -> float:
    """Return how many roots a second of so many edges one process of the acker carries, in packed batches of 1,000."""
    return BUSY * 1e6 / ((edges + 1) * _service_us(BATCH))


def _redis_cores(load: Workload, costs: OperationCosts, servers: int) -> float:
    each = costs.at(load.pending / servers)
    return load.roots_per_s * each.root_us(load.edges, batch=load.batch, shards=max(SHARDS, servers)) / 1e6


def _service_us(batch: int) -> float:
    return SERVICE_US + SERVICE_BATCH_US / batch


def _tenfolds(pending: float) -> float:
    return math.log10(max(FEWEST, pending) / FEWEST)
