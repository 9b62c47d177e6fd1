"""Maps keys to servers: one server for all keys, the primary that the sentinels name, or the nodes of a cluster.

redis-py's own clients for Sentinel and Cluster send a command again after an error, or to another server while a slot
migrates (`RedisCluster._execute_command`), which would apply it twice or to half of its keys. So this module discovers
addresses only, and sends every command to one `Node`.
"""

import asyncio
import contextlib
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from acker_protocol.errors import StoreUnavailable
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from acker_service.background import cancel_and_wait
from acker_service.redis.node import Node
from acker_service.redis.outages import OutageLog

MIN_INTERVAL_S = 0.1
"""Seconds between two discoveries at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRange:
    """A range of hash slots up to ``last``, and the URL of the server that has them; None if no server has."""

    last: int
    url: str | None


Discover = Callable[[Sequence[str]], Awaitable[list[SlotRange]]]
"""Returns the slot ranges in order, from the URLs that are known so far. Raises `StoreUnavailable`."""


def all_slots(url: str) -> list[SlotRange]:
    """Return all slots to one server."""
    return [SlotRange(last=REDIS_CLUSTER_HASH_SLOTS - 1, url=url)]


class SlotMap:
    """Finds the server that has a key, and discovers the servers again after errors."""

    def __init__(self, discover: Discover, outages: OutageLog, *, connections: int, timeout: float) -> None:
        self._discover = discover
        self._outages = outages
        self._connections = connections
        self._timeout = timeout
        self._ranges: list[SlotRange] = []
        self._nodes: dict[str, Node] = {}
        self._discovery: asyncio.Task[None] | None = None
        self._last_discovery = float("-inf")
        self._closing: set[asyncio.Task[None]] = set()
        self._change = asyncio.Event()
        self.generation = 0

    async def of(self, key: str) -> Node:
        """Return the server that has a key. Raises `StoreUnavailable`."""
        if not self._ranges:
            await self.refresh()
        url = self.url_of(key)
        if url is None:
            self._outages.unserved()
            self.mark_stale()
            raise StoreUnavailable("no server serves this part of the cluster now")
        return self._nodes[url]

    def url_of(self, key: str) -> str | None:
        """Return the address of the server that has a key; None if no server has it, or none has been discovered."""
        if not self._ranges:
            return None
        if len(self._ranges) == 1:
            return self._ranges[0].url
        return self._ranges[bisect_left(self._ranges, _slot(key), key=lambda slot_range: slot_range.last)].url

    def known(self, keys: Sequence[str]) -> Node | None:
        """Return the server that has all these keys, one or more; None if there is none, or it is not known now."""
        url = self.url_of(keys[0])
        if url is None or (len(keys) > 1 and any(self.url_of(key) != url for key in keys)):
            return None
        return self._nodes[url]

    async def all(self) -> list[Node]:
        """Return all servers. Raises `StoreUnavailable`."""
        if not self._ranges:
            await self.refresh()
        return list(self._nodes.values())

    async def refresh(self) -> None:
        """Discover the servers, in one discovery for all concurrent callers. Raises `StoreUnavailable`."""
        self.mark_stale()
        assert self._discovery is not None
        try:
            await asyncio.shield(self._discovery)
        except StoreUnavailable as error:
            raise type(error)(error.detail) from error  # one for each caller, which may change its text

    def mark_stale(self) -> None:
        """Start a discovery: an error suggests that the map is outdated."""
        if self._discovery is None or self._discovery.done():
            self._discovery = asyncio.create_task(self._discover_once())
            self._discovery.add_done_callback(_retrieve)

    @property
    def change(self) -> asyncio.Event:
        """Is set when slots move to other servers; the next change has an event of its own."""
        return self._change

    async def close(self) -> None:
        """Close all connections."""
        if self._discovery is not None:
            await cancel_and_wait(self._discovery)
        await cancel_and_wait(*self._closing)
        await asyncio.gather(*(node.close() for node in self._nodes.values()))

    async def _discover_once(self) -> None:
        now = asyncio.get_running_loop().time()
        if (wait := self._last_discovery + MIN_INTERVAL_S - now) > 0:
            await asyncio.sleep(wait)
        try:
            ranges = await self._discover(list(self._nodes))
        except StoreUnavailable as error:
            self._outages.undiscovered(error)
            raise
        finally:
            self._last_discovery = asyncio.get_running_loop().time()
        if ranges != self._ranges:
            self._adopt(ranges)
        self._outages.discovered([node.name for node in self._nodes.values()], complete=_is_complete(ranges))

    def _adopt(self, ranges: list[SlotRange]) -> None:
        """Use the ranges that were discovered, and retire servers without slots."""
        urls = {slot_range.url for slot_range in ranges if slot_range.url}
        for url in self._nodes.keys() - urls:
            closing = asyncio.create_task(self._nodes.pop(url).retire())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        for url in urls - self._nodes.keys():
            self._nodes[url] = Node(url, connections=self._connections, timeout=self._timeout)
        self._ranges = ranges
        self.generation += 1
        self._change.set()
        self._change = asyncio.Event()


def _is_complete(ranges: Sequence[SlotRange]) -> bool:
    """Whether a server has every slot; a range after the last slot has none."""
    served = [slot_range for slot_range in ranges if slot_range.url is not None]
    last = REDIS_CLUSTER_HASH_SLOTS - 1
    return bool(served) and served[-1].last == last and all(each.url for each in ranges if each.last <= last)


def _retrieve(discovery: "asyncio.Task[None]") -> None:
    """Retrieve the error of a discovery that no caller may wait for: it is noted already."""
    with contextlib.suppress(asyncio.CancelledError):
        discovery.exception()


@lru_cache(maxsize=65_536)
def _slot(key: str) -> int:
    return key_slot(key.encode())
