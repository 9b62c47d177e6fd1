"""Records the history of topologies, and reads it."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from acker_protocol.errors import ServiceError

from acker_service.background import cancel_and_wait, periodically
from acker_service.monitoring.history import (
    FACTORS,
    STEP_MS,
    History,
    Point,
    Window,
    created_at_ms,
    level_of,
    point_of_all,
    points_of,
)
from acker_service.redis import functions
from acker_service.redis.calls import Call
from acker_service.redis.client import RedisClient
from acker_service.redis.functions.history import ShardTotals, Totals, add_totals
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.shards import MAX_SHARDS
from acker_service.topologies.stats import StatsReader
from acker_service.topologies.topology import Topology

MAX_TOPOLOGIES = 500
"""Topologies whose samples one call notes at most."""

MARGIN_MS = 10
"""How much later than a step begins a worker claims it, so that it is never early."""

_log = logging.getLogger(__name__)


class TotalsReader:
    """Reads the totals of topologies: of all that have all shards on one server, by one call."""

    def __init__(self, redis: RedisClient, registry: TopologyRegistry) -> None:
        self._redis = redis
        self._registry = registry

    async def read(self, names: Iterable[str]) -> list[tuple[Topology, Totals]]:
        """Read topologies; leaves out those that are gone, or whose servers do not answer."""
        found = await asyncio.gather(*(self._topology(name) for name in names))
        return await self._read_known([topology for topology in found if topology is not None])

    async def _topology(self, name: str, *, again: bool = False) -> Topology | None:
        with contextlib.suppress(ServiceError):
            return await (self._registry.refresh(name) if again else self._registry.get(name))
        return None

    async def _read_known(self, topologies: Sequence[Topology]) -> list[tuple[Topology, Totals]]:
        """Read topologies, and once more those that another process has changed since they were read."""
        totals = await self._ask(topologies)
        stale = [topology.name for topology in topologies if topology.name not in totals]
        changed = [found for name in stale if (found := await self._topology(name, again=True)) is not None]
        totals |= await self._ask(changed)
        current = {topology.name: topology for topology in (*topologies, *changed)}
        return [(current[name], found) for name, found in totals.items()]

    async def _ask(self, topologies: Sequence[Topology]) -> dict[str, Totals]:
        """Return the totals by name, without those of topologies that have another stamp somewhere."""
        if not self._redis.is_cluster:
            return await self._ask_together(topologies, size=MAX_SHARDS)
        each = (self._ask_alone(topology) for topology in topologies)
        return dict(chain.from_iterable(found.items() for found in await asyncio.gather(*each)))

    async def _ask_alone(self, topology: Topology) -> dict[str, Totals]:
        with contextlib.suppress(ServiceError):  # the other topologies may be on servers that answer
            return await self._ask_together([topology], size=1)
        return {}

    async def _ask_together(self, topologies: Sequence[Topology], *, size: int) -> dict[str, Totals]:
        shards = [(topology, key) for topology in topologies for key in topology.shards]
        parts = [shards[i : i + size] for i in range(0, len(shards), size)]
        calls = [functions.history.read_totals([(key, topology.stamp) for topology, key in part]) for part in parts]
        found: dict[str, list[ShardTotals | None]] = {topology.name: [] for topology in topologies}
        replies = await self._redis.execute_each(calls) if calls else []
        for (topology, _), totals in zip(shards, chain.from_iterable(replies), strict=True):
            found[topology.name].append(totals)
        known = {name: [one for one in own if one is not None] for name, own in found.items()}
        return {name: add_totals(own) for name, own in known.items() if len(own) == len(found[name])}


class HistoryRecorder:
    """Notes the totals of all topologies once in a step, whichever worker claims it first."""

    def __init__(self, redis: RedisClient, totals: TotalsReader, *, step_ms: int = STEP_MS) -> None:
        self._redis = redis
        self._totals = totals
        self._step_ms = step_ms

    async def record(self) -> float:
        """Record the present step unless it is recorded, and return when the next is due, by the event loop's clock."""
        calls: list[Call[Any]] = [functions.topologies.topology_names(), functions.history.claim_step(self._step_ms)]
        names, claim = await self._redis.execute_each(calls)
        rest_ms = self._step_ms - claim.now_ms % self._step_ms + MARGIN_MS
        due: float = asyncio.get_running_loop().time() + rest_ms / 1_000
        if claim.step is not None:
            await self._note(claim, await self._totals.read(names))
        return due

    async def _note(self, claim: functions.history.Claim, read: Sequence[tuple[Topology, Totals]]) -> None:
        found = [(topology.name, topology.incarnation, totals) for topology, totals in read]
        for first in range(0, len(found), MAX_TOPOLOGIES):
            part = found[first : first + MAX_TOPOLOGIES]
            await self._redis.execute(functions.history.note_samples(claim, part))


class HistoryTask:
    """Records each step, until it is stopped."""

    def __init__(self, recorder: HistoryRecorder) -> None:
        self._recorder = recorder
        self._due = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to record."""
        loop = periodically(
            self._step, interval=0.0, retry_interval=STEP_MS / 1_000, name="the history of topologies", log=_log
        )
        self._task = asyncio.create_task(loop)

    async def stop(self) -> None:
        """Stop; a step that is not noted yet becomes a part of the next one."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _step(self) -> None:
        await asyncio.sleep(max(0.0, self._due - asyncio.get_running_loop().time()))
        self._due = await self._recorder.record()


class HistoryReader:
    """Reads what happened in a topology."""

    def __init__(
        self, redis: RedisClient, registry: TopologyRegistry, stats: StatsReader, *, step_ms: int = STEP_MS
    ) -> None:
        self._redis = redis
        self._registry = registry
        self._stats = stats
        self._step_ms = step_ms

    async def read(self, name: str, window: Window) -> History:
        """Read a window. Raises `UnknownTopology`."""
        topology = await self._registry.refresh(name)
        created_ms = created_at_ms(topology.incarnation)
        if window is Window.ALL:
            point = await self._read_all(topology)
            return History(step_ms=max(1, point.at_ms - created_ms), points=[point])
        factor = FACTORS[window]
        call = functions.history.read_samples(name, topology.incarnation, level_of(window))
        stored = await self._redis.execute(call)
        points = points_of(stored, factor=factor, step_ms=self._step_ms, created_ms=created_ms)
        return History(step_ms=factor * self._step_ms, points=points)

    async def _read_all(self, topology: Topology) -> Point:
        counts = await self._stats.read(topology)
        totals = Totals(
            failed=counts.totals["failed"],
            timed_out=counts.totals["timed_out"],
            pending=counts.pending.total(),
            unread=counts.unread.total(),
            latencies=counts.latencies["acked"].counts,
        )
        return point_of_all(totals, await self._redis.now_ms())
