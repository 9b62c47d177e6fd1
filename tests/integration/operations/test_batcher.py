"""Calls of one turn of the event loop share one call to the store; they do what they would do one by one."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from acker_protocol.operations import Fail
from acker_service.components import Components
from acker_service.operations import batcher
from acker_service.redis import keys
from acker_service.redis.calls import Call
from acker_service.redis.codec import ShardRequest, encode_operation
from acker_service.redis.functions.apply import AppliedRequests, ApplyFunction, ApplyLimits, apply
from acker_service.redis.node import Node

from tests.support.caller import Caller, Document, ack, fail, init, reset_timeout
from tests.support.redis_side import at, find
from tests.support.trips import Trips, counted

pytestmark = pytest.mark.anyio

Answered = Callable[[list[Any]], None]

R, S = 4, 8
"""Two roots of one shard."""
E, F, G = 0xE1, 0xE2, 0xE3
ANSWERED_S = 20.0
"""Who waits longer than this for an answer waits for ever."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests each call of the store held that applied any."""
    held: list[int] = []
    make = batcher._PendingCall.call

    def counted(pending: batcher._PendingCall, function: ApplyFunction) -> Call[AppliedRequests]:
        held.append(len(pending.requests))
        return make(pending, function)

    monkeypatch.setattr(batcher._PendingCall, "call", counted)
    return held


@pytest.fixture
def trips(parts: Components) -> Iterator[Trips]:
    with counted(parts) as trips:
        yield trips


def apply_trips(parts: Components, trips: Trips) -> list[int]:
    """Return how many calls each round trip carried; in a cluster those of one turn are counted together."""
    sizes = [len(trip) for trip in trips.of("acker_apply")]
    return [sum(sizes)] if parts.redis.url.startswith("redis+cluster") else sizes


async def after(event: asyncio.Event, begin: Callable[[], None]) -> None:
    await event.wait()
    begin()


async def together(call: Caller, *ops: Document, keys: bool = False) -> list[str]:
    """Send each in a call of its own, all at once."""
    return await asyncio.gather(*(call.state(op, key=f"{i}" if keys else None) for i, op in enumerate(ops)))


async def test_acks_of_one_turn_do_what_they_do_one_by_one(call: Caller, calls: list[int]) -> None:
    await call.states(init(R, E, F), init(S, E))
    calls.clear()
    assert await together(call, ack(R, E), ack(R, F), fail(S), ack(S, E)) == ["pending", "acked", "failed", "finished"]
    assert calls == [4]
    assert (await call.show())["pending"] == 0


async def test_inits_of_one_turn_do_what_they_do_one_by_one(call: Caller, calls: list[int]) -> None:
    other = init(R, E, message_id="another emit")
    await call.post(init(40))
    calls.clear()
    assert await together(call, init(R, E), init(R, E), other) == ["pending", "duplicate", "conflict"]
    assert calls == [3]
    assert (await call.spout())["pending"] == 1
    await call.post(ack(R, E))
    assert (await call.spout())["pending"] == 0


async def test_calls_without_a_key_leave_nothing_to_remember(call: Caller, parts: Components) -> None:
    await together(call, init(R, E), ack(R, E))
    kept = await find(parts, keys.shard("default", 0) + ":*")
    assert not [key for key in kept if key.rpartition(":")[0].endswith((":s0", ":s1"))]


async def test_single_operations_without_a_key_go_to_redis_as_one_request(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with a key between them goes by itself; each has its own answer, in its own order."""
    requests, begin_some = list[int](), parts.redis.begin_some

    def counted(calls: Sequence[Call[Any]], answered: Answered) -> None:
        requests.extend(len(call.command[8:]) // 5 for call in calls)
        begin_some(calls, answered)

    await call.states(init(R, E, F), init(S, E, G))
    monkeypatch.setattr(parts.redis, "begin_some", counted)
    operations = ((ack(R, E), None), (ack(S, E), None), (ack(R, F), "k"), (ack(R, 5), None), (ack(S, G), None))
    words = await asyncio.gather(*(call.state(operation, key=key) for operation, key in operations))
    assert words == ["pending", "pending", "acked", "finished", "acked"]
    assert requests == [3]


async def test_operations_of_several_roots_in_turns_do_in_one_request_what_they_do_one_by_one(call: Caller) -> None:
    """Some of them take the long way in Lua: fail, reset timeout, the ack of an unknown root."""
    await call.states(init(R, E, F), init(S, E, G))
    ops = (ack(R, E), ack(S, E), reset_timeout(R), fail(S), ack(R, F), ack(S, G), ack(40, E), ack(R, F), ack(40, F))
    words = ["pending", "pending", "pending", "failed", "acked", "finished", "early", "finished", "early"]
    assert await together(call, *ops) == words
    assert (await call.show())["pending"] == 0


async def test_what_had_no_effect_is_remembered_beside_what_had(call: Caller, calls: list[int]) -> None:
    await call.post(init(40))
    calls.clear()
    assert await together(call, ack(R, E), reset_timeout(S), keys=True) == ["early", "unknown"]
    assert calls == [2]
    await call.post(init(S, G))
    again = [(ack(R, E), "0"), (reset_timeout(S), "1")]
    answers = [await call.post(op, key=key) for op, key in again]
    replayed = [answer.headers.get("Idempotency-Replayed") for answer in answers]
    assert replayed == ["true", "true"]


async def test_requests_to_all_shards_take_one_round_trip(call: Caller, parts: Components, trips: Trips) -> None:
    await call.states(*[init(root, E) for root in range(1, 9)])
    trips.clear()
    assert await together(call, *[ack(root, E) for root in range(1, 9)]) == ["acked"] * 8
    assert apply_trips(parts, trips) == [4]


async def test_a_batch_for_all_shards_takes_one_round_trip(call: Caller, parts: Components, trips: Trips) -> None:
    await call.states(init(40))
    trips.clear()
    assert await call.states(*[init(root, E) for root in range(1, 9)]) == ["pending"] * 8
    assert apply_trips(parts, trips) == [4]


@pytest.mark.parametrize("pipelined", [True, False])
async def test_the_round_trips_to_a_server_share_one_connection_unless_replicas_confirm_them(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch, *, pipelined: bool
) -> None:
    await call.states(init(40))
    pooled: list[str] = []
    send = Node._send

    async def noted(self: Node, calls: Sequence[Call[Any]], replicas: int) -> list[Any]:
        pooled.extend(call.name for call in calls)
        return await send(self, calls, 0)

    monkeypatch.setattr(Node, "_send", noted)
    monkeypatch.setattr(parts.redis, "_replicas", 0 if pipelined else 1)
    assert await together(call, *[ack(root, E) for root in range(1, 9)]) == ["early"] * 8
    assert any(name.startswith("acker_apply") for name in pooled) is not pipelined


@pytest.fixture
def release(parts: Components, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Setting it lets the first `MAX_UNDER_WAY` round trips that apply requests go on."""
    begin_some, release, begun = parts.redis.begin_some, asyncio.Event(), list[asyncio.Task[None]]()

    def held(calls: Sequence[Call[Any]], answered: Answered) -> None:
        if len(begun) < batcher.MAX_UNDER_WAY:
            begun.append(asyncio.create_task(after(release, lambda: begin_some(calls, answered))))
        else:
            begin_some(calls, answered)

    monkeypatch.setattr(parts.redis, "begin_some", held)
    return release


async def one_a_turn(call: Caller, *ops: Document) -> "list[asyncio.Task[str]]":
    """Send each in a call of its own, each in turns of the event loop of its own."""
    tasks = []
    for op in ops:
        tasks.append(asyncio.create_task(call.state(op)))
        for _ in range(50):
            await asyncio.sleep(0)
    return tasks


ACKS = [ack(R, edge) for edge in range(1, 9)]


async def test_requests_wait_for_a_busy_server_in_order_to_share_a_call(
    call: Caller, release: asyncio.Event, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batcher, "MAX_WAIT_S", 3_600.0)
    await call.show()
    answers = await one_a_turn(call, *ACKS)
    few = batcher.MAX_UNDER_WAY
    assert calls == [1] * few
    release.set()
    assert await asyncio.gather(*answers) == ["early"] * len(ACKS)
    assert calls == [1] * few + [len(ACKS) - few]


async def test_a_server_that_hangs_holds_up_no_request_for_long(
    call: Caller, release: asyncio.Event, calls: list[int]
) -> None:
    await call.show()
    count = batcher.MAX_UNDER_WAY + 1
    answers = await one_a_turn(call, *ACKS[:count])
    assert await answers[-1] == "early"
    assert calls == [1] * count
    release.set()
    assert await asyncio.gather(*answers) == ["early"] * count


async def test_a_round_trip_has_a_largest_size(
    call: Caller, parts: Components, trips: Trips, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call.states(*[init(root, E) for root in range(1, 9)])
    trips.clear()
    monkeypatch.setattr(batcher, "MAX_CALL_BYTES", 100)
    assert await together(call, *[ack(root, E) for root in range(1, 9)]) == ["acked"] * 8
    assert len(apply_trips(parts, trips)) > 1 or parts.redis.url.startswith("redis+cluster")


async def test_a_shard_with_another_stamp_changes_nothing_about_the_others(
    call: Caller, parts: Components, trips: Trips
) -> None:
    await call.states(*[init(root, E) for root in range(1, 9)])
    topology = await parts.registry.get("default")
    newer = f"{topology.incarnation}{int(topology.stamp.text[16:]) + 1:010d}"
    await at(parts, "SET", topology.shards[1], newer)
    trips.clear()
    answers = await asyncio.gather(*(call.post(ack(root, E)) for root in range(1, 9)))
    assert [answer.json()["state"] for answer in answers] == ["acked"] * 8
    first, *_ = apply_trips(parts, trips)
    assert first >= 4
    assert sum(apply_trips(parts, trips)) <= 6  # only what that shard refused is sent again
    assert (await call.show())["pending"] == 0


async def test_a_call_that_redis_refuses_changes_nothing_about_the_others(call: Caller, parts: Components) -> None:
    await call.states(*[init(root, E) for root in range(1, 9)])
    topology = await parts.registry.get("default")
    await at(parts, "DEL", f"{topology.shards[2]}:{topology.incarnation}:pending")
    await at(parts, "SET", f"{topology.shards[2]}:{topology.incarnation}:pending", "of another type")
    answers = await asyncio.gather(*(call.post(ack(root, E)) for root in range(1, 9)))
    failed = [root for root, answer in enumerate(answers, 1) if answer.status_code == 503]
    assert failed == [2, 6]
    states = [answer.json().get("state") for answer in answers if answer.status_code == 200]
    assert states == ["acked"] * 6


async def test_a_server_that_does_not_answer_delays_only_its_own_shards(parts: Components) -> None:
    topology, away = await parts.registry.get("default"), asyncio.Event()
    begun = list[asyncio.Task[None]]()

    class Divided:
        """A client of two servers, one of which does not answer."""

        def server_of(self, key: str) -> str:
            return "away" if key == topology.shards[1] else "here"

        def begin_some(self, calls: Sequence[Call[Any]], answered: Answered) -> None:
            if any(call.key == topology.shards[1] for call in calls):
                begun.append(asyncio.create_task(after(away, lambda: parts.redis.begin_some(calls, answered))))
            else:
                parts.redis.begin_some(calls, answered)

    divided = batcher.ApplyBatcher(Divided())  # type: ignore[arg-type]
    request = ShardRequest(operations=encode_operation(Fail(root_id=0), topology.layout, dict[str, int]().__getitem__))
    results = [divided.apply(topology, apply, ApplyLimits(), {shard: request}) for shard in range(4)]
    async with asyncio.timeout(10):
        others = await asyncio.gather(*results[:1], *results[2:])
    assert len(others) == 3
    assert not results[1].done()
    away.set()
    await results[1]


@pytest.mark.parametrize("where", ["the call", "its reply"])
async def test_a_fault_of_our_own_is_answered_and_holds_nothing_up(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Otherwise whoever asked would wait for ever, and all that comes later for a place that is never free."""
    await call.states(init(R, E, F))

    def fail(*_: object) -> Any:
        raise RuntimeError("a fault")

    with monkeypatch.context() as patch:
        if where == "the call":
            patch.setattr(batcher._PendingCall, "call", fail)
        else:
            patch.setattr(parts.redis, "_result", fail)
        async with asyncio.timeout(ANSWERED_S):
            answers = await asyncio.gather(*(call.post(ack(R, E), key=f"{number}") for number in range(4)))
    assert [answer.status_code for answer in answers] == [500] * 4
    assert [server.under_way for server in parts.applier.batcher._servers.values()] == [0]
    async with asyncio.timeout(ANSWERED_S):
        assert await call.state(ack(S, E)) == "early"
