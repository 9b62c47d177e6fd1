"""Knows what is full: Redis's memory, and mailboxes. Looked at once a second; what is full takes no inits."""

import asyncio
import logging
from collections.abc import Iterable, Iterator

from acker_service.background import cancel_and_wait, periodically
from acker_service.monitoring.snapshot import StoreMonitor, StoreSnapshot, memory_ratio
from acker_service.redis.requirements import ServerRequirements
from acker_service.topologies.stamp import Topology
from acker_service.topologies.stats import StatsReader

REFRESH_INTERVAL_S = 1.0
FULL_RATIO = 0.9
"""From this part of maxmemory on inits are refused, so that all that is pending still finds the memory to end."""

_log = logging.getLogger(__name__)


class Backpressure:
    """Watches for what is full. ``mailbox_max`` is how many completions a spout task may have, dead letters too."""

    def __init__(
        self, survey: StoreMonitor, counts: StatsReader, suitability: ServerRequirements, *, mailbox_max: int
    ) -> None:
        self._survey, self._counts, self._suitability = survey, counts, suitability
        self._mailbox_max = mailbox_max
        self._recently_full: set[tuple[str, int]] = set()
        self.is_store_full = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        loop = periodically(self.refresh, interval=REFRESH_INTERVAL_S, name="the check of what is full", log=_log)
        self._task = asyncio.create_task(loop)

    async def stop(self) -> None:
        """End watching."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def full_mailboxes(self, topology: Topology, indexes: Iterable[int]) -> set[int]:
        """Say which of these spout tasks have a full mailbox: those that lately had one are counted again."""
        suspected = {index for index in indexes if (topology.incarnation, index) in self._recently_full}
        if not suspected:
            return suspected
        counts = await self._counts.read(topology)
        return {index for index in suspected if counts.stored(index) >= self._mailbox_max}

    async def refresh(self) -> None:
        """Look at Redis's memory and at all mailboxes; a store that turns out to be unfit takes no inits either."""
        await self._check_memory()
        look = await self._survey.refresh()
        seen = {topology.incarnation for topology, _ in look.topologies}
        self._recently_full = {it for it in self._recently_full if it[0] not in seen} | set(self._full(look))

    async def _check_memory(self) -> None:
        """Judge the memory first: counting takes long where a server hangs."""
        memory = await self._survey.memory_usage()
        fault = await self._suitability.violation()
        full = fault is not None or memory_ratio(memory) >= FULL_RATIO
        if full != self.is_store_full:
            state = "takes inits again" if not full else fault or "is full"
            _log.warning("the store %s: %s of %s bytes are used", state, *memory)
        self.is_store_full = full

    def _full(self, look: StoreSnapshot) -> Iterator[tuple[str, int]]:
        for topology, counts in look.topologies:
            for index in counts.unread.keys() | counts.dead.keys():
                if counts.stored(index) >= self._mailbox_max:
                    yield topology.incarnation, index
