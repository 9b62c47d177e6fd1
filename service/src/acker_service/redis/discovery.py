"""Discovers which server has which slots: by Sentinel, or from the nodes of a cluster."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from acker_protocol.errors import StoreUnavailable
from acker_protocol.redis_url import Kind, RedisUrl, read_redis_url
from redis.exceptions import RedisError

from acker_service.redis.errors import PermissionDenied, is_denied
from acker_service.redis.node import check, probe
from acker_service.redis.outages import detail_of
from acker_service.redis.slot_map import Discover, SlotRange, all_slots


def make_discovery(url: str) -> Discover:
    """Return the discovery for the kind of an address. Raises `ValueError`."""
    redis_url = read_redis_url(url)
    check(redis_url.url(redis_url.addresses[0]) if redis_url.addresses else url)
    match redis_url.kind:
        case Kind.SENTINEL:
            return SentinelDiscovery(redis_url)
        case Kind.CLUSTER:
            return ClusterDiscovery(redis_url)
        case Kind.STANDALONE:
            return _standalone(url)


def _standalone(url: str) -> Discover:
    async def discover(_: Sequence[str]) -> list[SlotRange]:
        return all_slots(url)

    return discover


class SentinelDiscovery:
    """Asks the sentinels for the address of the primary.

    It follows redis.io, "Sentinel client spec", but for the check of the role: a server that is not a primary refuses
    writes, which starts another discovery.
    """

    def __init__(self, redis_url: RedisUrl) -> None:
        self._redis_url = redis_url
        self._round_robin = _RoundRobin()

    async def __call__(self, _: Sequence[str]) -> list[SlotRange]:
        """Find the primary."""
        sentinels = [self._redis_url.sentinel_url(address) for address in self._redis_url.addresses]
        found, _ = await self._round_robin.ask(sentinels, "SENTINEL GET-MASTER-ADDR-BY-NAME", self._redis_url.name)
        if found is None:
            raise StoreUnavailable(f"the sentinels know no primary called {self._redis_url.name}")
        return all_slots(self._redis_url.url(found))


class ClusterDiscovery:
    """Asks the nodes of a cluster which node has which slots."""

    def __init__(self, redis_url: RedisUrl) -> None:
        self._redis_url = redis_url
        self._round_robin = _RoundRobin()

    async def __call__(self, known: Sequence[str]) -> list[SlotRange]:
        """Find the node of each slot."""
        urls = list(dict.fromkeys([*known, *map(self._redis_url.url, self._redis_url.addresses)]))
        return self._slot_ranges(*await self._round_robin.ask(urls, "CLUSTER SLOTS"))

    def _slot_ranges(self, slots: list[Any], asked: str) -> list[SlotRange]:
        """Read the reply of CLUSTER SLOTS: for each range its first and last slot, then the primary and replicas."""
        ranges: list[SlotRange] = []
        expected = 0
        for first, last, (host, port, *_), *_ in sorted(slots, key=lambda run: int(run[0])):
            if first > expected:
                ranges.append(SlotRange(last=first - 1, url=None))
            ranges.append(SlotRange(last=last, url=self._url(host, port, asked)))
            expected = last + 1
        if not ranges:
            raise StoreUnavailable("the cluster has no slots yet")
        return [*ranges, SlotRange(last=2**14, url=None)]

    def _url(self, host: str | None, port: int, asked: str) -> str | None:
        """Return the URL of a node; a node that does not know its own host has that of the node that replied."""
        if host == "?":
            return None
        return self._redis_url.url((host or urlsplit(asked).hostname or "", port))


class _RoundRobin:
    """Asks servers one after the other until one replies, each time another one first: one may reply outdated data."""

    def __init__(self) -> None:
        self._next = 0

    async def ask(self, urls: Sequence[str], *command: str) -> tuple[Any, str]:
        """Return the first reply, and the URL of its server. Raises `StoreUnavailable`."""
        self._next += 1
        last_error: Exception = StoreUnavailable("it has no address")
        for offset in range(len(urls)):
            url = urls[(self._next + offset) % len(urls)]
            try:
                return await probe(url, *command), url
            except (RedisError, OSError) as error:
                last_error = error
        kind = PermissionDenied if is_denied(last_error) else StoreUnavailable
        raise kind(f"no server says where the store's primaries are: {detail_of(last_error)}") from last_error
