"""Knows how the calls of one turn of the event loop share one call a shard.

A program that sends single operations over many connections would else pay one round trip to Redis for each. Every
request keeps its own key and its own answer; they are applied one after the other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from acker_protocol.problems import StoreFull

from acker_service.store.node import Argument
from acker_service.store.server import Server
from acker_service.store.topology import Topology, unstale

INITS, OTHERS = "acker_apply_v1", "acker_apply_full_v1"
"""The functions that apply requests: Redis refuses the first when its memory is full; the second refuses all inits."""

MOST_BYTES = 4 * 1024 * 1024
"""A shared call is not made larger than this; a single request may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of a request in one shard: its words, and whether the shard knew it from before."""

    words: str
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A request's part for one shard: its packed operations, and how the shard knows it again (`packing.identify`)."""

    operations: bytes
    identity: tuple[str, str, str] = ("", "", "")

    @property
    def args(self) -> tuple[Argument, ...]:
        """The part as arguments of an apply function."""
        return *self.identity, self.operations


@dataclass(slots=True)
class _Call:
    requests: list[Packed] = field(default_factory=list)
    answers: list[asyncio.Future[Applied]] = field(default_factory=list)
    size: int = 0


class Turns:
    """Gathers the requests of one turn of the event loop and sends them together."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._calls: dict[tuple[str, str, bytes, str], list[_Call]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def apply(self, topology: Topology, shard: int, function: str, request: Packed) -> Applied:
        """Apply a request's part to a shard.

        The call goes on if the caller is cancelled: it may have reached Redis. Raises `Stale`, `StoreUnavailable`.
        """
        loop = asyncio.get_running_loop()
        if not self._calls:
            loop.call_soon(self._send)
        calls = self._calls.setdefault((topology.shards[shard], topology.pair, topology.settings, function), [])
        if not calls or calls[-1].size + len(request.operations) > MOST_BYTES:
            calls.append(_Call())
        call = calls[-1]
        answer: asyncio.Future[Applied] = loop.create_future()
        call.requests.append(request)
        call.answers.append(answer)
        call.size += len(request.operations)
        return await answer

    def _send(self) -> None:
        gathered, self._calls = self._calls, {}
        for (key, pair, settings, function), calls in gathered.items():
            for call in calls:
                task = asyncio.create_task(self._run(call, key, pair, settings, function))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run(self, call: _Call, key: str, pair: str, settings: bytes, function: str) -> None:
        args: list[Argument] = [pair, settings, ""]
        for request in call.requests:
            args.extend(request.args)
        try:
            reply = unstale(key, await apply_or_refuse_inits(self._server, function, key, args))
        except Exception as fault:  # noqa: BLE001 - every fault goes to those who wait
            for answer in call.answers:
                _settle(answer, fault)
            return
        for answer, words in zip(call.answers, reply[1:], strict=True):
            _settle(answer, read_words(words))


async def apply_or_refuse_inits(server: Server, function: str, key: str, args: Sequence[Argument]) -> list[bytes]:
    """Call an apply function; if Redis has no memory for it, the one that refuses inits and does all the rest."""
    try:
        reply: list[bytes] = await server.call(function, [key], *args)
    except StoreFull:
        reply = await server.call(OTHERS, [key], *args)
    return reply


def read_words(reply: bytes) -> Applied:
    """Read what one request was answered."""
    return Applied(words=reply[1:].decode(), repeated=reply[:1] == b"=")


def _settle(answer: asyncio.Future[Applied], result: Applied | Exception) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
