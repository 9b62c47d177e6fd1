"""Sends commands to the servers that have their keys, and raises what goes wrong as service errors."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from acker_protocol.errors import ServiceError, StoreUnavailable
from acker_protocol.redis_url import Kind, read_redis_url
from redis.exceptions import RedisError

from acker_service.background import cancel_and_wait
from acker_service.metrics.instruments import RedisMetrics
from acker_service.redis import errors, functions, keys, library, rights
from acker_service.redis.calls import Argument, Call, nothing, read
from acker_service.redis.discovery import make_discovery
from acker_service.redis.durability import RELAXED, Durability
from acker_service.redis.errors import to_problem
from acker_service.redis.node import Node
from acker_service.redis.outages import OutageLog
from acker_service.redis.slot_map import SlotMap
from acker_service.redis.stamp import StaleStamp

R = TypeVar("R")

_log = logging.getLogger(__name__)


class RedisClient:
    """One Redis or Valkey, or several. ``is_cluster`` says that one call may not name keys of several shards.

    Every error comes out as `StoreUnavailable`, a refusal for lack of memory as `StoreFull`.
    A command is sent again in two cases only: the key moved to another server, or the library was missing and has now
    been loaded.
    """

    def __init__(
        self,
        url: str,
        metrics: RedisMetrics,
        *,
        durability: Durability = RELAXED,
        connections: int = 64,
        timeout: float = 5.0,
        supervised: bool = False,
    ) -> None:
        """Name the store; ``connections`` to each server, ``timeout`` in seconds bounds every reply.

        ``supervised`` says that a supervisor logs when the server ends and runs again.

        Raises `ValueError` for an address that cannot be used.
        """
        self.url = url
        self._metrics = metrics
        self._outages = OutageLog(supervised=supervised)
        self._slot_map = SlotMap(make_discovery(url), self._outages, connections=connections, timeout=timeout)
        self._replicas = durability.replicas
        self._writes: set[asyncio.Task[bool]] = set()
        self._following: set[asyncio.Task[None]] = set()
        self.is_cluster = read_redis_url(url).kind is Kind.CLUSTER
        self._publish_command = "SPUBLISH" if self.is_cluster else "PUBLISH"

    @property
    def generation(self) -> int:
        """Changes when keys move to other servers, which may have lost what a cache holds of them."""
        return self._slot_map.generation

    async def execute(self, call: Call[R]) -> R:
        """Make a call and decode its reply."""
        [reply] = await self._call_each([call], self._replicas if call.confirm else 0)
        return call.decode(reply)

    async def execute_each(self, calls: Sequence[Call[R]]) -> list[R]:
        """Make several calls in one round trip to each server; each call is atomic by itself.

        A server makes those that it gets in their order.
        """
        replicas = self._replicas if any(call.confirm for call in calls) else 0
        replies = await self._call_each(calls, replicas)
        return [call.decode(reply) for call, reply in zip(calls, replies, strict=True)]

    def begin_some(self, calls: Sequence[Call[R]], answered: Callable[[list[R | Exception]], None]) -> None:
        """Make several calls in one round trip to each server; each has its own result, or the error that it met.

        ``answered`` is called once with all of them. The round trips to a server share one connection, and several are
        in flight on it: for frequent, short calls. An error is a service error or `StaleStamp`. The error of one call
        changes nothing about the others.

        The calls are written at once. A task is made only where something has to be waited for: a server that is not
        known, its connection or its library, replicas, a call that has to be sent again.
        """
        if not self._begin_at_once(calls, answered):
            self._follow(self._execute_some(calls), calls, answered)

    def _begin_at_once(self, calls: Sequence[Call[R]], answered: Callable[[list[R | Exception]], None]) -> bool:
        if self._replicas and any(call.confirm for call in calls):
            return False
        node = self._slot_map.known([call.key for call in calls])
        return node is not None and node.begin(calls, partial(self._note, node, calls, answered, time.perf_counter()))

    def _note(
        self,
        node: Node,
        calls: Sequence[Call[R]],
        answered: Callable[[list[R | Exception]], None],
        started: float,
        replies: list[Any] | Exception,
    ) -> None:
        """Count a round trip, and pass the results on, or have those calls sent again that were not started."""
        self._metrics.count_round_trip(calls[0].name, len(calls), started)
        received = [replies] * len(calls) if isinstance(replies, Exception) else replies
        self._outages.note(node.name, calls, received)
        if any(map(errors.was_not_started, errors.errors_in(received))):
            self._follow(self._complete(calls, received, 0), calls, answered)
            return
        try:
            results = list(map(self._result, calls, received))
        except Exception as error:  # noqa: BLE001 - everyone who waits gets the error
            results = [error] * len(calls)
        answered(results)

    def _follow(
        self,
        results: Coroutine[Any, Any, list[R | Exception]],
        calls: Sequence[Call[R]],
        answered: Callable[[list[R | Exception]], None],
    ) -> None:
        """Pass on what a task of its own results in; where that fails, every call has the error."""

        async def follow() -> None:
            try:
                found = await results
            except Exception as error:  # noqa: BLE001 - everyone who waits gets the error
                found = [error] * len(calls)
            answered(found)

        task = asyncio.create_task(follow())
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _execute_some(self, calls: Sequence[Call[R]]) -> list[R | Exception]:
        replicas = self._replicas if any(call.confirm for call in calls) else 0
        try:
            replies = await self._send(calls, replicas, pipelined=True)
        except ServiceError as error:  # a server is not known: nothing was sent
            return [error] * len(calls)
        return await self._complete(calls, replies, replicas)

    async def _complete(self, calls: Sequence[Call[R]], replies: list[Any], replicas: int) -> list[R | Exception]:
        """Have those calls sent again that were not started, and return the results of all."""
        try:
            await self._retry_not_started(calls, replies, replicas)
        except ServiceError as error:
            replies = [error if errors.was_not_started(reply) else reply for reply in replies]
        return list(map(self._result, calls, replies))

    def server_of(self, key: str) -> str | None:
        """Return the address of the server that has a key; None if none is known now."""
        return self._slot_map.url_of(key)

    async def execute_each_then(self, calls: Sequence[Call[R]], last: Call[Any]) -> list[R]:
        """Make several calls and, when all are made, one more: in the same round trip if one server has all keys."""
        nodes = {await self._slot_map.of(call.key) for call in (*calls, last)}
        # rule: the lease goes back in the round trip that settles
        if len(nodes) == 1:
            # rule: the lease is released when all is settled
            return (await self.execute_each([*calls, last]))[:-1]
        replies = await self.execute_each(calls)
        await self.execute(last)
        return replies

    async def publish(self, channel: str, *messages: bytes) -> None:
        """Publish messages in one round trip; in a cluster on the shard channel of that name."""
        await self.execute_each([read(self._publish_command, channel, message, decode=nothing) for message in messages])

    async def wait_replicated(self, call: Call[Any]) -> None:
        """Wait until enough replicas have what a call just read, as `Durability` demands.

        Another replica of the service may have written it, and may still be waiting for the same.
        """
        if self._replicas:
            await self.execute(functions.topologies.barrier(call.key))

    async def on_every_server(self, *command: Argument) -> list[Any]:
        """Run a plain command that reads a server's own state, on every server."""
        nodes = await self._slot_map.all()
        return list(await asyncio.gather(*(self._on_server(node, *command) for node in nodes)))

    async def on_any_server(self, *command: Argument) -> list[Any]:
        """Run a plain command that reads a server's own state, on every server; give the replies of those that answer.

        Raises `StoreUnavailable` if none answers.
        """
        nodes = await self._slot_map.all()
        replies = await asyncio.gather(*(self._on_server(node, *command) for node in nodes), return_exceptions=True)
        received = [reply for reply in replies if not isinstance(reply, BaseException)]
        if not received:
            raise StoreUnavailable("no server of the store answers")
        return received

    async def now_ms(self, key: str = keys.TOPOLOGIES) -> int:
        """Read the clock of the server that has a key, or else of the one that has the configuration."""
        seconds, microseconds = await self._on_server(await self._slot_map.of(key), "TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def load(self) -> None:
        """Load the function library wherever it is missing, and check the login's rights.

        Raises `LayoutMismatch` for a store of another layout, before anything is loaded; `PermissionDenied` if the
        login lacks a right on a server, `StoreUnavailable` if no server loads it.
        """
        nodes = await self._slot_map.all()
        await self.check_layout()
        loaded = await asyncio.gather(*(node.load() for node in nodes), return_exceptions=True)
        for node, error in zip(nodes, loaded, strict=True):
            if isinstance(error, ServiceError):
                self._outages.failed(node.name, error)
        failed = [error for error in loaded if isinstance(error, ServiceError)]
        denied = [error for error in failed if errors.is_denied(error)]
        if denied or len(failed) == len(nodes):
            raise (denied or failed)[0]

    async def missing_rights(self) -> list[str]:
        """Return the commands that some server does not let the login run, of those that are not always needed."""
        commands = [*rights.HINTS, rights.delivery(self._publish_command), *(rights.WAIT if self._replicas else ())]
        nodes = await self._slot_map.all()
        lacking = await asyncio.gather(*(node.missing_rights(commands) for node in nodes))
        return list(dict.fromkeys(command for own in lacking for command in own))

    async def takes_writes(self, some_keys: Iterable[str]) -> bool:
        """Whether a write succeeds, as `Durability` demands, on one of the servers that have these keys.

        The other servers may answer later, or not at all.
        """
        key_by_node: dict[Node, str] = {}
        with contextlib.suppress(StoreUnavailable):
            await self._slot_map.all()  # discovers the servers once, not for each key
            for key in some_keys:
                with contextlib.suppress(StoreUnavailable):
                    key_by_node.setdefault(await self._slot_map.of(key), key)
        writes = {asyncio.create_task(self._takes_write(key)) for key in key_by_node.values()}
        for write in writes:
            self._writes.add(write)
            write.add_done_callback(self._writes.discard)
        while writes:
            done, writes = await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
            if any(write.result() for write in done):
                return True
        return False

    async def listen(self, channels: Sequence[str], on_message: Callable[[bytes, bytes], None]) -> None:
        """Pass on what is published on shard channels, with the channel, until cancelled or until a server ends it.

        Raises `StoreUnavailable` when a connection ends or keys move to other servers.
        """
        change, nodes = self._slot_map.change, dict[Node, list[str]]()
        for channel in channels:
            nodes.setdefault(await self._slot_map.of(channel), []).append(channel)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_end_when(change))
                for node, own in nodes.items():
                    group.create_task(node.listen(own, on_message))
        except ExceptionGroup as group_error:
            error = group_error.exceptions[0]
            if not isinstance(error, (ServiceError, RedisError, OSError)):
                raise error from group_error
            if not errors.is_denied(error):
                self._slot_map.mark_stale()
            raise to_problem(error) from group_error

    async def close(self) -> None:
        """Close all connections."""
        await cancel_and_wait(*self._writes)
        await self._slot_map.close()

    async def check_layout(self) -> None:
        """Raise `LayoutMismatch` for a store of another layout; one that does not answer is checked when it is used."""
        try:
            node = await self._slot_map.of(keys.TOPOLOGIES)
            await node.check_layout()
        except errors.LayoutMismatch:
            raise
        except StoreUnavailable as error:
            _log.debug("the layout is checked later: %s", error.detail)

    async def _takes_write(self, key: str) -> bool:
        try:
            await self.execute(functions.topologies.barrier(key))
        except ServiceError:
            return False
        return True

    async def _call_each(self, calls: Sequence[Call[Any]], replicas: int) -> list[Any]:
        replies = await self._send(calls, replicas)
        if errors.errors_in(replies):
            await self._retry_not_started(calls, replies, replicas)
        for reply in replies:
            self._check(reply)
        return replies

    def _check(self, reply: object) -> None:
        """Count what went wrong with a call. Raises the service error for the error that is its reply."""
        if isinstance(reply, Exception):
            self._metrics.faults[errors.label(reply)].inc()
            if errors.suggests_moved_slots(reply):
                self._slot_map.mark_stale()
            raise to_problem(reply) from reply
        if isinstance(reply, list) and reply and reply[0] == b"stale":
            self._metrics.stale.inc()

    def _result(self, call: Call[R], reply: Any) -> R | Exception:
        try:
            self._check(reply)
            return call.decode(reply)
        except (ServiceError, StaleStamp) as error:
            return error

    async def _retry_not_started(self, calls: Sequence[Call[Any]], replies: list[Any], replicas: int) -> None:
        """Send the calls once more that were not started, and replace their replies."""
        not_started = [index for index, reply in enumerate(replies) if errors.was_not_started(reply)]
        if not_started:
            await self._recover([replies[index] for index in not_started])
            retried = await self._send([calls[index] for index in not_started], replicas)
            for index, reply in zip(not_started, retried, strict=True):
                replies[index] = reply

    async def _recover(self, replies: Sequence[object]) -> None:
        """Remove the cause that kept commands from being started."""
        if any(map(errors.is_moved, replies)):
            self._metrics.moves.inc()
            await self._slot_map.refresh()
        if any(map(library.is_missing, replies)):
            self._metrics.library_loads.inc()
            with contextlib.suppress(errors.PermissionDenied):  # of another server; that of this one, the retry raises
                await self.load()

    async def _send(self, calls: Sequence[Call[Any]], replicas: int, *, pipelined: bool = False) -> list[Any]:
        """Send each call to the server that has its key; those of one server together."""
        parts: dict[Node, list[int]] = {}
        for index, call in enumerate(calls):
            parts.setdefault(await self._slot_map.of(call.key), []).append(index)
        replies: list[Any] = [None] * len(calls)
        runs = [
            self._run(node, [calls[index] for index in own], replicas, pipelined=pipelined)
            for node, own in parts.items()
        ]
        results = [await runs[0]] if len(runs) == 1 else await asyncio.gather(*runs)
        for own, result in zip(parts.values(), results, strict=True):
            for index, reply in zip(own, result, strict=True):
                replies[index] = reply
        return replies

    async def _run(self, node: Node, calls: Sequence[Call[Any]], replicas: int, *, pipelined: bool) -> list[Any]:
        """Send calls to one server; an error of the connection is the reply to each of them."""
        with self._metrics.round_trip(calls[0].name, len(calls)):
            try:
                replies = await node.run(calls, replicas=replicas, pipelined=pipelined)
            except (RedisError, OSError, errors.PermissionDenied) as error:
                replies = [error] * len(calls)
        self._outages.note(node.name, calls, replies)
        return replies

    async def _on_server(self, node: Node, *command: Argument) -> Any:
        try:
            with self._metrics.round_trip(str(command[0]), 1):
                reply = await node.command(*command)
        except ServiceError as error:
            self._outages.failed(node.name, error)
            self._metrics.faults[errors.label(error)].inc()
            if errors.suggests_moved_slots(error.__cause__):
                self._slot_map.mark_stale()
            raise
        self._outages.answered(node.name)
        return reply


async def _end_when(change: asyncio.Event) -> None:
    await change.wait()
    raise StoreUnavailable("keys went to other servers")
