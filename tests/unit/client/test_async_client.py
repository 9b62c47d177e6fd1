"""Tests the async client: the same flows, awaited."""

import asyncio

import httpx
import pytest
from acker_client import DropTuple, OperationsLost, OperationState, Outcome, ReplayPolicy, RetriesExhausted, TupleClosed
from acker_client.testing import lost_reply

from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

LOST = httpx.ReadTimeout("lost")


@pytest.fixture
async def spout(async_acker, service):
    await async_acker._driver.run(async_acker._session.topology_info())
    service.requests.clear()
    return async_acker.shared_spout("orders")


async def emit(spout, *message_ids: str) -> list[dict[str, str]]:
    headers = []
    for message_id in message_ids:
        async with spout.emit(message_id=message_id) as root:
            headers.append(root.headers("split"))
    return headers


async def test_a_tree_is_acked_when_its_last_tuple_is(async_acker, spout, service):
    [headers] = await emit(spout, "42")
    async with async_acker.receive(headers, component="split") as tup:
        child = tup.headers("x")
    async with async_acker.receive(child, component="count"):
        pass
    assert [(done.message_id, done.outcome) async for done in spout.completions(until=0)] == [("42", "acked")]
    assert service.completions("orders") == []


async def test_an_exception_fails_the_tree(async_acker, spout, service):
    [headers] = await emit(spout, "42")
    with pytest.raises(ValueError, match="no"):
        async with async_acker.receive(headers, component="split"):
            raise ValueError("no")
    assert service.bodies("fail")[0]["reason"] == "no"


async def test_an_exception_in_the_emit_block_sends_no_init(spout, service):
    with pytest.raises(ValueError, match="no"):
        async with spout.emit(message_id="42"):
            raise ValueError("no")
    assert service.writes() == []


async def test_a_cancelled_task_sends_nothing(async_acker, spout, service):
    [headers] = await emit(spout, "42")
    entered = asyncio.Event()

    async def work():
        async with async_acker.receive(headers, component="split"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(service.writes()) == 1


async def test_a_request_of_unknown_outcome_is_sent_again_with_its_key(async_acker, spout, service):
    [headers] = await emit(spout, "42")
    service.faults += [lost_reply(LOST)]
    await async_acker.ack(async_acker.receive(headers, component="split"))
    first, again = service.keys("ack")
    assert first == again
    assert [state.outcome for state in service.roots.values()] == [Outcome.ACKED]


async def test_a_refused_init_is_sent_again_with_a_new_key(spout, service, time):
    service.refusals += [OperationState.MAX_SPOUT_PENDING]
    await emit(spout, "42")
    assert len(set(service.keys("init"))) == 2
    assert time.slept == [1.0]


async def test_an_outcome_that_stays_unknown_raises(spout, service):
    service.faults += [LOST] * 1_000
    with pytest.raises(RetriesExhausted):
        await emit(spout, "42")


async def test_a_tuple_without_a_block(async_acker, spout):
    one, two = (async_acker.receive(headers, component="join") for headers in await emit(spout, "1", "2"))
    child = async_acker.anchor(one, two, key="pair")
    assert await async_acker.reset_timeout(one) == [OperationState.PENDING]
    assert await async_acker.ack(one) == [OperationState.PENDING]
    assert await async_acker.fail(two, reason="no") == [OperationState.FAILED]
    last = async_acker.receive(child.headers(), component="store")
    assert await async_acker.ack(last) == [OperationState.ACKED, OperationState.FINISHED]
    with pytest.raises(TupleClosed):
        await async_acker.ack(last)


async def test_a_batch_gathers_what_its_tasks_do(async_acker, spout, service):
    async with async_acker.batch() as batch:
        await asyncio.gather(emit(spout, "1"), emit(spout, "2"))
        assert service.writes() == []
    assert len(service.writes("batch")) == 1
    assert [answer.state for answer in batch.results] == ["pending", "pending"]


async def test_a_task_that_outlives_its_batch_sends_by_itself(async_acker, spout, service):
    left = asyncio.Event()

    async def late():
        await left.wait()
        await emit(spout, "late")

    async with async_acker.batch():
        task = asyncio.create_task(late())
    left.set()
    await task
    assert len(service.writes("init")) == 1


async def test_what_was_gathered_goes_out_after_an_exception_but_not_after_a_cancellation(async_acker, spout, service):
    async def interrupted(error):
        async with async_acker.batch():
            await emit(spout, "1")
            raise error

    for error, sent in ((asyncio.CancelledError, 0), (ZeroDivisionError, 1)):
        with pytest.raises(error):
            await interrupted(error)
        assert len(service.writes()) == sent


async def test_an_completion_whose_body_raised_comes_again(spout, service):
    async with spout.emit(message_id="42"):
        pass

    async def read():
        async for done in spout.completions(until=0):
            raise ValueError("no", done)

    with pytest.raises(ValueError, match="no"):
        await read()
    assert service.completions("orders") == ["42"]


async def test_a_stop_ends_the_reading_with_the_current_page_and_releases_it(spout, service):
    for message_id in "abc":
        async with spout.emit(message_id=message_id):
            pass
    told = []
    async for done in spout.completions(stop=lambda: len(told) > 0, page_size=2):
        told.append(done.message_id)  # noqa: PERF401 - stop looks at it meanwhile
    assert service.completions("orders") == ["c"]


async def lingering(service, **more):
    """An acker whose acks linger until somebody asks for them."""
    acker = service.async_acker(linger=86400, **more)
    await acker._driver.run(acker._session.topology_info())
    return acker


def tuples(acker, count: int):
    return [
        acker.receive({"Acker-Anchors": f"00 default 00000000000000aa-{edge:016x}"}, component="count")
        for edge in range(1, count + 1)
    ]


async def test_a_thousand_acks_of_one_root_cost_one_operation(service):
    async with await lingering(service) as acker:
        for tup in tuples(acker, 1_000):
            assert await acker.ack(tup) == []
        assert service.writes() == []
    assert [message.outstanding for message in service.applied] == [-1_000]


async def test_acks_go_out_by_themselves_when_they_have_lingered(service):
    async with service.async_acker(linger=0.001) as acker:
        for tup in tuples(acker, 3):
            await acker.ack(tup)
        await eventually(has(lambda: sum(message.outstanding for message in service.applied) == -3))


async def test_acks_that_are_many_do_not_linger(service):
    async with await lingering(service, batch_size=1) as acker:
        await acker.ack(tuples(acker, 1)[0])
        await eventually(has(lambda: len(service.applied) == 1))


def has(look):
    async def looked():
        return look()

    return looked


async def test_acks_that_a_full_store_refuses_are_sent_again_until_they_are_taken(service):
    async with service.async_acker(linger=86400) as acker:
        service.store.is_full = True
        for root in ("00000000000000aa", "00000000000000bb"):
            await acker.ack(acker.receive({"Acker-Anchors": f"00 default {root}-{root}"}, component="count"))
        acker._driver._sleep = _emptying(service, acker._driver._sleep)
        await acker.flush()
    assert sorted(message.root_id for message in service.applied) == [0xAA, 0xBB]
    assert len(set(service.keys("batch"))) == 2


def _emptying(service, sleep):
    async def asleep(seconds: float) -> None:
        service.store.is_full = False
        await sleep(seconds)

    return asleep


async def test_a_full_buffer_is_waited_for(service):
    async with await lingering(service, batch_size=1, buffer_size=1) as acker:
        await asyncio.gather(*(acker.ack(tup) for tup in tuples(acker, 20)))
    assert sum(message.outstanding for message in service.applied) == -20


async def test_a_sender_that_is_cancelled_loses_nothing(service):
    acker = await lingering(service)
    [tup] = tuples(acker, 1)
    await acker.ack(tup)
    service.faults += [lost_reply(LOST)]
    slept = asyncio.Event()

    async def sleep(_):
        slept.set()
        await asyncio.Event().wait()

    acker._driver._sleep = sleep
    task = asyncio.create_task(acker.flush())
    await slept.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await acker.close()
    assert service.keys("ack")[0] == service.keys("ack")[1]
    assert len(service.applied) == 1


async def test_what_could_not_be_delivered_is_raised_by_the_next_call(service):
    acker = await lingering(service)
    one, two = tuples(acker, 2)
    await acker.ack(one)
    service.faults += [LOST] * 1_000
    await acker._driver.run(acker._submitter.flusher.flush())
    service.faults.clear()
    with pytest.raises(OperationsLost):
        await acker.ack(two)
    assert (await acker.ack(two), acker.stats().lost) == ([], 1)
    await acker.close()


async def test_what_a_loop_leaves_behind_goes_out_at_the_end_of_the_interpreter(service):
    acker = await lingering(service)
    await acker.ack(tuples(acker, 1)[0])
    await asyncio.to_thread(acker.flush_at_exit)
    assert len(service.applied) == 1
    await acker.close()


async def test_on_drop_may_be_a_coroutine_function(service, spout):
    told = []

    async def on_drop(tup, error):
        await asyncio.sleep(0)
        told.append(str(error))

    [headers] = await emit(spout, "42")
    async with service.async_acker(on_drop=on_drop) as acker, acker.receive(headers, component="split"):
        raise DropTuple("no such card")
    assert told == ["no such card"]
    assert [state.outcome for state in service.roots.values()] == [Outcome.ACKED]


async def test_a_failed_message_is_sent_again(async_acker, spout):
    sent, acked, given_up = [], [], []

    async def send(root, payload):
        sent.append((payload, root.attempt))
        tup = async_acker.receive(root.headers("bill"), component="bill")
        await (async_acker.fail(tup) if payload == "bad" or root.attempt == 1 else async_acker.ack(tup))

    async def give_up(dead):
        given_up.append(dead.message_id)

    replay = spout.replay(send, ReplayPolicy(max_attempts=2), on_exhausted=give_up)
    await replay.emit("1", "good")
    await replay.emit("2", "bad")
    assert replay.pending == 2
    await replay.run(on_ack=acked.append, until=30, poll_timeout=1)
    assert sorted(sent) == [("bad", 1), ("bad", 2), ("good", 1), ("good", 2)]
    assert (acked, given_up, replay.pending) == (["1"], ["2"], 0)


async def test_run_awaits_handlers_that_are_coroutines_and_calls_those_that_are_not(async_acker, spout):
    acked, failed = [], []

    async def on_ack(message_id: str) -> None:
        await asyncio.sleep(0)
        acked.append(message_id)

    async with spout.emit(message_id="good"):
        pass
    [headers] = await emit(spout, "bad")
    await async_acker.fail(async_acker.receive(headers, component="split"))
    await spout.listen(on_ack=on_ack, on_fail=failed.append, until=0)
    assert (acked, failed) == (["good"], ["bad"])
