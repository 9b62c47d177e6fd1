"""Knows how servers are asked who has what: Sentinel for the primary, a cluster's nodes for their slots."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from acker_protocol.errors import StoreUnavailable
from acker_protocol.redis_url import Kind, RedisUrl, read_redis_url
from redis.exceptions import RedisError

from acker_service.redis.node import check, probe
from acker_service.redis.slot_map import Discover, SlotRange, all_slots


def make_discovery(url: str) -> Discover:
    """Give the search that fits an address. Raises `ValueError`."""
    place = read_redis_url(url)
    check(place.url(place.addresses[0]) if place.addresses else url)
    match place.kind:
        case Kind.SENTINEL:
            return SentinelDiscovery(place)
        case Kind.CLUSTER:
            return ClusterDiscovery(place)
        case Kind.STANDALONE:
            return _standalone(url)


def _standalone(url: str) -> Discover:
    async def seek(_: Sequence[str]) -> list[SlotRange]:
        return all_slots(url)

    return seek


class SentinelDiscovery:
    """Asks the sentinels for the address of the primary.

    As clients are told to (redis.io, "Sentinel client spec"), but for the check of its role: a server that is no
    primary refuses writes, and is then sought anew.
    """

    def __init__(self, place: RedisUrl) -> None:
        self._place, self._turns = place, _RoundRobin()

    async def __call__(self, _: Sequence[str]) -> list[SlotRange]:
        """Find the primary."""
        sentinels = [self._place.sentinel_url(address) for address in self._place.addresses]
        found, _ = await self._turns.ask(sentinels, "SENTINEL GET-MASTER-ADDR-BY-NAME", self._place.name)
        if found is None:
            raise StoreUnavailable(f"the sentinels know no primary called {self._place.name}")
        return all_slots(self._place.url(found))


class ClusterDiscovery:
    """Asks the nodes of a cluster for the slots and who has them."""

    def __init__(self, place: RedisUrl) -> None:
        self._place, self._turns = place, _RoundRobin()

    async def __call__(self, known: Sequence[str]) -> list[SlotRange]:
        """Find who has which slots."""
        urls = list(dict.fromkeys([*known, *map(self._place.url, self._place.addresses)]))
        return self._slot_ranges(*await self._turns.ask(urls, "CLUSTER SLOTS"))

    def _slot_ranges(self, slots: list[Any], asked: str) -> list[SlotRange]:
        """Read the answer of CLUSTER SLOTS: per run of slots its first and last, then the primary and the replicas."""
        territories: list[SlotRange] = []
        expected = 0
        for first, last, (host, port, *_), *_ in sorted(slots, key=lambda run: int(run[0])):
            if first > expected:
                territories.append(SlotRange(last=first - 1, url=None))
            territories.append(SlotRange(last=last, url=self._url(host, port, asked)))
            expected = last + 1
        if not territories:
            raise StoreUnavailable("the cluster has no slots yet")
        return [*territories, SlotRange(last=2**14, url=None)]

    def _url(self, host: str | None, port: int, asked: str) -> str | None:
        """Give the URL of a node; one that does not know its own host is where it was asked."""
        if host == "?":
            return None
        return self._place.url((host or urlsplit(asked).hostname or "", port))


class _RoundRobin:
    """Asks servers one after the other until one answers. Another is asked first each time: one may know old things."""

    def __init__(self) -> None:
        self._turn = 0

    async def ask(self, urls: Sequence[str], *command: str) -> tuple[Any, str]:
        """Give the first answer, and who gave it. Raises `StoreUnavailable`."""
        self._turn += 1
        fault: Exception | None = None
        for place in range(len(urls)):
            url = urls[(self._turn + place) % len(urls)]
            try:
                return await probe(url, *command), url
            except (RedisError, OSError) as passed:
                fault = passed
        raise StoreUnavailable(f"nobody says where the store's primaries are: {fault}") from fault
