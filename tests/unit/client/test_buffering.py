"""Tests acks and roots for which nothing is left to do but to buffer them, and what is left where there is more."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from itertools import count

import httpx
import pytest
from acker_client import (
    Acker,
    AsyncAcker,
    BufferFull,
    ClientClosed,
    InvalidResponse,
    OperationsLost,
    RetriesExhausted,
    TupleClosed,
    Unauthorized,
    UsageError,
    propagate,
)
from acker_client._core.hot_path import FoldedOperations, read_ids
from acker_client._core.requests import Request
from acker_client._core.responses import Response, read_refused
from acker_client.testing import MemoryAcker, lost_reply
from acker_client.tuple import Tuple
from acker_protocol.ids import format_id
from acker_protocol.operations import Ack, Operation
from acker_protocol.states import TopologyRules

from tests.support.waiting import eventually_true
from tests.unit.client.conftest import met

FOR_EVER_S = 86_400
LOST = httpx.ReadTimeout("lost")


@pytest.fixture
def lingering(connect: Callable[..., Acker], service: MemoryAcker) -> Iterator[Callable[..., Acker]]:
    """A client whose flusher has begun to wait for ever, and has one ack of root 1."""
    ackers: list[Acker] = []

    def connected(**options) -> Acker:
        acker = met(connect(linger=FOR_EVER_S, **options), service)
        ackers.append(acker)
        receive(acker, 1, 1).ack()
        return acker

    yield connected
    service.faults.clear()
    for acker in ackers:
        acker._submitter.flusher.buffer.clear()
        acker.close()


@pytest.fixture
def effects(monkeypatch: pytest.MonkeyPatch) -> Callable[[Acker | AsyncAcker], list[str]]:
    """Return the names of the effects that a client runs from now on, in this thread or task."""

    def recorded(acker: Acker | AsyncAcker) -> list[str]:
        names: list[str] = []
        perform, here = acker._driver._perform, execution()

        def record(effect):
            if execution() == here:
                names.append(type(effect).__name__)
            return perform(effect)

        monkeypatch.setattr(acker._driver, "_perform", record)
        return names

    return recorded


def execution() -> object:
    """The running task, or the thread where none runs."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return threading.get_ident()


def header(*anchors: tuple[int, int]) -> dict[str, str]:
    listed = ",".join(f"{format_id(root)}-{format_id(edge)}" for root, edge in anchors)
    return {"Acker-Anchors": f"00 default {listed}"}


def receive(acker, root: int, edge: int, component: str = "count", **options):
    return acker.receive(header((root, edge)), component=component, **options)


def work(acker: Acker) -> list[list[int]]:
    """Ack in every way: leaves and parents, of one anchor and of several, folded and not, within a block and not.

    Gives root, edge, ack val and outstanding of each ack, with that of `lingering`.
    """
    for edge in range(2, 5):
        acker.ack(receive(acker, 1, edge))
    receive(acker, 1, 3).ack()  # the same edge again
    with receive(acker, 2, 9, component="split") as tup:
        [_, a], [_, b] = ids(tup.headers(key="a")), ids(tup.anchor(key="b").headers())
    carrier: dict[str, str] = {}
    with acker.receive(header((3, 1), (4, 1), (3, 2)), component="join") as tup:
        [_, c1, _, c2, _, c3] = ids(tup.headers(key="c"))
        propagate.inject(carrier, key="d")
    [_, d1, _, d2, _, d3] = ids(carrier)
    acker.receive(header((3, 5), (4, 5)), component="join").ack()
    with acker.receive({}, component="count"):
        pass
    leaves = [[1, edge, edge, -1] for edge in (1, 2, 3, 4, 3)]
    parents = [[2, 9, 9 ^ a ^ b, 1], [3, 1, 1 ^ c1 ^ d1, 1], [4, 1, 1 ^ c2 ^ d2, 1], [3, 2, 2 ^ c3 ^ d3, 1]]
    return [*leaves, *parents, [3, 5, 5, -1], [4, 5, 5, -1]]


def ids(headers: dict[str, str]) -> tuple[int, ...]:
    found = read_ids(headers, "00 default ")
    assert found is not None
    return found


def test_the_acks_of_a_topology_that_dedupes_are_sent_as_they_are(lingering, service: MemoryAcker):
    service.store.rules = TopologyRules(dedupe_window_ms=60_000)
    acker = lingering()
    expected = work(acker)
    acker.flush()
    sent = [op for op in service.applied if isinstance(op, Ack)]
    assert [[op.root_id, op.edge_id, op.ack_val, op.outstanding] for op in sent] == expected
    assert [op.component for op in sent] == ["count"] * 5 + ["split"] + ["join"] * 5


def test_the_acks_of_a_root_are_folded_where_the_topology_does_not_dedupe(lingering, service: MemoryAcker):
    acker = lingering()
    [*_, again, two, three, four, third, fifth, _] = work(acker)
    acker.flush()
    sent = [op for op in service.applied if isinstance(op, Ack)]
    assert [[op.root_id, op.edge_id, op.ack_val, op.outstanding] for op in sent] == [
        [1, None, 1 ^ 2 ^ 3 ^ 4, -4],
        again,
        two,
        [3, None, three[2] ^ third[2] ^ fifth[2], 1],
        [4, None, four[2] ^ 5, 0],
    ]
    assert [op.component for op in sent] == ["count", "count", "split", "join", "join"]


def test_nothing_is_left_to_do_for_an_ack_but_to_buffer_it(lingering, effects):
    acker = lingering()
    run = effects(acker)
    work(acker)
    assert run == []
    assert acker._context.ack(receive(acker, 1, 9), flush=False) is None
    assert len(acker._submitter.flusher.buffer) > 0


def flushed_roots(service: MemoryAcker) -> list[int]:
    return [ack.root_id for ack in service.applied if isinstance(ack, Ack)]


def test_an_ack_that_flushes_itself_is_one_request_and_starts_no_flusher(connect, service: MemoryAcker, effects):
    acker = met(connect(linger=FOR_EVER_S), service)
    run = effects(acker)
    receive(acker, 1, 1).ack(flush=True)
    acker.ack(receive(acker, 2, 2), flush=True)
    assert run == ["Request", "Request"]
    assert flushed_roots(service) == [1, 2]


def test_an_ack_that_flushes_itself_takes_along_what_has_lingered(lingering, service: MemoryAcker, effects):
    acker = lingering()
    run = effects(acker)
    receive(acker, 2, 2).ack(flush=True)
    assert run == ["Request"]
    assert flushed_roots(service) == [1, 2]


def test_an_ack_that_flushes_itself_says_what_was_lost_and_its_tuple_is_closed(lingering, service: MemoryAcker, time):
    acker = lingering()
    acker.flush()
    service.faults += [LOST] * 1_000
    tup = receive(acker, 2, 2)
    with pytest.raises(OperationsLost):
        tup.ack(flush=True)
    assert tup.closed
    assert acker.stats().lost == 1
    with pytest.raises(TupleClosed):
        tup.ack(flush=True)


def test_what_an_interrupted_flush_leaves_goes_out_in_the_background_with_its_key(
    connect, service: MemoryAcker, monkeypatch
):
    """Nobody else would send it: the ack has started no flusher."""
    acker = met(connect(linger=0.001), service)
    attempt = acker._driver.attempt

    def interrupted(effect):
        if isinstance(effect, Request):
            attempt(effect)
            monkeypatch.undo()
            raise KeyboardInterrupt
        return attempt(effect)

    monkeypatch.setattr(acker._driver, "attempt", interrupted)
    with pytest.raises(KeyboardInterrupt):
        receive(acker, 1, 1).ack(flush=True)
    eventually_true(lambda: acker.is_idle)
    assert len(service.writes("ack")) == 2
    assert len(set(service.keys("ack"))) == len(flushed_roots(service)) == 1


def test_an_interrupted_flush_that_can_start_no_thread_sends_at_once(connect, service: MemoryAcker, monkeypatch):
    acker = met(connect(linger=0.001), service)
    attempt = acker._driver.attempt

    def interrupted(effect):
        if isinstance(effect, Request):
            monkeypatch.setattr(acker._driver, "attempt", attempt)
            raise KeyboardInterrupt
        return attempt(effect)

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(acker._driver, "attempt", interrupted)
    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(KeyboardInterrupt):
        receive(acker, 1, 1).ack(flush=True)
    assert flushed_roots(service) == [1]


def test_a_flush_does_not_end_between_two_steps_of_another_sender(lingering, service: MemoryAcker):
    """A sender takes a request out before it adds what is left of it: then nothing seems to be in flight."""
    acker = lingering()
    buffer = acker._submitter.flusher.buffer
    flushing = threading.Thread(target=acker.flush)
    with buffer.held:
        taken, buffer.folded = buffer.folded, FoldedOperations()
        flushing.start()
        flushing.join(0.2)
        assert flushing.is_alive()
        buffer.folded = taken
    flushing.join()
    assert flushed_roots(service) == [1]


def test_an_answer_that_came_late_says_what_was_wrong(lingering, service: MemoryAcker, time, monkeypatch):
    """It came after the time in which a request is sent again, and is read all the same."""
    acker = lingering()
    attempt = acker._driver.attempt

    def slow(effect):
        answer = attempt(effect)
        time.advance(3_600)
        return answer

    monkeypatch.setattr(acker._driver, "attempt", slow)
    service.faults += [Unauthorized("no key")]
    with pytest.raises(OperationsLost) as raised:
        acker.flush()
    assert isinstance(raised.value.__cause__, Unauthorized)


@pytest.mark.anyio
async def test_a_task_may_let_an_ack_flush_itself(service: MemoryAcker, effects):
    async with service.async_acker(linger=FOR_EVER_S) as acker:
        await acker._driver.run(acker._session.topology_info())
        run = effects(acker)
        await receive(acker, 1, 1).ack(flush=True)
        await acker.ack(receive(acker, 2, 2), flush=True)
        assert run == ["Request", "Request"]
        assert flushed_roots(service) == [1, 2]


@pytest.mark.anyio
async def test_nothing_is_left_to_do_for_an_ack_of_a_task(service: MemoryAcker, effects):
    async with service.async_acker(linger=FOR_EVER_S) as acker:
        await acker._driver.run(acker._session.topology_info())
        await receive(acker, 1, 1).ack()
        run = effects(acker)
        await acker.ack(receive(acker, 1, 2))
        await receive(acker, 1, 3).ack()
        async with receive(acker, 1, 4, component="split") as tup:
            tup.headers(key="a")
        assert run == []
    assert [ack.outstanding for ack in service.applied if isinstance(ack, Ack)] == [-3]


@pytest.mark.anyio
async def test_a_coroutine_that_is_not_awaited_acks_nothing(service: MemoryAcker):
    async with service.async_acker(linger=FOR_EVER_S) as acker:
        await acker._driver.run(acker._session.topology_info())
        await receive(acker, 1, 1).ack()
        tup = receive(acker, 1, 2)
        tup.ack().close()
        acker.ack(tup).close()
        assert not tup.closed


def test_what_cannot_be_delivered_is_raised_before_a_tuple_is_acked_or_its_block_begins(lingering, service):
    acker = lingering(retry_timeout=0)
    tup, opened = receive(acker, 2, 2), receive(acker, 2, 3)
    service.faults.append(LOST)
    acker._driver.run(acker._submitter.flusher.send_due())
    with pytest.raises(OperationsLost):
        acker.ack(tup)
    assert not tup.closed
    acker.ack(receive(acker, 5, 5))
    service.faults.append(LOST)
    acker._driver.run(acker._submitter.flusher.send_due())
    with pytest.raises(OperationsLost), opened:
        raise AssertionError("the block has begun")
    assert not opened.closed
    service.faults.append(LOST)
    with opened:
        receive(acker, 5, 6).ack()
        acker._driver.run(acker._submitter.flusher.send_due())
    assert opened.closed
    with pytest.raises(OperationsLost):
        acker.receive({}, component="count").ack()


def test_a_full_buffer_refuses_the_ack_and_leaves_the_tuple_open(lingering):
    acker = lingering(batch_size=3, buffer_size=3, on_full="raise")
    for root in (2, 3):  # without waking the flusher, which would send them
        acker._submitter.flusher.buffer.folded.fold_ack(root, 1, 1, -1, "count")
    tup = receive(acker, 1, 7)  # of a root that is buffered, too
    with pytest.raises(BufferFull):
        tup.ack()
    assert not tup.closed


def test_what_is_being_sent_counts_in_a_full_buffer(lingering, service, monkeypatch):
    acker = lingering(batch_size=3, buffer_size=3, on_full="raise")
    receive(acker, 2, 2).ack()
    buffer = acker._submitter.flusher.buffer
    refused: list[Exception] = []

    def handle(request):
        receive(acker, 3, 3).ack()
        assert len(buffer) == 3
        for _ in range(2):
            with pytest.raises(BufferFull) as raised:
                receive(acker, 3, 4).ack()
            refused.append(raised.value)
        return handled(request)

    handled = acker._driver.attempt
    monkeypatch.setattr(acker._driver, "attempt", handle)
    acker._driver.run(acker._submitter.flusher.send_due())
    assert len(refused) == 2
    assert len(buffer) == 1


def test_a_batch_around_it_collects_the_ack(lingering, service):
    acker = lingering()
    with acker.batch() as batch:
        receive(acker, 9, 9).ack()
        assert len(batch) == 1
    assert [result.operation.root_id for result in batch.results] == [9]
    assert len(acker._submitter.flusher.buffer) == 1


def test_a_batch_of_another_client_does_not_collect_the_ack(lingering, connect):
    acker, other = lingering(), lingering()
    with other.batch() as batch:
        receive(acker, 9, 9).ack()
    assert len(batch) == 0
    assert len(acker._submitter.flusher.buffer) == 2


def test_an_ack_of_a_client_that_does_not_let_acks_linger_is_a_request_of_its_own(acker, service):
    met(acker, service)
    assert receive(acker, 1, 1).ack() == ["early"]
    assert [request.url.path.rpartition("/")[2] for request in service.requests] == ["ack"]


def test_the_first_ack_reads_the_topology_and_starts_the_flusher(connect, service, effects):
    acker = connect(linger=FOR_EVER_S)
    run = effects(acker)
    receive(acker, 1, 1).ack()
    receive(acker, 1, 2).ack()
    assert run == ["Request", "Spawn"]
    assert [request.method for request in service.requests] == ["GET"]
    acker.flush()


def test_an_ack_after_the_flusher_has_ended_starts_another(lingering, effects):
    acker = lingering()
    acker._submitter.flusher.buffer.clear()
    run = effects(acker)
    receive(acker, 1, 1).ack()
    assert run == ["Spawn"]
    assert acker._submitter.flusher.buffer.is_flushing


def test_the_ack_that_fills_a_batch_wakes_the_flusher(lingering, effects):
    acker = lingering(batch_size=5)
    run = effects(acker)
    for root in range(2, 5):
        receive(acker, root, root).ack()
    for edge in range(2, 5):
        receive(acker, 1, edge).ack()  # these fold
    assert run == []
    receive(acker, 5, 5).ack()
    assert run == ["WakeFlush"]


def test_the_anchors_of_a_tuple_that_fill_a_batch_wake_the_flusher(lingering, effects):
    acker = lingering(batch_size=5)
    run = effects(acker)
    with acker.receive(header(*((root, 1) for root in range(2, 9))), component="join"):
        pass
    assert run == ["WakeFlush"]


def test_a_closed_tuple_cannot_be_acked_again(lingering):
    acker = lingering()
    tup = receive(acker, 2, 2)
    tup.ack()
    with pytest.raises(TupleClosed, match="acked"):
        acker.ack(tup)
    with pytest.raises(TupleClosed, match="acked"):
        tup.headers()
    assert len(acker._submitter.flusher.buffer) == 2


def test_a_block_that_has_ended_its_tuple_acks_it_once(lingering):
    acker = lingering()
    with receive(acker, 2, 2) as tup:
        tup.ack()
    [first, second] = acker._submitter.flusher.buffer.folded.operations()
    assert (first.root_id, second.ack_val, second.outstanding) == (1, 2, -1)


def test_a_closed_client_says_so(lingering):
    acker = lingering()
    acker.close()
    with pytest.raises(ClientClosed):
        receive(acker, 1, 2).ack()


def test_what_is_no_tuple_cannot_be_acked(lingering):
    acker = lingering()
    with pytest.raises(UsageError, match="a tuple, as acker"):
        acker.ack(header((1, 1)))


def test_a_tuple_of_a_class_of_ones_own_is_acked(lingering):
    class Own(Tuple):
        pass

    acker = lingering()
    acker.ack(Own(context=acker._context, ids=(7, 7), component="count"))
    assert len(acker._submitter.flusher.buffer) == 2


def test_a_tuple_to_be_left_open_reads_the_topology_when_its_block_begins(connect, effects):
    acker = connect()
    run = effects(acker)
    with receive(acker, 2, 2, on_error="leave_open") as tup:
        assert run == ["Request"]
        with pytest.raises(UsageError, match="dedupe_window"):
            tup.headers()
    acker.close()


def test_an_interrupt_never_acks_twice(lingering, monkeypatch: pytest.MonkeyPatch):
    acker = lingering()
    tup = receive(acker, 2, 2)

    class Interrupting:
        """A topology whose acks are interrupted while they are buffered."""

        dedupes, trace = False, 1.0

        def is_traced(self, _: int) -> bool:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(acker._session, "cached_info", Interrupting())
        with pytest.raises(KeyboardInterrupt):
            tup.ack()
    with pytest.raises(TupleClosed):
        tup.ack()


def test_a_request_that_is_sent_again_does_not_change_while_acks_are_added(lingering, service, monkeypatch):
    acker = lingering()
    receive(acker, 2, 2).ack()
    edges = count(10)
    service.faults += [LOST, lost_reply(LOST), LOST]
    sleep = acker._driver._sleep

    def sleeping(seconds: float) -> None:
        receive(acker, 1, next(edges)).ack()
        receive(acker, 3, next(edges)).ack()
        sleep(seconds)

    monkeypatch.setattr(acker._driver, "_sleep", sleeping)
    acker._driver.run(acker._submitter.flusher.send_due())
    requests = service.writes()
    assert len(requests) == 4
    assert len({request.content for request in requests}) == 1
    assert len(set(service.keys(""))) == 1
    acker.flush()
    counts: dict[int, int] = {}
    for operation in service.applied:
        assert isinstance(operation, Ack)
        counts[operation.root_id] = counts.get(operation.root_id, 0) + (operation.outstanding or 0)
    assert counts == {1: -4, 2: -1, 3: -3}


def test_threads_lose_no_ack_and_double_none(connect, service):
    threads, each = 8, 500
    with connect(linger=0.001, batch_size=50) as acker:
        met(acker, service)

        def ack(number: int) -> None:
            for edge in range(each):
                with receive(acker, edge % 7 + 1, number * each + edge + 1):
                    pass

        started = [threading.Thread(target=ack, args=(number,)) for number in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        acker.flush()
    acks: list[Operation] = list(service.applied)
    assert sum(-(ack.outstanding or 0) for ack in acks if isinstance(ack, Ack)) == threads * each
    val = 0
    for ack in acks:
        assert isinstance(ack, Ack)
        val ^= ack.ack_val
    expected = 0
    for edge in range(1, threads * each + 1):
        expected ^= edge
    assert val == expected


def test_what_could_not_be_delivered_is_counted(lingering, service):
    acker = lingering(retry_timeout=0)
    service.faults.append(LOST)
    with pytest.raises(OperationsLost) as raised:
        acker.flush()
    assert isinstance(raised.value.__cause__, RetriesExhausted)
    assert acker.stats().in_flight == 0


def answered(states: object) -> tuple[Request, Response]:
    """A batch of acks of the roots 0, 1 and 2, and the answer with these states."""
    operations = [Ack(root_id=root, ack_val=1) for root in range(3)]
    request = Request(method="POST", path="/v1/topologies/default/batch", operations=operations)
    return request, Response(status=200, body=json.dumps({"results": states}).encode())


@pytest.mark.parametrize(
    ("states", "refused"),
    [
        (["pending", "acked", "conflict"], []),
        (["pending", "store_full", "acked"], [1]),
        (["store_full", "pending", "store_full"], [0, 2]),
    ],
)
def test_the_operations_that_were_not_admitted_are_found(states, refused):
    assert [result.operation.root_id for result in read_refused(*answered(states))] == refused


@pytest.mark.parametrize(
    "states",
    [
        ["pending"] * 2,
        ["pending"] * 4,
        ["pending", "pending", "lost"],
        ["pending", "pending", 7],
        ["pending", "pending", []],
        [],
        None,
        "abc",
    ],
)
def test_an_answer_without_one_known_state_per_operation_is_refused(states):
    with pytest.raises(InvalidResponse, match="one known state per operation"):
        read_refused(*answered(states))


def emit(spout, message_id: str | None = "42") -> None:
    with spout.emit(message_id=message_id) as root:
        root.headers(key="bill")


def test_nothing_is_left_to_do_for_the_roots_of_a_batch(acker: Acker, service: MemoryAcker, effects):
    spout = acker.spout("orders")
    emit(spout)
    run = effects(acker)
    with acker.batch() as batch:
        emit(spout, "1")
        emit(spout, None)
        emit(spout, "2")
        assert run == []
    assert [result.operation.message_id for result in batch.results] == ["1", "2"]
    assert len(spout._task.pending) == 3
    assert [init.message_id for init in service.applied] == ["42", "1", "2"]


@pytest.mark.anyio
async def test_nothing_is_left_to_do_for_the_roots_of_a_batch_of_a_task(
    async_acker: AsyncAcker, service: MemoryAcker, effects
):
    spout = async_acker.shared_spout("orders")
    await async_acker._driver.run(async_acker._session.topology_info())
    run = effects(async_acker)
    async with async_acker.batch():
        async with spout.emit(message_id="1") as root:
            root.headers(key="bill")
        assert run == []
    assert [init.message_id for init in service.applied] == ["1"]


def test_a_root_outside_of_a_batch_is_sent_when_its_block_ends(acker: Acker, service: MemoryAcker):
    spout = met(acker, service).shared_spout("orders")
    with spout.emit("42"):
        assert service.requests == []
    assert [request.method for request in service.requests] == ["POST"]


def test_a_spout_task_of_its_own_is_registered_before_its_first_root(acker: Acker, service: MemoryAcker):
    spout = met(acker, service).spout("orders")
    with acker.batch():
        emit(spout)
        emit(spout)
    assert [request.method for request in service.requests] == ["PUT", "POST"]


def test_a_slot_is_acquired_before_the_block_begins(acker: Acker, service: MemoryAcker):
    service.store.max_spout_pending = 1
    spout = met(acker, service).shared_spout("orders")
    with spout.emit("42"):
        assert [request.method for request in service.requests] == ["GET"]
    assert [request.method for request in service.requests] == ["GET", "POST"]


def test_a_topology_that_was_read_long_ago_is_read_again_with_the_next_root(acker: Acker, service: MemoryAcker):
    spout = met(acker, service).shared_spout("orders")
    service.clock.advance(61)
    with acker.batch():
        emit(spout, "1")
        emit(spout, "2")
    assert [request.method for request in service.requests] == ["GET", "POST"]


def test_a_root_is_not_emitted_before_earlier_losses_are_raised(lingering, service: MemoryAcker):
    acker = lingering(retry_timeout=0)
    service.faults += [LOST] * 3
    acker._driver.run(acker._submitter.flusher.flush())
    with acker.batch() as batch, pytest.raises(OperationsLost), acker.shared_spout("orders").emit(message_id="1"):
        pass
    assert not batch


def test_a_root_whose_block_raises_is_not_in_the_batch(acker: Acker, service: MemoryAcker):
    spout = met(acker, service).shared_spout("orders")
    with acker.batch() as batch:
        with pytest.raises(KeyError), spout.emit(message_id="1") as root:
            raise KeyError
        with pytest.raises(TupleClosed):
            root.headers(key="late")
    assert not batch
    assert len(spout._task.pending) == 0
