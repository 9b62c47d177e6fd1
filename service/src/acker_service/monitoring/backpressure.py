"""Refuses new roots while Redis's memory is full, and inits while a mailbox is; checks both once a second.

It also says how much of the memory early roots may take, and what is remembered of edges and requests.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from acker_protocol.errors import ServiceError

from acker_service.background import cancel_and_wait, periodically
from acker_service.monitoring.snapshot import StoreMonitor, fullest, memory_ratio
from acker_service.redis.requirements import ServerRequirements
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.stats import StatsReader
from acker_service.topologies.topology import MailboxId, Topology, TopologyId

REFRESH_INTERVAL_S = 1.0
# rule: memory is full from nine tenths on
FULL_RATIO = 0.9
"""Share of maxmemory from which new roots are refused, so that pending roots have the memory to finish."""
EARLY_RATIO = 0.1
"""Share of maxmemory that the early roots of all topologies take at most."""
REMEMBERED_RATIO = 0.25
"""Share of maxmemory that the remembered edges and requests of one topology take at most."""
REMEMBERED_IF_FULL_RATIO = 0.05
"""Share of maxmemory up to which all topologies together have edges remembered in a full store, in equal parts."""
OVER_EARLY = 1.25
"""What early roots take at most, as a multiple of what they may: fails of stored ones are not refused beyond it."""
ADVICE = "its memory is full; raise maxmemory, or read and release completions"

_Counted = tuple[TopologyId, Mapping[int, int]]
"""A topology, and what the mailboxes of its spout tasks hold, by index."""

_log = logging.getLogger(__name__)


class Backpressure:
    """Watches memory and mailboxes.

    ``mailbox_max`` bounds the completions and dead letters of a spout task, ``early_max_bytes`` what the early roots of
    a topology take, ``remembered_max_bytes`` what its remembered edges and requests take.
    """

    def __init__(
        self,
        monitor: StoreMonitor,
        registry: TopologyRegistry,
        stats: StatsReader,
        requirements: ServerRequirements,
        *,
        mailbox_max: int,
        early_max_bytes: int,
        remembered_max_bytes: int,
    ) -> None:
        self._monitor = monitor
        self._registry = registry
        self._stats = stats
        self._requirements = requirements
        self._mailbox_max = mailbox_max
        self._early_max_bytes = self.early_max_bytes = early_max_bytes
        self._remembered_max_bytes = self.remembered_max_bytes = remembered_max_bytes
        self.remembered_max_bytes_if_full = remembered_max_bytes
        self._recently_full: set[MailboxId] = set()
        self.is_store_full = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to watch."""
        loop = periodically(self.refresh, interval=REFRESH_INTERVAL_S, name="the check of what is full", log=_log)
        self._task = asyncio.create_task(loop)

    async def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    def was_full(self, topology: Topology, index: int) -> bool:
        """Whether the mailbox of a spout task was full lately; `full_mailboxes` says whether it is."""
        return (topology.id, index) in self._recently_full

    async def full_mailboxes(self, topology: Topology, indexes: Iterable[int]) -> set[int]:
        """Return those spout tasks whose mailbox is full: counts again those whose mailbox was full lately."""
        suspected = {index for index in indexes if self.was_full(topology, index)}
        if not suspected:
            return suspected
        stored = await self._stats.read_stored(topology)
        # rule: a mailbox that was full is counted again, and is full from its bound on
        return {index for index in suspected if stored[index] >= self._mailbox_max}

    async def refresh(self) -> None:
        """Check Redis's memory and all mailboxes; a store that violates the requirements begins no roots either."""
        memories = await self._monitor.memories()
        await self._check_memory(memories)
        names = await self._registry.names()
        self._divide(memories, topologies=len(names))
        together = await self._count_together(names)
        apart = await asyncio.gather(*(self._count(name) for name in names if name not in together))
        counted = [*together.values(), *(found for found in apart if found is not None)]
        seen = {topology for topology, _ in counted}
        unseen = {mailbox for mailbox in self._recently_full if mailbox[0] not in seen}
        self._recently_full = unseen | set(self._full(counted))

    def _divide(self, memories: Sequence[Mapping[str, Any]], *, topologies: int) -> None:
        """Bound what each topology may take of the memory."""
        self.early_max_bytes = early_part(self._early_max_bytes, memories, topologies=topologies)
        self.remembered_max_bytes = remembered_part(self._remembered_max_bytes, memories)
        self.remembered_max_bytes_if_full = remembered_part_if_full(
            self._remembered_max_bytes, memories, topologies=topologies
        )

    async def _check_memory(self, memories: Sequence[Mapping[str, Any]]) -> None:
        """Check the memory before the mailboxes: counting takes long while a server hangs."""
        memory, violation = fullest(memories), await self._requirements.violation(memories)
        # rule: a store with another policy lets no init in
        is_full = violation is not None or memory_ratio(memory) >= FULL_RATIO
        if is_full != self.is_store_full:
            state = f"takes no new roots: {violation or ADVICE}" if is_full else "takes new roots again"
            _log.warning("the store %s; %s of %s bytes are used", state, *memory)
            self._monitor.expire()
        self.is_store_full = is_full

    async def _count_together(self, names: Iterable[str]) -> dict[str, _Counted]:
        """Count what mailboxes of the topologies in the cache hold, as far as one call can; by their names."""
        cached = [topology for name in names if (topology := self._registry.cached(name))]
        with contextlib.suppress(ServiceError):
            stored = await self._stats.read_all_stored(cached)
            return {it.name: (it.id, stored[it.name]) for it in cached if it.name in stored}
        return {}

    async def _count(self, name: str) -> _Counted | None:
        """Count what mailboxes of a topology hold; None if it is deleted meanwhile, or its servers do not answer."""
        with contextlib.suppress(ServiceError):
            topology = await self._registry.get(name)
            return topology.id, await self._stats.read_stored(topology)
        return None

    def _full(self, counted: Iterable[_Counted]) -> Iterator[MailboxId]:
        for topology, stored in counted:
            # rule: a mailbox is suspected from its bound on
            yield from ((topology, index) for index, count in stored.items() if count >= self._mailbox_max)


def early_part(max_bytes: int, memories: Iterable[Mapping[str, Any]], *, topologies: int) -> int:
    """Return the bytes that the early roots of a topology may take: at most ``max_bytes``.

    All topologies have equal parts, which together stay within `EARLY_RATIO` of the smallest maxmemory: in a cluster
    one server may have all of them.
    """
    # rule: early roots of all topologies take a tenth of maxmemory at most
    return _smallest_part(max_bytes, memories, EARLY_RATIO / OVER_EARLY / max(1, topologies))


def remembered_part(max_bytes: int, memories: Iterable[Mapping[str, Any]]) -> int:
    """Return the bytes that remembered edges and requests of a topology may take: at most ``max_bytes``.

    A busy topology needs many, and most need few, so the parts of all are more together than there is.
    """
    # rule: what a topology remembers takes a quarter of maxmemory at most
    return _smallest_part(max_bytes, memories, REMEMBERED_RATIO)


def remembered_part_if_full(max_bytes: int, memories: Iterable[Mapping[str, Any]], *, topologies: int) -> int:
    """Return the bytes up to which a topology has further edges remembered in a full store.

    There pending roots end also without; and all topologies together must not fill what is left.
    """
    # rule: in a full store the edges of all topologies take a twentieth of maxmemory at most
    return _smallest_part(max_bytes, memories, REMEMBERED_IF_FULL_RATIO / max(1, topologies))


def _smallest_part(max_bytes: int, memories: Iterable[Mapping[str, Any]], ratio: float) -> int:
    """Return ``max_bytes``, or this part of the smallest maxmemory of the servers if that is less."""
    limits = (int(memory.get("maxmemory", 0)) for memory in memories)
    return min([max_bytes, *(int(limit * ratio) for limit in limits if limit)])
