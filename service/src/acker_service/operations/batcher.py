"""Sends the requests of one turn of the event loop together: one call for each shard, one round trip to each server.

A program that sends single operations over many connections would otherwise pay a round trip to Redis for each. Every
request keeps its own key and its own result; Redis applies them one after the other.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, islice

from acker_protocol.errors import StoreFull

from acker_service.background import Awaited, Waiter, called_back
from acker_service.redis import functions
from acker_service.redis.calls import Call
from acker_service.redis.client import RedisClient
from acker_service.redis.codec import ShardRequest
from acker_service.redis.functions.apply import Applied, AppliedRequests, ApplyFunction, ApplyLimits, Result
from acker_service.redis.stamp import Stamp
from acker_service.topologies.topology import Topology

MAX_CALL_BYTES = 4 * 1024 * 1024
"""The limit of a shared call, and of all calls of a round trip; a single request may be larger."""

MAX_UNDER_WAY = 2
"""Round trips to a server from which on further requests wait, in order to share a call."""
MAX_WAIT_S = 0.002
"""How long they wait at most; a server that hangs does not hold them up longer."""

ApplyArgs = tuple[bytes, bytes, ApplyLimits, Sequence[ShardRequest]]
"""Settings, free slots, limits and requests of an `ApplyFunction`."""


@dataclass(slots=True, kw_only=True)
class _PendingCall:
    """Requests that go to one shard in one call, and who waits for the result of each.

    ``size`` counts their bytes, ``joinable`` those that may be joined with others.
    """

    key: str
    stamp: Stamp
    settings: bytes
    limits: ApplyLimits
    function: ApplyFunction
    requests: list[ShardRequest] = field(default_factory=list)
    results: list[Waiter[Result]] = field(default_factory=list)
    size: int = 0
    joinable: int = 0

    def call(self, function: ApplyFunction) -> Call[AppliedRequests]:
        requests = self.requests if self.joinable < 2 else list(self._joined())
        return function(self.settings, b"", self.limits, requests).at(self.key, self.stamp)

    def settle(self, reply: AppliedRequests | BaseException) -> None:
        """Give each request its result, or the error of the call."""
        if isinstance(reply, BaseException):
            for result in self.results:
                result.set_exception(reply)
            return
        results = reply.results if self.joinable < 2 else self._results(reply.results)
        for result, applied in zip(self.results, results, strict=True):
            result.set_result(applied)

    def _runs(self) -> Iterator[tuple[bool, list[ShardRequest]]]:
        """Divide the requests into runs; those of one run go to Redis as one request if the run may be joined.

        Requests of one operation without a key may: the library remembers nothing of them, and applies their operations
        one after the other. For each request that it reads it would need as long as for an operation.
        """
        for may_join, run in groupby(self.requests, key=lambda request: request.may_be_joined):
            yield may_join, list(run)

    def _joined(self) -> Iterator[ShardRequest]:
        for may_join, run in self._runs():
            if may_join:
                yield ShardRequest(operations=b"".join([request.operations for request in run]))
            else:
                yield from run

    def _results(self, results: Iterable[Result]) -> Iterator[Result]:
        """Yield the result of each request from those of `_joined`."""
        of_joined = iter(results)
        for may_join, run in self._runs():
            if may_join:
                applied = next(of_joined)
                assert isinstance(applied, Applied)  # no spout task of theirs is unregistered
                yield from (Applied(codes=code, replayed=False) for code in applied.codes)
            else:
                yield from islice(of_joined, len(run))


class _Results:
    """The results of the parts of a request, in their order, for who waits for all of them."""

    __slots__ = ("_count", "_found", "waiting")

    def __init__(self, count: int) -> None:
        self.waiting: Awaited[list[Result | BaseException]] = Awaited()
        self._count = count
        self._found: dict[int, Result | BaseException] = {}
        if not count:
            self.waiting.set_result([])

    def note(self, place: int, result: Result | BaseException) -> None:
        self._found[place] = result
        if len(self._found) == self._count:
            self.waiting.set_result([self._found[number] for number in range(self._count)])


class _Place:
    """Waits for the result of a part, whose error is a result among others."""

    __slots__ = ("_place", "_results")

    def __init__(self, results: _Results, place: int) -> None:
        self._results = results
        self._place = place

    def set_result(self, result: Result, /) -> None:
        self._results.note(self._place, result)

    def set_exception(self, error: BaseException, /) -> None:
        self._results.note(self._place, error)


@dataclass(slots=True, kw_only=True)
class _Server:
    """The calls that are yet to be sent to a server, and the number of round trips to it that are under way."""

    calls: dict[tuple[str, Stamp, bytes, ApplyFunction, ApplyLimits], list[_PendingCall]] = field(default_factory=dict)
    under_way: int = 0
    timer: asyncio.Handle | None = None


class ApplyBatcher:
    """Collects the requests of one turn of the event loop and sends them together.

    While `MAX_UNDER_WAY` round trips to a server are under way, it collects on, for `MAX_WAIT_S` at most: the busier
    the server is, the more requests share a call. In a cluster each server gets round trips of its own, so that one
    that does not answer delays only its own shards.
    """

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self._servers: dict[str | None, _Server] = {}

    def apply(
        self, topology: Topology, function: ApplyFunction, limits: ApplyLimits, parts: Mapping[int, ShardRequest]
    ) -> "asyncio.Future[list[Result | BaseException]]":
        """Apply the parts of a request, by shard, and return the result of each or its error, in their order.

        The calls go on if the caller is cancelled: Redis may have received them. An error is a `StaleStamp` or a
        `StoreUnavailable`.
        """
        results = _Results(len(parts))
        for place, (shard, part) in enumerate(parts.items()):
            self.begin(topology, shard, function, limits, part, _Place(results, place))
        return results.waiting

    def begin(
        self,
        topology: Topology,
        shard: int,
        function: ApplyFunction,
        limits: ApplyLimits,
        request: ShardRequest,
        result: Waiter[Result],
    ) -> None:
        """Apply a request's part to a shard, and give ``result`` the result or the error."""
        loop = asyncio.get_running_loop()
        key, stamp, settings = topology.shards[shard], topology.stamp, topology.settings
        address = self._redis.server_of(key)
        server = self._servers.get(address)
        if server is None:
            server = self._servers[address] = _Server()
        if not server.calls and server.timer is None:
            server.timer = loop.call_soon(self._send_or_wait, server)
        calls = server.calls.setdefault((key, stamp, settings, function, limits), [])
        if not calls or calls[-1].size + len(request.operations) > MAX_CALL_BYTES:
            calls.append(_PendingCall(key=key, stamp=stamp, settings=settings, limits=limits, function=function))
        call = calls[-1]
        call.requests.append(request)
        call.results.append(result)
        call.size += len(request.operations)
        call.joinable += request.may_be_joined

    def _send_or_wait(self, server: _Server) -> None:
        """Send what was collected, or collect on until a round trip ends."""
        if server.under_way < MAX_UNDER_WAY:
            self._send(server)
        else:
            server.timer = asyncio.get_running_loop().call_later(MAX_WAIT_S, self._send, server)

    def _send(self, server: _Server) -> None:
        if server.timer is not None:
            server.timer.cancel()
        pending, server.calls, server.timer = server.calls, {}, None
        for round_trip in _round_trips(chain.from_iterable(pending.values())):
            server.under_way += 1
            try:
                made = [call.call(call.function) for call in round_trip]
            except Exception as error:  # noqa: BLE001 - everyone who waits gets the error
                self._settle(server, round_trip, [error] * len(round_trip))
                continue
            _begin_or_refuse_new_roots(
                self._redis,
                made,
                partial(_without_new_roots, round_trip),
                partial(self._settle, server, round_trip),
            )

    def _settle(
        self, server: _Server, calls: Sequence[_PendingCall], replies: Sequence[AppliedRequests | Exception]
    ) -> None:
        for call, reply in zip(calls, replies, strict=True):
            call.settle(reply)
        server.under_way -= 1
        if server.calls and server.under_way < MAX_UNDER_WAY:
            self._send(server)


def _round_trips(calls: Iterable[_PendingCall]) -> Iterator[list[_PendingCall]]:
    """Divide calls into round trips of at most `MAX_CALL_BYTES`, or of one call that is larger."""
    round_trip, size = list[_PendingCall](), 0
    for call in calls:
        if round_trip and size + call.size > MAX_CALL_BYTES:
            yield round_trip
            round_trip, size = [], 0
        round_trip.append(call)
        size += call.size
    yield round_trip


def _without_new_roots(calls: Sequence[_PendingCall], index: int) -> Call[AppliedRequests]:
    return calls[index].call(functions.apply.apply_without_new_roots)


def _begin_or_refuse_new_roots(
    redis: RedisClient,
    calls: Sequence[Call[AppliedRequests]],
    without_new_roots: Callable[[int], Call[AppliedRequests]],
    answered: Callable[[list[AppliedRequests | Exception]], None],
) -> None:
    """Make calls; those that Redis has no memory for are made again as the function that begins no roots."""

    def refuse_where_full(replies: list[AppliedRequests | Exception]) -> None:
        full = [index for index, reply in enumerate(replies) if isinstance(reply, StoreFull)]
        if not full:
            answered(replies)
            return

        def answer(retried: Sequence[AppliedRequests | Exception]) -> None:
            for index, reply in zip(full, retried, strict=True):
                replies[index] = reply
            answered(replies)

        redis.begin_some([without_new_roots(index) for index in full], answer)

    redis.begin_some(calls, refuse_where_full)


async def apply_each_or_refuse_new_roots(
    redis: RedisClient,
    function: ApplyFunction,
    places: Sequence[tuple[str, Stamp]],
    args: Sequence[ApplyArgs],
) -> list[AppliedRequests | Exception]:
    """Call an apply function on shards, by key and stamp, in one round trip, and return the reply or the error of each.

    Where Redis has no memory for a call, the function that begins no roots applies all the rest of it.
    """
    calls = [function(*own).at(*place) for place, own in zip(places, args, strict=True)]

    def without_new_roots(index: int) -> Call[AppliedRequests]:
        return functions.apply.apply_without_new_roots(*args[index]).at(*places[index])

    return await called_back(partial(_begin_or_refuse_new_roots, redis, calls, without_new_roots))


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
        return await redis.execute(functions.apply.apply_without_new_roots(*args).at(key, stamp))
