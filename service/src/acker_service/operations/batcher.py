"""Knows how the calls of one turn of the event loop share one call a shard.

A program that sends single operations over many connections would else pay one round trip to Redis for each. Every
request keeps its own key and its own answer; they are applied one after the other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from acker_protocol.errors import StoreFull

from acker_service.redis.client import RedisClient
from acker_service.redis.node import Argument
from acker_service.topologies.stamp import Topology, unwrap

APPLY, APPLY_WITHOUT_INITS = "acker_apply_v1", "acker_apply_full_v1"
"""The functions that apply requests: Redis refuses the first when its memory is full; the second refuses all inits."""

MAX_CALL_BYTES = 4 * 1024 * 1024
"""A shared call is not made larger than this; a single request may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of a request in one shard: its words, and whether the shard knew it from before."""

    codes: str
    replayed: bool


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
        self._calls: dict[tuple[str, str, bytes, str], list[_PendingCall]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def apply(self, topology: Topology, shard: int, function: str, request: ShardRequest) -> Applied:
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

    async def _run(self, call: _PendingCall, key: str, pair: str, settings: bytes, function: str) -> None:
        args: list[Argument] = [pair, settings, ""]
        for request in call.requests:
            args.extend(request.args)
        try:
            reply = unwrap(key, await apply_or_refuse_inits(self._server, function, key, args))
        except Exception as fault:  # noqa: BLE001 - every fault goes to those who wait
            for answer in call.results:
                _resolve(answer, fault)
            return
        for answer, words in zip(call.results, reply[1:], strict=True):
            _resolve(answer, decode_applied(words))


async def apply_or_refuse_inits(server: RedisClient, function: str, key: str, args: Sequence[Argument]) -> list[bytes]:
    """Call an apply function; if Redis has no memory for it, the one that refuses inits and does all the rest."""
    try:
        reply: list[bytes] = await server.call(function, [key], *args)
    except StoreFull:
        reply = await server.call(APPLY_WITHOUT_INITS, [key], *args)
    return reply


def decode_applied(reply: bytes) -> Applied:
    """Read what one request was answered."""
    return Applied(codes=reply[1:].decode(), replayed=reply[:1] == b"=")


def _resolve(answer: asyncio.Future[Applied], result: Applied | Exception) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
