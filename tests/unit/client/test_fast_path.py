"""Tests that the fast path of acks does what their flows do, and where it hands over to them."""

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
    UsageError,
    propagate,
)
from acker_client._core.fast_path import FastPath
from acker_client._core.requests import Request
from acker_client._core.responses import Response, read_refused, read_results
from acker_client.testing import MemoryAcker, lost_reply
from acker_client.tuple import Tuple
from acker_protocol.ids import format_id
from acker_protocol.operations import NOT_ADMITTED, Ack, Operation
from acker_protocol.states import TopologyRules

from tests.unit.client.conftest import met

FOR_EVER_S = 86_400
LOST = httpx.ReadTimeout("lost")


@pytest.fixture(autouse=True)
def enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FastPath, "enabled", True)


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
def flows(monkeypatch: pytest.MonkeyPatch) -> Callable[[Acker | AsyncAcker], list[str]]:
    """Give the names of the flows that a client runs from now on."""

    def recorded(acker: Acker | AsyncAcker) -> list[str]:
        names: list[str] = []
        for name in ("open", "ack", "complete", "fail"):
            flow = getattr(acker._submitter, name)

            def record(*args, _name=name, _flow=flow, **options):
                names.append(_name)
                return _flow(*args, **options)

            monkeypatch.setattr(acker._submitter, name, record)
        return names

    return recorded


def header(*anchors: tuple[int, int]) -> dict[str, str]:
    listed = ",".join(f"{format_id(root)}-{format_id(edge)}" for root, edge in anchors)
    return {"Acker-Anchors": f"00 default {listed}"}


def receive(acker, root: int, edge: int, component: str = "count", **options):
    return acker.receive(header((root, edge)), component=component, **options)


def work(acker: Acker) -> None:
    """Ack in every way: leaves and parents, of one anchor and of several, folded and not, within a block and not."""
    for edge in range(2, 5):
        acker.ack(receive(acker, 1, edge))
    receive(acker, 1, 3).ack()  # the same edge again
    with receive(acker, 2, 9, component="split") as tup:
        tup.headers(key="a")
        tup.anchor(key="b")
    with acker.receive(header((3, 1), (4, 1), (3, 2)), component="join") as tup:
        tup.headers(key="c")
        propagate.inject({}, key="d")
    acker.receive(header((3, 5), (4, 5)), component="join").ack()
    with acker.receive({}, component="count"):
        pass


@pytest.mark.parametrize("dedupe_window_ms", [0, 60_000])
def test_it_sends_what_the_flows_send(
    lingering, service: MemoryAcker, monkeypatch: pytest.MonkeyPatch, dedupe_window_ms: int
):
    service.store.rules = TopologyRules(dedupe_window_ms=dedupe_window_ms)
    bodies: list[bytes] = []
    for enabled in (True, False):
        monkeypatch.setattr(FastPath, "enabled", enabled)
        acker = lingering()
        work(acker)
        acker.flush()
        bodies.append(service.writes()[0].content)
    assert bodies[0] == bodies[1]


def test_an_ack_runs_no_flow(lingering, flows):
    acker = lingering()
    run = flows(acker)
    work(acker)
    assert run == []
    assert len(acker._submitter.flusher.buffer) > 0


@pytest.mark.anyio
async def test_an_ack_of_a_task_runs_no_flow(service: MemoryAcker, flows):
    async with service.async_acker(linger=FOR_EVER_S) as acker:
        await acker._driver.run(acker._session.topology_info())
        await receive(acker, 1, 1).ack()
        run = flows(acker)
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
    for edge in (2, 3):
        acker._submitter.flusher.buffer.add(lambda folded, edge=edge: folded.add([Ack(root_id=edge, ack_val=edge)]))
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

    handled = acker._driver._attempt
    monkeypatch.setattr(acker._driver, "_attempt", handle)
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


def test_the_first_ack_reads_the_topology_and_starts_the_flusher(connect, service, flows):
    acker = connect(linger=FOR_EVER_S)
    run = flows(acker)
    receive(acker, 1, 1).ack()
    receive(acker, 1, 2).ack()
    assert run == ["ack"]
    assert [request.method for request in service.requests] == ["GET"]
    acker.flush()


def test_an_ack_after_the_flusher_has_ended_starts_another(lingering, flows):
    acker = lingering()
    acker._submitter.flusher.buffer.clear()
    run = flows(acker)
    receive(acker, 1, 1).ack()
    assert run == ["ack"]
    assert acker._submitter.flusher.buffer._flushing


def test_the_ack_that_fills_a_batch_wakes_the_flusher(lingering, service, flows):
    acker = lingering(batch_size=5)
    run = flows(acker)
    for root in range(2, 6):
        receive(acker, root, root).ack()
    assert run == ["ack"]


def test_the_anchors_of_a_tuple_that_fill_a_batch_wake_the_flusher(lingering, flows):
    acker = lingering(batch_size=5)
    run = flows(acker)
    with acker.receive(header(*((root, 1) for root in range(2, 9))), component="join"):
        pass
    assert run == ["complete"]


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
    [first, second] = acker._submitter.flusher.buffer._folded.operations()
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


def test_a_tuple_to_be_left_open_reads_the_topology_when_its_block_begins(lingering, flows):
    acker = lingering()
    run = flows(acker)
    with receive(acker, 2, 2, on_error="leave_open") as tup, pytest.raises(UsageError, match="dedupe_window"):
        tup.headers()
    assert run == ["open"]


def test_an_interrupt_never_acks_twice(lingering, monkeypatch: pytest.MonkeyPatch):
    acker = lingering()
    tup = receive(acker, 2, 2)

    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(acker._submitter.flusher.buffer, "add_quickly", interrupt)
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


@pytest.mark.parametrize(
    "states",
    [
        ["pending", "acked", "conflict"],
        ["pending", "store_full", "acked"],
        ["pending"] * 2,
        ["pending"] * 4,
        ["pending", "pending", "lost"],
        ["pending", "pending", 7],
        ["pending", "pending", []],
        [],
        None,
        "abc",
        {"pending": 1, "acked": 2, "failed": 3},
    ],
)
def test_the_states_compared_as_a_set_are_those_compared_one_by_one(states):
    operations = [Ack(root_id=root, ack_val=1) for root in range(3)]
    request = Request(method="POST", path="/v1/topologies/default/batch", operations=operations)
    response = Response(status=200, body=json.dumps({"results": states}).encode())
    found: list[object] = []
    for read in (read_refused, read_results):
        try:
            found.append([result for result in read(request, response) if result.state in NOT_ADMITTED])
        except InvalidResponse as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Acker], list[str]]:
    """Give the flows of roots that a client runs from now on."""

    def recorded(acker: Acker | AsyncAcker) -> list[str]:
        names: list[str] = []
        for name in ("start_root", "commit_root"):
            flow = getattr(acker._spouts, name)

            def record(*args, _name=name, _flow=flow):
                names.append(_name)
                return _flow(*args)

            monkeypatch.setattr(acker._spouts, name, record)
        return names

    return recorded


def emit(spout, message_id: str | None = "42") -> None:
    with spout.emit(message_id=message_id) as root:
        root.headers(key="bill")


def test_the_roots_of_a_batch_are_emitted_without_a_flow(acker: Acker, service: MemoryAcker, counted):
    spout = acker.spout("orders")
    emit(spout)
    run = counted(acker)
    with acker.batch() as batch:
        emit(spout, "1")
        emit(spout, None)
        emit(spout, "2")
    assert run == []
    assert [result.operation.message_id for result in batch.results] == ["1", "2"]
    assert len(spout._task.pending) == 3
    assert [init.message_id for init in service.applied] == ["42", "1", "2"]


@pytest.mark.anyio
async def test_the_roots_of_a_batch_of_a_task_are_emitted_without_a_flow(
    async_acker: AsyncAcker, service: MemoryAcker, counted
):
    spout = async_acker.shared_spout("orders")
    await async_acker._driver.run(async_acker._session.topology_info())
    run = counted(async_acker)
    async with async_acker.batch(), spout.emit(message_id="1") as root:
        root.headers(key="bill")
    assert run == []
    assert [init.message_id for init in service.applied] == ["1"]


def test_a_root_outside_of_a_batch_is_sent_by_a_flow(acker: Acker, service: MemoryAcker, counted):
    spout = met(acker, service).shared_spout("orders")
    run = counted(acker)
    emit(spout)
    assert run == ["commit_root"]


def test_a_spout_task_of_its_own_is_registered_by_a_flow(acker: Acker, service: MemoryAcker, counted):
    spout = met(acker, service).spout("orders")
    run = counted(acker)
    with acker.batch():
        emit(spout)
        emit(spout)
    assert run == ["start_root"]
    assert [request.method for request in service.requests] == ["PUT", "POST"]


def test_a_slot_is_acquired_by_a_flow(acker: Acker, service: MemoryAcker, counted):
    service.store.max_spout_pending = 1
    spout = met(acker, service).shared_spout("orders")
    run = counted(acker)
    emit(spout)
    assert run == ["start_root", "commit_root"]


def test_a_topology_that_was_read_long_ago_is_read_again_by_a_flow(acker: Acker, service: MemoryAcker, counted):
    spout = met(acker, service).shared_spout("orders")
    run = counted(acker)
    service.clock.advance(61)
    with acker.batch():
        emit(spout, "1")
        emit(spout, "2")
    assert run == ["start_root"]
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
