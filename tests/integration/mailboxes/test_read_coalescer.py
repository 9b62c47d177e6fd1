"""Reading mailboxes for many at once: few round trips, and everybody gets what came before they asked."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import count

import anyio
import pytest
from acker_protocol.errors import StoreUnavailable, UnknownSpout
from acker_service.background import Wakeup, cancel_and_wait
from acker_service.components import Components
from acker_service.mailboxes.follower import CALLS_PER_ROUND_TRIP, ReadCoalescer
from acker_service.mailboxes.reading import MailboxReader, ReadRequest, ReadResult
from acker_service.redis import keys
from acker_service.topologies.cursors import completion_list, decode_cursor
from acker_service.topologies.topology import Topology

from tests.support.caller import Caller, init
from tests.support.documents import roots
from tests.support.redis_side import at
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

numbers = count(1_000)


class Counted(MailboxReader):
    """Mailboxes that count their round trips; ``between`` comes after each, before its answer."""

    def __init__(self, parts: Components) -> None:
        super().__init__(parts.shards, parts.metrics.operations)
        self.round_trips: list[int] = []
        self.between: Callable[[], object] = lambda: None

    async def read_each(self, topology, wanted):
        self.round_trips.append(len(wanted))
        readings = await super().read_each(topology, wanted)
        self.between()
        return readings


@pytest.fixture
def mailboxes(parts: Components) -> Counted:
    return Counted(parts)


@pytest.fixture
def readers(mailboxes: Counted) -> ReadCoalescer:
    return ReadCoalescer(mailboxes)


async def read(readers: ReadCoalescer, parts: Components, spout_task: str = "s1", limit: int = 10) -> ReadResult:
    topology = await parts.registry.get("default")
    spout = await parts.spouts.get(topology, spout_task)
    cursor = decode_cursor(None, completion_list(topology, spout))
    return await readers.read(topology, ReadRequest(spout=spout, cursor=cursor, limit=limit))


async def emit(call: Caller, count: int) -> None:
    """Make so many spout tasks with a completion each."""
    await call.states(*(init(n, spout_task=f"s{n}") for n in range(1, count + 1)))


async def test_equal_wishes_are_read_once(
    call: Caller, parts: Components, readers: ReadCoalescer, mailboxes: Counted
) -> None:
    await emit(call, 1)
    readings = await asyncio.gather(*(read(readers, parts) for _ in range(100)))
    assert [roots(reading) for reading in readings] == [[1]] * 100
    assert mailboxes.round_trips == [1]


async def test_different_wishes_share_round_trips(
    call: Caller, parts: Components, readers: ReadCoalescer, mailboxes: Counted
) -> None:
    await emit(call, 50)
    readings = await asyncio.gather(*(read(readers, parts, f"s{n}") for n in range(1, 51)))
    assert [roots(reading) for reading in readings] == [[n] for n in range(1, 51)]
    assert sum(mailboxes.round_trips) == 50
    assert max(mailboxes.round_trips) == CALLS_PER_ROUND_TRIP // 4


async def test_a_wish_does_not_join_a_reading_that_was_sent_before_it(
    call: Caller, parts: Components, readers: ReadCoalescer, mailboxes: Counted
) -> None:
    await emit(call, 1)
    late: list[asyncio.Task[ReadResult]] = []
    mailboxes.between = lambda: late.append(asyncio.create_task(read(readers, parts))) if not late else None
    assert roots(await read(readers, parts)) == [1]
    await call.post(init(2, spout_task="s1"))
    assert set(roots(await late[0])) >= {1}
    assert mailboxes.round_trips == [1, 1]


async def test_one_who_goes_away_takes_nothing_from_the_others(
    call: Caller, parts: Components, readers: ReadCoalescer, mailboxes: Counted
) -> None:
    await emit(call, 1)
    gone, stays = (asyncio.create_task(read(readers, parts)) for _ in range(2))
    mailboxes.between = gone.cancel
    with anyio.fail_after(20):
        assert roots(await stays) == [1]
    assert gone.cancelled()
    assert mailboxes.round_trips == [1]


async def test_all_are_told_of_a_fault_and_may_ask_again(
    call: Caller, parts: Components, readers: ReadCoalescer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await emit(call, 1)

    async def fails(*_: object) -> list[object]:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(parts.redis, "execute_each", fails)
        with anyio.fail_after(20):
            answers = await asyncio.gather(*(read(readers, parts) for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    assert roots(await read(readers, parts)) == [1]


async def test_a_reading_says_whether_there_may_be_more(
    call: Caller, parts: Components, readers: ReadCoalescer
) -> None:
    await call.states(*(init(n, spout_task="s1") for n in range(1, 6)))
    assert (await read(readers, parts, limit=4)).more
    assert (await read(readers, parts, limit=5)).more
    assert not (await read(readers, parts, limit=6)).more


async def test_many_bytes_mean_that_there_may_be_more(call: Caller, parts: Components, readers: ReadCoalescer) -> None:
    for first in range(1, 4_801, 400):
        states = await call.states(
            *(init(n * 4, spout_task="s1", message_id="m" * 1_000) for n in range(first, first + 400))
        )
        assert set(states) == {"acked"}
    page = await read(readers, parts, limit=10_000)
    assert page.more
    assert 4_000 < page.count < 4_200


async def test_all_mailboxes_that_are_waited_for_are_swept_in_one_round_trip(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    await emit(call, 40)
    await parts.mailbox_notifier.stop()
    topology = await parts.registry.get("default")
    calls: list[tuple[str, int]] = []
    execute_each = parts.redis.execute_each

    async def counted(asked):
        calls.extend(Counter(call.name for call in asked).items())
        return await execute_each(asked)

    monkeypatch.setattr(parts.redis, "execute_each", counted)
    waits = [parts.mailbox_notifier.waiting(topology, await parts.spouts.get(topology, f"s{n}")) for n in range(1, 41)]
    waiters = [wait.__enter__() for wait in waits]
    await parts.mailbox_notifier._poll()
    assert calls == [("acker_tips_v1", len(topology.shards))]
    assert all(waiter._woken for waiter in waiters), "the first sweep cannot know what is news"
    for waiter in waiters:
        await waiter.wait(0)
    await call.post(init(99, spout_task="s7"))
    await parts.mailbox_notifier._poll()
    assert [n for n, waiter in enumerate(waiters, 1) if waiter._woken] == [7]


async def test_a_sweep_wakes_who_waits_for_a_topology_that_has_gone(call: Caller, parts: Components) -> None:
    other = Caller(call.http, "other")
    await other.put()
    await other.post(init(1))
    await parts.mailbox_notifier.stop()
    topology: Topology = await parts.registry.get("other")
    with parts.mailbox_notifier.waiting(topology, await parts.spouts.get(topology, "orders")) as waiter:
        await parts.mailbox_notifier._poll()
        await waiter.wait(0)
        await call.http.delete("/v1/topologies/other", params={"force": True, "discard": True})
        await parts.mailbox_notifier._poll()
        assert waiter._woken


async def test_one_who_follows_a_spout_task_that_was_removed_is_told_so_even_if_it_is_there_again(
    call: Caller, parts: Components
) -> None:
    await call.put_spout("orders")
    async with parts.followers.following(await parts.registry.get("default"), "orders", None) as follower:
        assert (await follower.read(10)).count == 0
        await call.http.delete("/v1/topologies/default/spouts/orders")
        await call.put_spout("orders")
        with pytest.raises(UnknownSpout):
            await follower.read(10)


async def test_a_wake_between_two_waits_is_not_lost() -> None:
    waiter = Wakeup()
    waiter.wake()
    with anyio.fail_after(20):
        await waiter.wait(60)
    await waiter.wait(0.01)


async def test_a_hint_that_makes_no_sense_harms_nobody(call: Caller, parts: Components) -> None:
    await emit(call, 1)
    topology = await parts.registry.get("default")
    _, sweeping = parts.mailbox_notifier._tasks
    await cancel_and_wait(sweeping)

    async def heard() -> bool:
        return bool(await at(parts, "SPUBLISH", keys.hints("default", 0), "nonsense"))

    with parts.mailbox_notifier.waiting(topology, await parts.spouts.get(topology, "s1")) as waiter:
        await eventually(heard)

        async def woken() -> bool:
            await call.post(init(next(numbers), spout_task="s1"))
            return waiter._woken

        await eventually(woken)
