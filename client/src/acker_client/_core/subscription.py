"""Subscribes to a channel of Redis and listens to it; what was published before the subscription is missed."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from acker_protocol.redis_url import Kind, RedisUrl, read_redis_url
from acker_protocol.routes import channel

from acker_client._core.effects import Flow, RunBlocking
from acker_client.errors import UsageError

if TYPE_CHECKING:
    from acker_protocol.redis_url import Address

MAX_REDIRECTS = 5
"""After so many redirects in a row no server of the cluster has the channel."""

_log = logging.getLogger("acker_client")


class Disconnected(Exception):
    """Redis cannot be reached, does not answer, or has ended the subscription."""


class Redirected(Exception):
    """Another server of the cluster has the channel."""

    def __init__(self, address: "Address") -> None:
        super().__init__(f"the channel is at {address[0]}:{address[1]}")
        self.address = address


class PubSubConnection(Protocol):
    """A connection to one Redis. Raises `Disconnected` and `Redirected`; its methods are awaited in a loop."""

    def send(self, *command: str) -> Any:
        """Send a command."""

    def read(self, seconds: float) -> Any:
        """Return the next reply or message, None if none comes in time."""

    def close(self) -> Any:
        """Close it; it may be broken."""


Connect = Callable[[str, float], Any]
"""Opens a connection to the server with this URL; the number is the seconds that each of its replies may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A channel, the Redis that publishes on it, and the seconds that its servers have for a reply."""

    url: str = field(repr=False)
    location: RedisUrl
    name: str
    timeout_s: float

    @property
    def command(self) -> str:
        """The command that subscribes: in a cluster one server has the channel."""
        return "SSUBSCRIBE" if self.location.kind is Kind.CLUSTER else "SUBSCRIBE"


def spout_channel(redis_url: str, *, topology: str, spout_task: str, timeout_s: float) -> Channel:
    """Return the channel on which a Redis publishes the completions of a spout task. Raises `UsageError`."""
    try:
        location = read_redis_url(redis_url)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return Channel(url=redis_url, location=location, name=channel(topology, spout_task), timeout_s=timeout_s)


class Subscription:
    """A subscription to one channel. `confirm` makes it, and makes it again; a loss ends it until then."""

    def __init__(self, source: Channel, connect: Connect) -> None:
        self._channel = source
        self._open = connect
        self._connection: PubSubConnection | None = None
        self._early: deque[bytes] = deque()

    @property
    def is_subscribed(self) -> bool:
        """Whether messages come, as far as is known."""
        return self._connection is not None

    def confirm(self) -> Flow[None]:
        """Subscribe, or have a subscription confirmed. Without a Redis that answers there is none afterwards."""
        try:
            if self._connection is None:
                yield from self._connect()
            else:
                yield from self._subscribe()
        except (Disconnected, Redirected) as error:
            _log.warning("cannot subscribe to %s: %s", self._channel.name, error)
            yield from self.close()

    def next_message(self, seconds: float) -> Flow[bytes | None]:
        """Yield the next message; None if none comes in time, or the subscription is lost."""
        if self._early:
            return self._early.popleft()
        try:
            return (yield from self._next(seconds))[1]
        except (Disconnected, Redirected) as error:
            _log.warning("the subscription to %s is lost: %s", self._channel.name, error)
            yield from self.close()
        return None

    def close(self) -> Flow[None]:
        """End it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            yield RunBlocking(function=connection.close)

    def _connect(self) -> Flow[None]:
        self._early.clear()
        self._connection = yield from self._open_any((yield from self._urls()))
        for _ in range(MAX_REDIRECTS):
            try:
                yield from self._subscribe()
            except Redirected as redirect:
                yield from self.close()
                self._connection = yield from self._open_any([self._channel.location.url(redirect.address)])
            else:
                return
        raise Disconnected("the servers of the cluster redirect to one another")

    def _subscribe(self) -> Flow[None]:
        """Subscribe, and wait for the confirmation; what is published before it comes is kept."""
        assert self._connection is not None
        yield RunBlocking(function=partial(self._connection.send, self._channel.command, self._channel.name))
        while True:
            kind, data = yield from self._next(self._channel.timeout_s)
            if kind == self._channel.command.lower():
                return
            if data is None:
                raise Disconnected("it did not confirm the subscription in time")
            self._early.append(data)

    def _next(self, seconds: float) -> Flow[tuple[str, bytes | None]]:
        """Yield the kind of what comes next, and its data if it is a message; no kind if nothing comes in time."""
        assert self._connection is not None
        match (yield RunBlocking(function=partial(self._connection.read, seconds))):
            case None:
                return "", None
            case [b"message" | b"smessage", _, bytes(data)]:
                return "message", data
            case [b"subscribe" | b"ssubscribe" as kind, *_]:
                return kind.decode(), None
            case _:
                raise Disconnected("it has ended the subscription")

    def _urls(self) -> Flow[list[str]]:
        """List the servers to try: the one, some nodes of the cluster, or the primary that a sentinel names."""
        location = self._channel.location
        if location.kind is Kind.STANDALONE:
            return [self._channel.url]
        if location.kind is Kind.CLUSTER:
            return [location.url(address) for address in location.addresses]
        return [location.url((yield from self._primary(map(location.sentinel_url, location.addresses))))]

    def _primary(self, sentinels: Iterator[str]) -> Flow["Address"]:
        failure = Disconnected(f"no sentinel knows {self._channel.location.name}")
        for url in sentinels:
            try:
                found = yield from self._ask_sentinel(url)
            except Disconnected as error:
                failure = error
            else:
                if found is not None:
                    return found
        raise failure

    def _ask_sentinel(self, url: str) -> Flow["Address | None"]:
        connection = yield from self._open_any([url])
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._channel.location.name)
        try:
            yield RunBlocking(function=partial(connection.send, *command))
            found: Any = yield RunBlocking(function=partial(connection.read, self._channel.timeout_s))
        except Disconnected:
            yield RunBlocking(function=connection.close)
            raise
        yield RunBlocking(function=connection.close)
        return None if found is None else (found[0].decode(), int(found[1]))

    def _open_any(self, urls: list[str]) -> Flow[PubSubConnection]:
        failure = Disconnected("there is no server to connect to")
        for url in urls:
            try:
                connect = partial(self._open, url, self._channel.timeout_s)
                return cast("PubSubConnection", (yield RunBlocking(function=connect)))
            except Disconnected as error:
                failure = error
        raise failure
