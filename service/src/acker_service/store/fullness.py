"""Knows what is full: Redis's memory, and mailboxes. Looked at once a second; what is full takes no inits."""

import asyncio
import logging
from collections.abc import Iterable, Iterator

from acker_protocol.problems import Problem

from acker_service.store.counts import CountsReader
from acker_service.store.suitability import Suitability
from acker_service.store.survey import Look, Survey, part_of
from acker_service.store.topology import Topology
from acker_service.tasks import end

LOOK_EVERY_S = 1.0
FULL_FROM = 0.9
"""From this part of maxmemory on inits are refused, so that all that is pending still finds the memory to end."""

_log = logging.getLogger(__name__)


class Fullness:
    """Watches for what is full. ``mailbox_max`` is how many completions a spout task may have, dead letters too."""

    def __init__(self, survey: Survey, counts: CountsReader, suitability: Suitability, *, mailbox_max: int) -> None:
        self._survey, self._counts, self._suitability = survey, counts, suitability
        self._mailbox_max = mailbox_max
        self._suspected: set[tuple[str, int]] = set()
        self.is_store_full = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """End watching."""
        if self._task is not None:
            await end(self._task)

    async def full_mailboxes(self, topology: Topology, indexes: Iterable[int]) -> set[int]:
        """Say which of these spout tasks have a full mailbox: those that lately had one are counted again."""
        suspected = {index for index in indexes if (topology.incarnation, index) in self._suspected}
        if not suspected:
            return suspected
        counts = await self._counts.read(topology)
        return {index for index in suspected if counts.kept(index) >= self._mailbox_max}

    async def look(self) -> None:
        """Look at Redis's memory and at all mailboxes; a store that turns out to be unfit takes no inits either."""
        await self._judge()
        look = await self._survey.look()
        seen = {topology.incarnation for topology, _ in look.counts}
        self._suspected = {it for it in self._suspected if it[0] not in seen} | set(self._full(look))

    async def _judge(self) -> None:
        """Judge the memory first: counting takes long where a server hangs."""
        memory = await self._survey.weigh()
        fault = await self._suitability.fault()
        full = fault is not None or part_of(memory) >= FULL_FROM
        if full != self.is_store_full:
            state = "takes inits again" if not full else fault or "is full"
            _log.warning("the store %s: %s of %s bytes are used", state, *memory)
        self.is_store_full = full

    def _full(self, look: Look) -> Iterator[tuple[str, int]]:
        for topology, counts in look.counts:
            for index in counts.unread.keys() | counts.dead.keys():
                if counts.kept(index) >= self._mailbox_max:
                    yield topology.incarnation, index

    async def _watch(self) -> None:
        while True:
            try:
                await self.look()
            except Problem as problem:
                _log.debug("could not look: %s", problem.detail)
            except Exception:  # noqa: BLE001 - watching goes on whatever happens
                _log.exception("looking for what is full failed")
            await asyncio.sleep(LOOK_EVERY_S)
