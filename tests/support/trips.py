"""Counts the round trips of a service to Redis, and what each carried."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from acker_service.components import Components
from acker_service.redis.calls import Argument, Call
from acker_service.redis.client import RedisClient
from acker_service.redis.node import Node

from tests.support.redis_side import everywhere


@dataclass(slots=True)
class Trips:
    """The round trips since `clear`: the names of the calls that each carried, in their order.

    Calls that go to several servers at once are one round trip: the caller waits once.
    """

    found: list[tuple[str, ...]] = field(default_factory=list)

    def clear(self) -> None:
        """Begin to count."""
        self.found.clear()

    def of(self, *names: str) -> list[tuple[str, ...]]:
        """Return the round trips that carried a call with such a beginning of its name."""
        return [trip for trip in self.found if any(call.startswith(names) for call in trip)]


@contextmanager
def counted(parts: Components) -> Iterator[Trips]:
    """Count the round trips of a service's client until the block is left."""
    trips = Trips()
    send, begin, on_server = RedisClient._send, RedisClient._begin_at_once, RedisClient._on_server

    async def counted_send(
        self: RedisClient, calls: Sequence[Call[Any]], replicas: int, *, pipelined: bool = False
    ) -> list[Any]:
        if self is parts.redis:
            trips.found.append(tuple(call.name for call in calls))
        return await send(self, calls, replicas, pipelined=pipelined)

    def counted_begin(self: RedisClient, calls: Sequence[Call[Any]], answered: Callable[[list[Any]], None]) -> bool:
        has_begun = begin(self, calls, answered)
        if has_begun and self is parts.redis:
            trips.found.append(tuple(call.name for call in calls))
        return has_begun

    async def counted_on_server(self: RedisClient, node: Node, *command: Argument) -> Any:
        if self is parts.redis and command[0] != "INFO":
            trips.found.append((str(command[0]),))
        return await on_server(self, node, *command)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RedisClient, "_send", counted_send)
        patch.setattr(RedisClient, "_begin_at_once", counted_begin)
        patch.setattr(RedisClient, "_on_server", counted_on_server)
        yield trips


async def command_counts(parts: Components) -> dict[str, int]:
    """Return how often each command ran, as the servers count: for clients and in functions together."""
    totals: dict[str, int] = {}
    for stats in await everywhere(parts, "INFO", "commandstats"):
        for name, stat in stats.items():
            command = name.removeprefix("cmdstat_")
            totals[command] = totals.get(command, 0) + int(stat["calls"])
    return totals
