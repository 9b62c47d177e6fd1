"""Knows how a channel is subscribed to and listened to, as flows for a driver; what was published before it misses."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from acker_protocol.redis_url import Kind, RedisUrl

from acker_client.steps import Flow, Work

if TYPE_CHECKING:
    from acker_protocol.redis_url import Address

MOST_MOVES = 5
"""A channel that is said to be elsewhere so often in a row is nowhere for now."""

_log = logging.getLogger(__name__)


class Away(Exception):
    """Redis cannot be reached, does not answer, or has ended the subscription."""


class Moved(Exception):
    """Another server of the cluster has the channel."""

    def __init__(self, address: "Address") -> None:
        super().__init__(f"the channel is at {address[0]}:{address[1]}")
        self.address = address


class Wire(Protocol):
    """A connection to one Redis. Raises `Away` and `Moved`; awaited in a loop."""

    def send(self, *command: str) -> Any:
        """Send a command."""

    def read(self, seconds: float) -> Any:
        """Give the next answer or message, None if there is none in time."""

    def close(self) -> Any:
        """Close it; it may be broken."""


Open = Callable[[str, float], Any]
"""Opens a wire to the server with this URL, which has so many seconds for each answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """A channel, the Redis that publishes on it, and how long its servers have to answer."""

    url: str
    place: RedisUrl
    channel: str
    patience_s: float

    @property
    def verb(self) -> str:
        """How the channel is subscribed to: in a cluster one server has it."""
        return "SSUBSCRIBE" if self.place.kind is Kind.CLUSTER else "SUBSCRIBE"


class Subscription:
    """A subscription to one channel. It is made, and made again, by `confirm`; a loss ends it until then."""

    def __init__(self, station: Station, open_wire: Open) -> None:
        self._station, self._open = station, open_wire
        self._wire: Wire | None = None
        self._early: deque[bytes] = deque()

    @property
    def on(self) -> bool:
        """Whether, as far as is known, messages come."""
        return self._wire is not None

    def confirm(self) -> Flow[None]:
        """Subscribe, or have it confirmed that this still is so. Afterwards it may be off: Redis is away."""
        try:
            if self._wire is None:
                yield from self._tune_in()
            else:
                yield from self._ask()
        except (Away, Moved) as fault:
            _log.warning("cannot subscribe to %s: %s", self._station.channel, fault)
            yield from self.close()

    def hear(self, seconds: float) -> Flow[bytes | None]:
        """Give the next message; None if none comes in time, or the subscription is lost."""
        if self._early:
            return self._early.popleft()
        try:
            return (yield from self._next(seconds))[1]
        except (Away, Moved) as fault:
            _log.warning("the subscription to %s is lost: %s", self._station.channel, fault)
            yield from self.close()
        return None

    def close(self) -> Flow[None]:
        """End it."""
        wire, self._wire = self._wire, None
        if wire is not None:
            yield Work(do=wire.close)

    def _tune_in(self) -> Flow[None]:
        self._early.clear()
        self._wire = yield from self._open_any((yield from self._urls()))
        for _ in range(MOST_MOVES):
            try:
                yield from self._ask()
            except Moved as moved:
                yield from self.close()
                self._wire = yield from self._open_any([self._station.place.url(moved.address)])
            else:
                return
        raise Away("the cluster does not know where the channel is")

    def _ask(self) -> Flow[None]:
        """Subscribe, and wait for the confirmation; what is published before it comes is kept."""
        assert self._wire is not None
        yield Work(do=partial(self._wire.send, self._station.verb, self._station.channel))
        while True:
            kind, data = yield from self._next(self._station.patience_s)
            if kind == self._station.verb.lower():
                return
            if data is None:
                raise Away("it did not confirm the subscription in time")
            self._early.append(data)

    def _next(self, seconds: float) -> Flow[tuple[str, bytes | None]]:
        """Give what comes next, and its data if it is a message; no kind if nothing comes in time."""
        assert self._wire is not None
        match (yield Work(do=partial(self._wire.read, seconds))):
            case None:
                return "", None
            case [b"message" | b"smessage", _, bytes(data)]:
                return "message", data
            case [b"subscribe" | b"ssubscribe" as kind, *_]:
                return kind.decode(), None
            case _:
                raise Away("it has ended the subscription")

    def _urls(self) -> Flow[list[str]]:
        """Say where to ask: at the server, at some nodes of the cluster, or at the primary that a sentinel names."""
        place = self._station.place
        if place.kind is Kind.STANDALONE:
            return [self._station.url]
        if place.kind is Kind.CLUSTER:
            return [place.url(address) for address in place.addresses]
        return [place.url((yield from self._primary(map(place.sentinel_url, place.addresses))))]

    def _primary(self, sentinels: Iterator[str]) -> Flow["Address"]:
        fault = Away(f"no sentinel knows {self._station.place.name}")
        for url in sentinels:
            try:
                found = yield from self._named_by(url)
            except Away as away:
                fault = away
            else:
                if found is not None:
                    return found
        raise fault

    def _named_by(self, sentinel: str) -> Flow["Address | None"]:
        wire = yield from self._open_any([sentinel])
        try:
            yield Work(do=partial(wire.send, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._station.place.name))
            found: Any = yield Work(do=partial(wire.read, self._station.patience_s))
        except Away:
            yield Work(do=wire.close)
            raise
        yield Work(do=wire.close)
        return None if found is None else (found[0].decode(), int(found[1]))

    def _open_any(self, urls: list[str]) -> Flow[Wire]:
        fault = Away("nowhere to ask")
        for url in urls:
            try:
                return cast("Wire", (yield Work(do=partial(self._open, url, self._station.patience_s))))
            except Away as away:
                fault = away
        raise fault
