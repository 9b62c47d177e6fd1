"""Knows how the calls of one turn of the event loop share one call a shard.

A program that sends single operations over many connections would else pay one round trip to Redis for each. Every
request keeps its own key and its own answer; they are applied one after the other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from acker_protocol.errors import StoreFull

from acker_service.redis import functions
from acker_service.redis.calls import Argument
from acker_service.redis.client import RedisClient
from acker_service.redis.functions import Applied, AppliedRequests, ApplyFunction
from acker_service.redis.stamp import Stamp
from acker_service.topologies.stamp import Topology

APPLY, APPLY_WITHOUT_INITS = functions.apply, functions.apply_without_inits
"""The functions that apply requests: Redis refuses the first when its memory is full; the second refuses all inits."""

MAX_CALL_BYTES = 4 * 1024 * 1024
"""A shared call is not made larger than this; a single request may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRequest:
    """A request's part for one shard: its packed operations, and how the shard knows it again (`packing.identify`)."""

    operations: bytes
    fingerprint: tuple[str, str, str] = ("", "", "")

    @property
    def args(self) -> tuple[Argument, ...]:
        """The part as arguments of an apply function."""
        return *self.fingerprint, self.operations


@dataclass(slots=True)
class _PendingCall:
    requests: list[ShardRequest] = field(default_factory=list)
    results: list[asyncio.Future[Applied]] = field(default_factory=list)
    size: int = 0


class ApplyBatcher:
    """Gathers the requests of one turn of the event loop and sends them together."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server
        self._calls: dict[tuple[str, Stamp, bytes, ApplyFunction], list[_PendingCall]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def apply(self, topology: Topology, shard: int, function: ApplyFunction, request: ShardRequest) -> Applied:
        """Apply a request's part to a shard.

        The call goes on if the caller is cancelled: it may have reached Redis. Raises `Stale`, `StoreUnavailable`.
        """
        loop = asyncio.get_running_loop()
        if not self._calls:
            loop.call_soon(self._send)
        calls = self._calls.setdefault((topology.shards[shard], topology.stamp, topology.settings, function), [])
        if not calls or calls[-1].size + len(request.operations) > MAX_CALL_BYTES:
            calls.append(_PendingCall())
        call = calls[-1]
        answer: asyncio.Future[Applied] = loop.create_future()
        call.requests.append(request)
        call.results.append(answer)
        call.size += len(request.operations)
        return await answer

    def _send(self) -> None:
        gathered, self._calls = self._calls, {}
        for (key, pair, settings, function), calls in gathered.items():
            for call in calls:
                task = asyncio.create_task(self._run(call, key, pair, settings, function))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run(self, call: _PendingCall, key: str, stamp: Stamp, settings: bytes, function: ApplyFunction) -> None:
        args = [arg for request in call.requests for arg in request.args]
        try:
            reply = await apply_or_refuse_inits(self._server, function, key, stamp, (settings, b"", args))
        except Exception as fault:  # noqa: BLE001 - every fault goes to those who wait
            for answer in call.results:
                _resolve(answer, fault)
            return
        for answer, applied in zip(call.results, reply.results, strict=True):
            _resolve(answer, applied)


async def apply_or_refuse_inits(
    server: RedisClient,
    function: ApplyFunction,
    key: str,
    stamp: Stamp,
    args: tuple[bytes, bytes, Sequence[Argument]],
) -> AppliedRequests:
    """Call an apply function; if Redis has no memory for it, the one that refuses inits and does all the rest."""
    try:
        return await server.execute(function(*args).at(key, stamp))
    except StoreFull:
        return await server.execute(APPLY_WITHOUT_INITS(*args).at(key, stamp))


def _resolve(answer: asyncio.Future[Applied], result: Applied | Exception) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
