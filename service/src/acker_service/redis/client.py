"""Knows the store's servers as one: what is asked goes to where its key lives, what goes wrong becomes a problem."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from acker_protocol.errors import ServiceError, StoreUnavailable
from acker_protocol.redis_url import Kind, read_redis_url
from redis.exceptions import RedisError

from acker_service.metrics.instruments import RedisMetrics
from acker_service.redis import errors, library
from acker_service.redis.discovery import make_discovery
from acker_service.redis.durability import RELAXED, Durability
from acker_service.redis.errors import to_problem
from acker_service.redis.node import Argument, Command, Node
from acker_service.redis.slot_map import SlotMap

Call = tuple[str, Sequence[Argument]]
"""The key whose place a function is called at, and the arguments."""


class RedisClient:
    """One Redis or Valkey, or several.

    Every fault comes out as `StoreUnavailable`, a refusal for memory as `StoreFull`.
    Nothing is sent twice, but for what a server refused before it had begun: because another one has the key now, or
    because it does not know the function library, which is put there first.
    """

    def __init__(
        self,
        url: str,
        meters: RedisMetrics,
        *,
        durability: Durability = RELAXED,
        connections: int = 64,
        timeout: float = 5.0,
    ) -> None:
        """Name the store; ``connections`` to each of its servers, ``timeout`` in seconds bounds every answer.

        Raises `ValueError` for an address that is none.
        """
        self.url, self._meters = url, meters
        self._primaries = SlotMap(make_discovery(url), connections=connections, timeout=timeout)
        self._replicas = durability.replicas
        self._publishes = "SPUBLISH" if read_redis_url(url).kind is Kind.CLUSTER else "PUBLISH"

    @property
    def generation(self) -> int:
        """Is another one after keys went to other servers, which may have lost what was known of them."""
        return self._primaries.generation

    async def call(self, function: str, keys: Sequence[str], *args: Argument) -> Any:
        """Call a function of the library at the place of its first key."""
        return (await self._call_each([("FCALL", function, len(keys), *keys, *args)], self._replicas_for(function)))[0]

    async def call_each(self, function: str, calls: Sequence[Call]) -> list[Any]:
        """Call a function once per key, in one round trip to each server; each call is atomic by itself."""
        return await self._call_each(
            [("FCALL", function, 1, key, *args) for key, args in calls], self._replicas_for(function)
        )

    async def read(self, command: str, key: str, *args: Argument) -> Any:
        """Run a plain command that reads a key."""
        return (await self.read_each([(command, key, *args)]))[0]

    async def read_each(self, commands: Sequence[Command]) -> list[Any]:
        """Run plain commands, each of which reads the key that it names first."""
        return await self._call_each(commands, 0)

    async def publish(self, channel: str, message: bytes) -> None:
        """Publish a message; in a cluster on the shard channel of that name."""
        await self._call_each([(self._publishes, channel, message)], 0)

    async def wait_replicated(self, key: str) -> None:
        """See to it that what was just read at the place of a key counts as written, as `Durability` has it.

        Another replica of the service may have written it, and may still be waiting for that itself.
        """
        if self._replicas:
            await self.call("acker_barrier_v1", [key])

    async def on_every_server(self, *command: Argument) -> list[Any]:
        """Run a plain command that reads a server's own state, on every server."""
        nodes = await self._primaries.all()
        return list(await asyncio.gather(*(self._on_server(node, *command) for node in nodes)))

    async def on_any_server(self, *command: Argument) -> list[Any]:
        """Run a plain command likewise, and give the answers of those that answered.

        Raises `StoreUnavailable` if none did.
        """
        nodes = await self._primaries.all()
        answers = await asyncio.gather(*(self._on_server(node, *command) for node in nodes), return_exceptions=True)
        found = [answer for answer in answers if not isinstance(answer, BaseException)]
        if not found:
            raise StoreUnavailable("no server of the store answers")
        return found

    async def now_ms(self, key: str) -> int:
        """Tell the time, by the clock of the server that has a key."""
        seconds, microseconds = await self._on_server(await self._primaries.of(key), "TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def load(self) -> None:
        """Put the function library wherever it is missing. Raises `StoreUnavailable` if no server took it."""
        nodes = await self._primaries.all()
        loaded = await asyncio.gather(*(node.load() for node in nodes), return_exceptions=True)
        failed = [fault for fault in loaded if isinstance(fault, ServiceError)]
        if len(failed) == len(nodes):
            raise failed[0]

    async def listen(self, channels: Sequence[str], take: Callable[[bytes], None]) -> None:
        """Take what is published on shard channels until cancelled, or until a server ends it (`StoreUnavailable`)."""
        change, nodes = self._primaries.change, dict[Node, list[str]]()
        for channel in channels:
            nodes.setdefault(await self._primaries.of(channel), []).append(channel)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_end_at(change))
                for node, own in nodes.items():
                    group.create_task(node.listen(own, take))
        except ExceptionGroup as ended:
            fault = ended.exceptions[0]
            if not isinstance(fault, (ServiceError, RedisError, OSError)):
                raise fault from ended
            self._primaries.mark_stale()
            raise to_problem(fault) from ended

    async def close(self) -> None:
        """Close all connections."""
        await self._primaries.close()

    def _replicas_for(self, function: str) -> int:
        return 0 if function in library.NOT_REPLICATED else self._replicas

    async def _call_each(self, commands: Sequence[Command], replicas: int) -> list[Any]:
        replies = await self._send(commands, replicas)
        undone = [index for index, reply in enumerate(replies) if errors.was_not_started(reply)]
        if undone:
            await self._recover([replies[index] for index in undone])
            again = await self._send([commands[index] for index in undone], replicas)
            for index, reply in zip(undone, again, strict=True):
                replies[index] = reply
        for reply in replies:
            if isinstance(reply, Exception):
                self._meters.faults[errors.label(reply)].inc()
                if errors.suggests_moved_slots(reply):
                    self._primaries.mark_stale()
                raise to_problem(reply) from reply
            if isinstance(reply, list) and reply[:1] == [b"stale"]:
                self._meters.stale.inc()
        return replies

    async def _recover(self, undone: Sequence[object]) -> None:
        """Put right what kept commands from being begun."""
        if any(map(errors.is_moved, undone)):
            self._meters.moves.inc()
            await self._primaries.refresh()
        if any(map(library.is_missing, undone)):
            self._meters.library_loads.inc()
            await self.load()

    async def _send(self, commands: Sequence[Command], replicas: int) -> list[Any]:
        """Send each command to the server that has its key; those of one server together."""
        parts: dict[Node, list[int]] = {}
        for index, command in enumerate(commands):
            parts.setdefault(await self._primaries.of(_key(command)), []).append(index)
        replies: list[Any] = [None] * len(commands)
        runs = [self._run(node, [commands[index] for index in own], replicas) for node, own in parts.items()]
        results = [await runs[0]] if len(runs) == 1 else await asyncio.gather(*runs)
        for own, result in zip(parts.values(), results, strict=True):
            for index, reply in zip(own, result, strict=True):
                replies[index] = reply
        return replies

    async def _run(self, node: Node, commands: Sequence[Command], replicas: int) -> list[Any]:
        """Send commands to one server; a fault of the connection is the answer to each of them."""
        with self._meters.round_trip(_name(commands[0]), len(commands)):
            try:
                return await node.run(commands, replicas=replicas)
            except (RedisError, OSError) as fault:
                return [fault] * len(commands)

    async def _on_server(self, node: Node, *command: Argument) -> Any:
        try:
            with self._meters.round_trip(str(command[0]), 1):
                return await node.command(*command)
        except ServiceError as problem:
            self._meters.faults[errors.label(problem)].inc()
            if errors.suggests_moved_slots(problem.__cause__):
                self._primaries.mark_stale()
            raise


async def _end_at(change: asyncio.Event) -> None:
    await change.wait()
    raise StoreUnavailable("keys went to other servers")


def _name(command: Command) -> str:
    return str(command[1] if command[0] == "FCALL" else command[0])


def _key(command: Command) -> str:
    return str(command[3] if command[0] == "FCALL" else command[1])
