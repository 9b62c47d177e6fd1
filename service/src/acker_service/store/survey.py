"""Knows how the whole store stood when it was last looked at."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from acker_protocol.problems import Problem

from acker_service.store import keys
from acker_service.store.backlogs import Backlogs
from acker_service.store.counts import Counts, CountsReader
from acker_service.store.server import Server
from acker_service.store.topologies import Topologies
from acker_service.store.topology import Topology
from acker_service.tasks import end

FRESH_S = 1.0
"""A look is not taken again before that."""

OLD_S = 10.0
"""A look that is older tells nothing any more."""

PATIENCE_S = 1.0
"""Whoever asks waits so long at most for a look."""

Memory = tuple[int, int]
"""Bytes that a server uses, and how many it may; 0: no bound."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look found: the fullest server's memory in bytes (``most`` 0: no bound), the counts of all topologies.

    ``ticked`` is whether a worker let time pass lately.
    """

    used: int
    most: int
    counts: list[tuple[Topology, Counts]]
    ticked: bool = True


class Survey:
    """Looks at the whole store, once for all who ask."""

    def __init__(self, server: Server, topologies: Topologies, counts: CountsReader, backlogs: Backlogs) -> None:
        self._server, self._topologies, self._counts, self._backlogs = server, topologies, counts, backlogs
        self._latest: tuple[float, Look] | None = None
        self._task: asyncio.Task[None] | None = None

    async def look(self) -> Look:
        """Look at Redis's memory and at all topologies, as far as servers answer. Raises `StoreUnavailable`."""
        try:
            look = await self._look()
        except Problem:
            self._latest = None
            raise
        self._latest = (time.monotonic(), look)
        return look

    async def weigh(self) -> Memory:
        """Look at the memory of the fullest server that answers. Raises `StoreUnavailable` if none does."""
        return max((_memory(info) for info in await self._server.ask_any("INFO", "memory")), key=part_of)

    async def recent(self) -> Look | None:
        """Give a look that is recent; None if the store does not answer. Never raises, and waits a moment at most."""
        if self._age() > FRESH_S:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._renew())
            await asyncio.wait([self._task], timeout=PATIENCE_S)
        return self._latest[1] if self._latest is not None and self._age() <= OLD_S else None

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            await end(self._task)

    async def _look(self) -> Look:
        used, most = await self.weigh()
        names = await self._topologies.names()
        found = await asyncio.gather(*map(self._count, names))
        ticked = bool(await self._server.read("EXISTS", keys.TICKED))
        counts = [counted for counted in found if counted is not None]
        return Look(used=used, most=most, counts=counts, ticked=ticked)

    async def _count(self, name: str) -> tuple[Topology, Counts] | None:
        """Count a topology; None if it has gone meanwhile, or cannot be counted now."""
        with contextlib.suppress(Problem):
            topology = await self._topologies.get(name)
            counts = await self._counts.read(topology)
            return topology, replace(counts, backlogs=await self._backlogs.read(topology, counts))
        return None

    async def _renew(self) -> None:
        try:
            await self.look()
        except Problem as problem:
            _log.debug("could not look: %s", problem.detail)
        except Exception:  # noqa: BLE001 - who asks is told nothing, rather than refused
            _log.exception("looking at the store failed")

    def _age(self) -> float:
        return time.monotonic() - self._latest[0] if self._latest is not None else math.inf


def part_of(memory: Memory) -> float:
    """Say how much of its memory a server uses; 0 where that has no bound."""
    used, most = memory
    return used / most if most else 0.0


def _memory(info: Mapping[str, Any]) -> Memory:
    return int(info["used_memory"]), int(info.get("maxmemory", 0))
