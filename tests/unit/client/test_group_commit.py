"""Tests callers that flush at the same time: they share requests, and each gets what became of its own operations."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from acker_client import OperationsLost
from acker_client._core.waiters import SendTurns, TurnOnly, Waiter
from acker_client.testing import lost_reply
from acker_protocol.errors import InvalidRequest
from acker_protocol.ids import draw_id, format_id

from tests.support.waiting import eventually, eventually_true
from tests.unit.client.conftest import met

FOR_EVER_S = 86_400
THREADS = 16
REFUSED = InvalidRequest("refused")


class Gate(httpx.BaseTransport):
    """Holds each request with operations until it is let through."""

    def __init__(self, inner: httpx.MockTransport) -> None:
        self.arrived = 0
        self._let_through = threading.Semaphore(0)
        self._inner = inner

    def open(self, requests: int = 1_000) -> None:
        self._let_through.release(requests)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self.arrived += 1
            assert self._let_through.acquire(timeout=60)
        return self._inner.handle_request(request)


class AsyncGate(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """The same in an event loop; what a thread sends passes."""

    def __init__(self, inner: httpx.MockTransport) -> None:
        self.arrived = 0
        self._let_through = asyncio.Semaphore(0)
        self._inner = inner

    def open(self, requests: int = 1_000) -> None:
        for _ in range(requests):
            self._let_through.release()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self.arrived += 1
            await self._let_through.acquire()
        return await self._inner.handle_async_request(request)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._inner.handle_request(request)


def a_tuple(acker, root: int):
    return acker.receive({"Acker-Anchors": f"00 default {format_id(root)}-{format_id(draw_id())}"}, component="count")


def queued(acker) -> int:
    return len(acker._submitter.flusher.buffer.turns._queue)


@pytest.fixture
def gate(service):
    return Gate(service.transport())


@pytest.fixture
def acker(connect, service, gate):
    acker = met(connect(linger=FOR_EVER_S, transport=gate), service)
    yield acker
    gate.open()
    acker._submitter.flusher.buffer.clear()
    acker.close()


@pytest.fixture
def flushing(acker, gate):
    """Ack a tuple of a root and flush, in a thread of its own; comes back when the flush has sent or is queued."""

    def flush(root: int) -> None:
        acker.ack(a_tuple(acker, root))
        acker.flush()

    with ThreadPoolExecutor(THREADS) as pool:

        def started(root: int):
            before = gate.arrived + queued(acker)
            done = pool.submit(flush, root)
            eventually_true(lambda: gate.arrived + queued(acker) > before)
            return done

        yield started
        gate.open()


def test_threads_that_flush_while_a_request_is_in_the_air_share_the_next_one(acker, service, gate, flushing):
    flushes = [flushing(root) for root in range(1, THREADS + 1)]
    assert gate.arrived == 1
    gate.open()
    for done in flushes:
        done.result(60)
    assert len(service.writes()) == 2
    assert sorted(message.root_id for message in service.applied) == list(range(1, THREADS + 1))


def test_a_flush_waits_for_the_answer_of_the_request_that_others_have_sent_for_it(acker, service, gate, flushing):
    first, second, third = flushing(1), flushing(2), flushing(3)
    gate.open(1)
    first.result(60)
    eventually_true(lambda: gate.arrived == 2)
    assert not second.done()
    assert not third.done()
    gate.open(1)
    second.result(60)
    third.result(60)


def test_a_flush_does_not_wait_for_what_was_buffered_after_its_call(acker, gate, flushing):
    first, second = flushing(1), flushing(2)
    gate.open(1)
    first.result(60)
    assert not second.done()
    assert acker.stats().in_flight == 1


def test_a_flush_waits_for_what_other_threads_have_buffered_before_its_call(acker, service, gate):
    acker.ack(a_tuple(acker, 1))
    gate.open()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(acker.flush).result(60)
    assert len(service.applied) == 1


def test_a_request_that_fails_fails_those_who_waited_for_it_and_nobody_else(acker, service, gate, flushing):
    flushes = [flushing(root) for root in (1, 2, 3)]
    service.faults += [None, REFUSED]
    gate.open(1)
    flushes[0].result(60)
    eventually_true(lambda: gate.arrived == 2)
    acker.ack(a_tuple(acker, 4))
    gate.open()
    for done in flushes[1:]:
        with pytest.raises(OperationsLost, match="2 operations") as raised:
            done.result(60)
        assert isinstance(raised.value.__cause__, InvalidRequest)
    acker.flush()
    assert (acker.stats().lost, acker.stats().in_flight) == (2, 0)


def test_a_flush_that_is_called_while_a_failing_request_is_in_the_air_waits_for_it_and_raises_too(
    acker, service, gate, flushing
):
    service.faults += [REFUSED]
    flushes = [flushing(root) for root in (1, 2)]
    gate.open()
    for done in flushes:
        with pytest.raises(OperationsLost, match="1 operations"):
            done.result(60)
    assert [message.root_id for message in service.applied] == [2]


def test_what_fails_while_nobody_waits_is_raised_by_the_next_call(acker, service, gate):
    service.faults += [REFUSED]
    gate.open()
    acker.ack(a_tuple(acker, 1))
    acker._driver.run(acker._submitter.flusher.send_due())
    with pytest.raises(OperationsLost):
        acker.flush()
    acker.flush()


def test_an_interrupted_sender_leaves_its_turn_to_the_next_which_sends_the_same_bytes(
    acker, service, gate, flushing, monkeypatch
):
    def interrupt(_: float) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(acker._driver, "_sleep", interrupt)
    first, second = flushing(1), flushing(2)
    service.faults += [lost_reply(httpx.ReadTimeout("lost"))]
    gate.open()
    with pytest.raises(KeyboardInterrupt):
        first.result(60)
    second.result(60)
    assert len(set(service.keys("ack"))) == 2
    assert service.keys("ack")[0] == service.keys("ack")[1]
    assert sorted(message.root_id for message in service.applied) == [1, 2]


def test_a_flush_takes_what_a_full_store_has_refused_with_it(acker, service, gate, flushing, monkeypatch):
    service.store.is_full = True
    sleep = acker._driver._sleep

    def emptying(seconds: float) -> None:
        service.store.is_full = False
        sleep(seconds)

    monkeypatch.setattr(acker._driver, "_sleep", emptying)
    flushes = [flushing(root) for root in (1, 2, 3)]
    gate.open()
    for done in flushes:
        done.result(60)
    assert sorted(message.root_id for message in service.applied) == [1, 2, 3]
    assert acker.stats().in_flight == 0


def test_the_child_of_a_fork_flushes_while_a_thread_of_its_parent_does(acker, service, gate, flushing):
    held, queued_up = flushing(1), flushing(2)
    read, write = os.pipe()
    if not (child := os.fork()):
        gate.open()
        acker.ack(a_tuple(acker, 3))
        acker.flush()
        os.write(write, b" ".join(b"%d" % message.root_id for message in service.applied))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 20) == b"3"
    gate.open()
    held.result(60)
    queued_up.result(60)
    assert sorted(message.root_id for message in service.applied) == [1, 2]


def test_the_end_of_the_interpreter_waits_for_the_thread_that_sends(acker, service, gate, flushing):
    held = flushing(1)
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(acker.flush_at_exit)
        eventually_true(lambda: queued(acker) == 1)
        gate.open()
        end.result(60)
    held.result(60)
    assert len(service.writes()) == 1


def test_threads_that_ack_and_flush_again_and_again_lose_nothing(connect, service):
    def work(number: int) -> None:
        for _ in range(20):
            acker.ack(a_tuple(acker, number))
            acker.flush()

    with connect(linger=0.001) as acker, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(1, 9))) == [None] * 8
        assert acker.stats().in_flight == 0
    assert sum(message.outstanding for message in service.applied) == -160


async def async_client(service, gate):
    acker = service.async_acker(linger=FOR_EVER_S, transport=gate)
    await acker._driver.run(acker._session.topology_info())
    return acker


async def start_flush(acker, root: int) -> asyncio.Task:
    await acker.ack(a_tuple(acker, root))
    task = asyncio.create_task(acker.flush())
    await asyncio.sleep(0)
    return task


def arrived(gate: AsyncGate, requests: int):
    async def look() -> bool:
        return gate.arrived == requests

    return eventually(look)


@pytest.mark.anyio
async def test_tasks_that_flush_while_a_request_is_in_the_air_share_the_next_one(service):
    gate = AsyncGate(service.transport())
    acker = await async_client(service, gate)
    first = await start_flush(acker, 1)
    await arrived(gate, 1)
    flushes = [first, *[await start_flush(acker, root) for root in range(2, 17)]]
    gate.open()
    await asyncio.gather(*flushes)
    assert len(service.writes()) == 2
    await acker.close()


@pytest.mark.anyio
async def test_a_task_that_is_cancelled_leaves_its_turn_to_the_next(service):
    gate = AsyncGate(service.transport())
    acker = await async_client(service, gate)
    first = await start_flush(acker, 1)
    await arrived(gate, 1)
    second, third = await start_flush(acker, 2), await start_flush(acker, 3)
    second.cancel()
    first.cancel()
    gate.open()
    await third
    assert sorted(message.root_id for message in service.applied) == [1, 2, 3]
    await acker.close()


@pytest.mark.anyio
async def test_a_failing_request_of_a_loop_fails_the_tasks_that_waited_for_it(service):
    gate = AsyncGate(service.transport())
    acker = await async_client(service, gate)
    first = await start_flush(acker, 1)
    await arrived(gate, 1)
    flushes = [first, *[await start_flush(acker, root) for root in (2, 3)]]
    service.faults += [None, REFUSED]
    gate.open()
    found = await asyncio.gather(*flushes, return_exceptions=True)
    assert [type(error) for error in found] == [type(None), OperationsLost, OperationsLost]
    await acker.close()


@pytest.mark.anyio
async def test_the_end_of_the_interpreter_takes_the_turn_from_a_task_that_is_held_in_its_request(service):
    """Both send the one request: the service applies it once, and the first answer settles it."""
    gate = AsyncGate(service.transport())
    acker = await async_client(service, gate)
    held = await start_flush(acker, 1)
    await arrived(gate, 1)
    waiting = await start_flush(acker, 2)
    await asyncio.to_thread(acker._run_at_exit, acker._submitter.flush())
    assert acker.is_idle
    later = await start_flush(acker, 3)
    await arrived(gate, 2)
    gate.open(1)
    await asyncio.gather(held, waiting)
    assert (gate.arrived, later.done(), acker.stats().in_flight) == (2, False, 1)
    gate.open()
    await later
    assert len(set(service.keys("ack"))) == 3
    assert sorted(message.root_id for message in service.applied) == [1, 2, 3]
    await acker.close()


def test_the_turn_goes_to_one_waiter_at_a_time_in_the_order_of_their_calls():
    turns, waiters = SendTurns(), [TurnOnly() for _ in range(3)]
    assert [turns.take(waiter) for waiter in waiters] == [True, False, False]
    turns.leave(waiters[0])
    assert [waiter.has_turn for waiter in waiters] == [False, True, False]
    turns.leave(waiters[1])
    assert [waiter.has_turn for waiter in waiters] == [False, False, True]
    turns.leave(waiters[2])
    assert turns.take(waiters[0])


def test_a_waiter_that_is_settled_is_not_given_the_turn():
    turns, sender, settled, other = SendTurns(), TurnOnly(), Waiter(), TurnOnly()
    settled.pending = 1
    assert [turns.take(waiter) for waiter in (sender, settled, other)] == [True, False, False]
    settled.pending = 0
    turns.leave(sender)
    assert (settled.has_turn, other.has_turn) == (False, True)


def test_a_waiter_that_was_ready_before_its_driver_waits_is_woken_at_once_and_once():
    woken, waiter = [], Waiter()
    waiter.call_when_ready(lambda: woken.append(1))
    waiter.wake()
    assert woken == [1]
