"""Measures a Redis for ``acker bench``: what operations take of its processor, and bytes for a root.

All it writes is under the keys of a topology of its own, which is deleted at the end, also after an error; an empty
Redis keeps the number of the layout.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from acker_protocol.errors import StoreUnavailable
from acker_protocol.wire import packed

from acker_service.components import Components
from acker_service.operations.column_batch import RECORDS, ColumnBatch
from acker_service.operations.request import ApplyRequest
from acker_service.redis import functions
from acker_service.redis.column_codec import EncodedStrings
from acker_service.sizing.capacity import (
    BATCH,
    SHARDS,
    OperationCosts,
    Requirement,
    Workload,
    calls_of,
    needs,
    roots_per_s,
    service_roots_per_s,
)
from acker_service.topologies.config import ROOTS_PER_BUCKET, TopologyConfig
from acker_service.topologies.deletion import DeleteMode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from acker_service.topologies.topology import Topology

TOPOLOGY_PREFIX = "acker-bench-"
SPOUT_TASK = "bench"
SMALL_BATCH = 10
"""How many operations a small batch has: it shows what a call takes besides."""
PINGS = 100
IDLE_S = 1.0
MESSAGE_TIMEOUT_MS = 3_600_000
WINDOW_MS = 600_000
SHOWN_EDGES = (1, 2, 10)
SHOWN_LOADS = (
    Workload(roots_per_s=1_000, edges=10, pending_s=30),
    Workload(roots_per_s=10_000, edges=10, pending_s=30),
    Workload(roots_per_s=50_000, edges=10, pending_s=60, window_s=60),
    Workload(roots_per_s=50_000, edges=2, pending_s=2_000, window_s=0),
)
PHASES = ("inits", "acks", "last acks")
SMALL_BATCHES = 1_000
"""How many of them are sent at most."""

Step = Callable[[], None]
"""Is called after each batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a Redis was measured at.

    ``costs`` are microseconds of its processor for each operation, ``rates`` operations a second on the wall by the
    names of `PHASES`, ``root_bytes`` the memory of a pending root, ``round_trip_ms`` the median of a PING.
    """

    costs: OperationCosts
    rates: dict[str, float]
    root_bytes: float
    round_trip_ms: float


async def stored_keys(url: str) -> int:
    """Return how many keys a Redis has. Raises `StoreUnavailable`, and `ValueError` for an address that is none."""
    parts = Components(url, window_ms=WINDOW_MS)
    try:
        return sum(map(int, await parts.redis.on_every_server("DBSIZE")))
    finally:
        await parts.close()


def report(measured: Measured, loads: Sequence[Workload] = SHOWN_LOADS) -> list[str]:
    """Write what was measured, what one core carries, and what loads need, as lines of text."""
    costs = measured.costs
    lines = [f"round trip: {measured.round_trip_ms:.2f} ms"]
    for name, cost in zip(PHASES, (costs.init_us, costs.ack_us, costs.last_ack_us), strict=True):
        lines.append(f"{name}: {cost:.1f} CPU µs of Redis each, {measured.rates[name]:,.0f}/s in batches of {BATCH:,}")
    lines.append(f"a call to a shard: {costs.call_us:.0f} CPU µs of Redis besides its operations")
    lines.append(f"a pending root: {measured.root_bytes:.0f} bytes")
    for edges in SHOWN_EDGES:
        redis, service = roots_per_s(costs, edges=edges), service_roots_per_s(edges=edges)
        lines.append(f"one server carries {redis:,.0f} roots/s of {edges} edges, one acker process {service:,.0f}")
    return lines + [_needed(load, needs(load, costs, root_bytes=measured.root_bytes)) for load in loads]


def _needed(load: Workload, found: Requirement) -> str:
    """Describe in a line what a load needs."""
    return (
        f"{load.roots_per_s:,.0f} roots/s of {load.edges} edges, pending for {load.pending_s:,g} s "
        f"({load.pending:,.0f} pending): {found.servers} Redis ({found.redis_cores:.2f} cores in all), "
        f"ackers (shards) at least {found.servers}, {found.processes} acker processes (one to spare), "
        f"{found.memory_bytes / 1e6:,.0f} MB {_remembered(load)}, maxmemory of each Redis at least "
        f"{found.maxmemory_bytes / 1e6:,.0f} MB{_in_batches(load)}"
    )


def _remembered(load: Workload) -> str:
    return f"with a dedupe window of {load.window_s:g} s" if load.window_s else "without a dedupe window"


def _in_batches(load: Workload) -> str:
    return "" if load.batch == BATCH else f", in batches of {load.batch:,}"


def batches(roots: int) -> int:
    """Return how many batches `measure` sends for so many roots."""
    few = _small_batch_roots(roots)
    return len(PHASES) * -(-roots // BATCH) + -(-few // BATCH) + -(-few // SMALL_BATCH)


def _small_batch_roots(roots: int) -> int:
    """Return how many roots are acked in small batches."""
    return min(roots, SMALL_BATCH * SMALL_BATCHES)


async def measure(url: str, *, roots: int, step: Step) -> Measured:
    """Emit roots with two edges, ack one edge of each and then the other, in batches of 1,000; then some in small ones.

    Raises `StoreUnavailable`, and `ValueError` for a Redis that an acker must not use.
    """
    async with _topology(url, roots) as (parts, topology):
        idle = await _idle_share(parts)
        before = await _used_memory(parts)
        cpu_us, rates, grown = [], {}, 0
        for name, columns in zip(PHASES, _phases(roots), strict=True):
            wall_s, cpu_s = await _timed(parts, _apply(parts, topology, columns, step))
            cpu_us.append(max(0.0, cpu_s - idle * wall_s) / roots * 1e6)
            rates[name] = roots / wall_s
            grown = grown or await _used_memory(parts) - before
        init_us, ack_us, last_ack_us = cpu_us
        costs = OperationCosts(init_us=init_us, ack_us=ack_us, last_ack_us=last_ack_us, pending=roots)
        few = _small_batch_roots(roots)
        call_us = await _call_us(parts, topology, few, idle, step, ack_us=costs.at(few).ack_us)
        return Measured(
            costs=replace(costs, call_us=call_us),
            rates=rates,
            root_bytes=grown / roots,
            round_trip_ms=await _round_trip_ms(parts),
        )


@contextlib.asynccontextmanager
async def _topology(url: str, roots: int) -> AsyncIterator["tuple[Components, Topology]"]:
    """Create a topology with a spout task, and delete it and all its keys at the end."""
    parts = Components(url, window_ms=WINDOW_MS)
    name = f"{TOPOLOGY_PREFIX}{secrets.token_hex(6)}"
    config = TopologyConfig(message_timeout_ms=MESSAGE_TIMEOUT_MS, buckets=max(1, roots // 4 // ROOTS_PER_BUCKET))
    try:
        await parts.redis.load()
        topology = await parts.registry.create_or_update(name, lambda _: config)
        try:
            await parts.spouts.create_or_update(topology, SPOUT_TASK)
            yield parts, topology
        finally:
            await parts.topology_deleter.delete(name, DeleteMode.DISCARD)
            with contextlib.suppress(StoreUnavailable):
                await parts.redis.execute_each([functions.topologies.remove_tombstone(key) for key in topology.shards])
    finally:
        await parts.close()


def _phases(roots: int) -> "tuple[NDArray[np.void], ...]":
    """Make the operations of each phase."""
    ids, first, last = np.random.default_rng().integers(1, 2**64, (3, roots), dtype=np.uint64, endpoint=False)
    inits = _records(packed.INIT, ids, first ^ last, 2)
    inits["spout_task"] = 1
    return inits, _records(packed.ACK, ids, first, -1), _records(packed.ACK, ids, last, -1)


def _records(
    op: int, roots: "NDArray[np.uint64]", values: "NDArray[np.uint64]", outstanding: int
) -> "NDArray[np.void]":
    records = np.zeros(len(roots), RECORDS)
    records["op"], records["flags"], records["outstanding"] = op, packed.OUTSTANDING_GIVEN, outstanding
    records["root_id"], records["ack_val"] = roots, values
    return records


async def _call_us(
    parts: Components, topology: "Topology", roots: int, idle: float, step: Step, *, ack_us: float
) -> float:
    """Return what a call takes besides: how much more an ack takes where few share a call."""
    inits, acks, _ = _phases(roots)
    await _apply(parts, topology, inits, step)
    wall_s, cpu_s = await _timed(parts, _apply(parts, topology, acks, step, size=SMALL_BATCH))
    more_us = (cpu_s - idle * wall_s) / roots * 1e6 - ack_us
    return max(0.0, more_us / (calls_of(SMALL_BATCH, SHARDS) / SMALL_BATCH - calls_of(BATCH, SHARDS) / BATCH))


async def _apply(
    parts: Components, topology: "Topology", records: "NDArray[np.void]", step: Step, *, size: int = BATCH
) -> None:
    strings = EncodedStrings.of([SPOUT_TASK] if records["spout_task"].any() else [])
    for at in range(0, len(records), size):
        batch = ColumnBatch(records[at : at + size].copy(), strings)
        await parts.applier.apply(topology, ApplyRequest(endpoint="batch", operations=batch))
        step()


async def _timed(parts: Components, work: Awaitable[None]) -> tuple[float, float]:
    """Return the seconds that work took, and those of Redis's processor."""
    cpu, began = await _cpu_s(parts), time.perf_counter()
    await work
    return time.perf_counter() - began, await _cpu_s(parts) - cpu


async def _idle_share(parts: Components) -> float:
    """Return what share of a processor Redis takes without this load: others may use it, too."""
    _, cpu_s = await _timed(parts, asyncio.sleep(IDLE_S))
    return cpu_s / IDLE_S


async def _cpu_s(parts: Components) -> float:
    return sum(_number(info, "used_cpu_user") + _number(info, "used_cpu_sys") for info in await _info(parts, "cpu"))


async def _used_memory(parts: Components) -> int:
    return int(sum(_number(info, "used_memory") for info in await _info(parts, "memory")))


async def _info(parts: Components, section: str) -> list[Any]:
    return await parts.redis.on_every_server("INFO", section)


def _number(info: dict[str, Any], name: str) -> float:
    return float(info[name])


async def _round_trip_ms(parts: Components) -> float:
    taken = []
    for _ in range(PINGS):
        began = time.perf_counter()
        await parts.redis.on_any_server("PING")
        taken.append((time.perf_counter() - began) * 1e3)
    return float(np.median(taken))
