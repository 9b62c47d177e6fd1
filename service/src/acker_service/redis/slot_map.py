"""Knows which server has a key: one server for all of them, the one that the sentinels name, or a cluster's nodes.

redis-py's own clients for Sentinel and Cluster send a command again after a fault, or to another server while a slot is
on its way (`RedisCluster._execute_command`), which would apply it twice or to half of its keys; so they are asked for
addresses only, and every command goes to one `Node`.
"""

import asyncio
import contextlib
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from acker_protocol.errors import StoreUnavailable
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from acker_service.background import cancel_and_wait
from acker_service.redis.node import Node

MIN_INTERVAL_S = 0.1
"""A search begins so long after the last one at the earliest."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRange:
    """A run of hash slots up to ``last``, and the URL of the server that has them; None where nobody has."""

    last: int
    url: str | None


Discover = Callable[[Sequence[str]], Awaitable[list[SlotRange]]]
"""Finds who has which slots, in their order; is told the URLs that are known so far. Raises `StoreUnavailable`."""


def all_slots(url: str) -> list[SlotRange]:
    """Give one server all slots."""
    return [SlotRange(last=REDIS_CLUSTER_HASH_SLOTS - 1, url=url)]


class SlotMap:
    """Leads to the server that has a key, and looks again for who has what when something went wrong."""

    def __init__(self, seek: Discover, *, connections: int, timeout: float) -> None:
        self._discover, self._connections, self._timeout = seek, connections, timeout
        self._ranges: list[SlotRange] = []
        self._nodes: dict[str, Node] = {}
        self._search: asyncio.Task[None] | None = None
        self._last_discovery = float("-inf")
        self._closing: set[asyncio.Task[None]] = set()
        self._change = asyncio.Event()
        self.generation = 0

    async def of(self, key: str) -> Node:
        """Give the server that has a key. Raises `StoreUnavailable`."""
        if not self._ranges:
            await self.refresh()
        slot = 0 if len(self._ranges) == 1 else _slot(key)
        url = self._ranges[bisect_left(self._ranges, slot, key=lambda territory: territory.last)].url
        if url is None:
            self.mark_stale()
            raise StoreUnavailable("nobody serves this part of the cluster now")
        return self._nodes[url]

    async def all(self) -> list[Node]:
        """Give all servers. Raises `StoreUnavailable`."""
        if not self._ranges:
            await self.refresh()
        return list(self._nodes.values())

    async def refresh(self) -> None:
        """Find out who has what, together with all who ask meanwhile. Raises `StoreUnavailable`."""
        self.mark_stale()
        assert self._search is not None
        try:
            await asyncio.shield(self._search)
        except StoreUnavailable as fault:
            raise StoreUnavailable(fault.detail) from fault  # one for each who waits: what it says may be changed

    def mark_stale(self) -> None:
        """Begin to find out who has what: something speaks against what is known."""
        if self._search is None or self._search.done():
            self._search = asyncio.create_task(self._discover_once())
            self._search.add_done_callback(_log_failure)

    @property
    def change(self) -> asyncio.Event:
        """Is set when somebody else has something; the next change has an event of its own."""
        return self._change

    async def close(self) -> None:
        """Close all connections."""
        if self._search is not None:
            await cancel_and_wait(self._search)
        await cancel_and_wait(*self._closing)
        await asyncio.gather(*(node.close() for node in self._nodes.values()))

    async def _discover_once(self) -> None:
        now = asyncio.get_running_loop().time()
        if (wait := self._last_discovery + MIN_INTERVAL_S - now) > 0:
            await asyncio.sleep(wait)
        try:
            territories = await self._discover(list(self._nodes))
        finally:
            self._last_discovery = asyncio.get_running_loop().time()
        if territories != self._ranges:
            self._adopt(territories)

    def _adopt(self, territories: list[SlotRange]) -> None:
        """Take up what was found; who has nothing any more is let go."""
        urls = {territory.url for territory in territories if territory.url}
        for url in self._nodes.keys() - urls:
            closing = asyncio.create_task(self._nodes.pop(url).retire())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        for url in urls - self._nodes.keys():
            self._nodes[url] = Node(url, connections=self._connections, timeout=self._timeout)
        self._ranges = territories
        self.generation += 1
        self._change.set()
        self._change = asyncio.Event()


def _log_failure(search: "asyncio.Task[None]") -> None:
    """Take note of how a search ended that perhaps nobody waits for."""
    with contextlib.suppress(asyncio.CancelledError):
        if fault := search.exception():
            _log.warning("the store's servers were not found: %s", fault)


@lru_cache(maxsize=65_536)
def _slot(key: str) -> int:
    return key_slot(key.encode())
