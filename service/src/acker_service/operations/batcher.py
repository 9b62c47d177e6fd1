"""Sends the requests of one turn of the event loop together: one call for each shard.

A program that sends single operations over many connections would otherwise pay a round trip to Redis for each. Every
request keeps its own key and its own result; Redis applies them one after the other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from acker_protocol.errors import StoreFull

from acker_service.redis import apply_functions
from acker_service.redis.apply_functions import AppliedRequests, ApplyFunction, ApplyLimits, Result
from acker_service.redis.client import RedisClient
from acker_service.redis.codec import ShardRequest
from acker_service.redis.stamp import Stamp
from acker_service.topologies.topology import Topology

MAX_CALL_BYTES = 4 * 1024 * 1024
"""The limit of a shared call; a single request may be larger."""

ApplyArgs = tuple[bytes, bytes, ApplyLimits, Sequence[ShardRequest]]
"""Settings, free slots, limits and requests of an `ApplyFunction`."""


@dataclass(slots=True)
class _PendingCall:
    requests: list[ShardRequest] = field(default_factory=list)
    results: list[asyncio.Future[Result]] = field(default_factory=list)
    size: int = 0


class ApplyBatcher:
    """Collects the requests of one turn of the event loop and sends them together."""

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self._calls: dict[tuple[str, Stamp, bytes, ApplyFunction, ApplyLimits], list[_PendingCall]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def apply(
        self, topology: Topology, shard: int, function: ApplyFunction, limits: ApplyLimits, request: ShardRequest
    ) -> Result:
        """Apply a request's part to a shard.

        The call goes on if the caller is cancelled: Redis may have received it. Raises `StaleStamp`,
        `StoreUnavailable`.
        """
        loop = asyncio.get_running_loop()
        if not self._calls:
            loop.call_soon(self._send)
        called = (topology.shards[shard], topology.stamp, topology.settings, function, limits)
        calls = self._calls.setdefault(called, [])
        if not calls or calls[-1].size + len(request.operations) > MAX_CALL_BYTES:
            calls.append(_PendingCall())
        call = calls[-1]
        result: asyncio.Future[Result] = loop.create_future()
        call.requests.append(request)
        call.results.append(result)
        call.size += len(request.operations)
        return await result

    def _send(self) -> None:
        pending, self._calls = self._calls, {}
        for (key, stamp, settings, function, limits), calls in pending.items():
            for call in calls:
                task = asyncio.create_task(
                    self._run(call, key, stamp, function, (settings, b"", limits, call.requests))
                )
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run(self, call: _PendingCall, key: str, stamp: Stamp, function: ApplyFunction, args: ApplyArgs) -> None:
        try:
            reply = await apply_or_refuse_new_roots(self._redis, function, key, stamp, args)
        except Exception as error:  # noqa: BLE001 - every caller that waits gets the error
            for result in call.results:
                if not result.done():
                    result.set_exception(error)
            return
        for result, applied in zip(call.results, reply.results, strict=True):
            if not result.done():
                result.set_result(applied)


async def apply_or_refuse_new_roots(
    redis: RedisClient,
    function: ApplyFunction,
    key: str,
    stamp: Stamp,
    args: ApplyArgs,
) -> AppliedRequests:
    """Call an apply function; if Redis has no memory for it, the one that begins no roots and applies all the rest."""
    try:
        return await redis.execute(function(*args).at(key, stamp))
    except StoreFull:
        return await redis.execute(apply_functions.apply_without_new_roots(*args).at(key, stamp))
