"""Tests acks that linger in the client and go out together."""

import logging
import threading

import httpx
import pytest
from acker_client import BufferFull, OperationsLost, RetriesExhausted, StoreFull, TupleClosed
from acker_client._core import lifecycle
from acker_client._core.effects import Sleep, WaitFlush
from acker_client._core.flusher import REFUSED_PAUSE_S
from acker_client._core.requests import Request
from acker_client.testing import MemoryAcker, lost_reply
from acker_protocol.errors import UnknownTopology
from acker_protocol.ids import draw_id, format_id
from acker_protocol.operations import Ack, Outcome
from acker_protocol.states import Finished, TopologyRules

from tests.support.waiting import eventually_true
from tests.unit.client.conftest import met

FOR_EVER_S = 86_400
REFUSED = httpx.ConnectError("refused")
ROOT = "00000000000000aa"


@pytest.fixture
def lingering(connect, service):
    """An acker whose acks linger until somebody asks for them."""

    def connected(**options):
        return met(connect(linger=FOR_EVER_S, **options), service)

    ackers = []
    yield lambda **options: ackers.append(connected(**options)) or ackers[-1]
    service.faults.clear()
    for acker in ackers:
        acker._submitter.flusher.buffer.clear()
        acker.close()


def a_tuple(acker, root: str = ROOT, edge: int = 0):
    return acker.receive({"Acker-Anchors": f"00 default {root}-{format_id(edge or draw_id())}"}, component="count")


def ack(acker, count: int = 1, root: str = ROOT) -> None:
    for _ in range(count):
        assert acker.ack(a_tuple(acker, root)) == []


def test_a_thousand_acks_of_one_root_cost_one_operation(lingering, service):
    acker = lingering()
    ack(acker, 1_000)
    assert service.writes() == []
    acker.flush()
    assert len(service.writes()) == 1
    assert [message.outstanding for message in service.applied if isinstance(message, Ack)] == [-1_000]


def test_acks_of_several_roots_travel_in_one_packed_batch(lingering, service):
    acker = lingering()
    ack(acker, 3, "00000000000000aa")
    ack(acker, 3, "00000000000000bb")
    acker.flush()
    [request] = service.writes()
    assert request.headers["Content-Type"] == "application/vnd.acker.packed"
    assert [(op["root_id"][-2:], op["outstanding"]) for op in service.bodies("batch")[0]["ops"]] == [
        ("aa", -3),
        ("bb", -3),
    ]


def test_where_a_topology_dedupes_every_ack_goes_by_its_edge(lingering, service):
    service.store.rules = TopologyRules(dedupe_window_ms=60_000)
    acker = lingering()
    tuples = [a_tuple(acker, edge=edge) for edge in (1, 2, 2)]
    for tup in tuples:
        acker.ack(tup)
    acker.flush()
    assert [op["edge_id"][-1] for op in service.bodies("batch")[0]["ops"]] == ["1", "2", "2"]


def test_acks_go_out_by_themselves_when_they_have_lingered(connect, service):
    with connect(linger=0.001) as acker:
        ack(acker, 3)
        eventually_true(lambda: sum(a.outstanding for a in service.applied) == -3)
        eventually_true(lambda: acker.stats().in_flight == 0)
        ack(acker)
        eventually_true(lambda: sum(a.outstanding for a in service.applied) == -4)


def test_acks_that_come_seldom_linger_shorter_and_those_that_come_soon_linger_longer(connect, service, time):
    acker = met(connect(linger=1), service)
    flow = acker._submitter.flusher
    seldom, soon = [], []
    for pause, found in [(1.5, seldom)] * 8 + [(0.5, soon)] * 8:
        time.advance(pause)
        flow._adapt_linger()
        found.append(flow._linger_s)
        flow._sent_at = time.monotonic()
    assert seldom == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 32, 1 / 32, 1 / 32]
    assert soon == [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 1, 1, 1]


def test_an_ack_that_comes_long_after_the_last_request_goes_out_sooner(lingering, service, time, monkeypatch):
    acker = lingering()
    waits = []
    monkeypatch.setattr(acker._driver, "_wait_flush", waits.append)
    for pause in (0, 2 * FOR_EVER_S, 2 * FOR_EVER_S, 1):
        time.advance(pause)
        ack(acker)
        eventually_true(lambda: not acker._submitter.flusher.buffer.is_flushing)
    assert waits == [FOR_EVER_S, FOR_EVER_S / 2, FOR_EVER_S / 4, FOR_EVER_S / 2]


def test_acks_that_are_many_do_not_linger(lingering, service):
    acker = lingering(batch_size=3)
    for root in ("00000000000000a1", "00000000000000a2", "00000000000000a3"):
        ack(acker, 1, root)
    eventually_true(lambda: len(service.applied) == 3)


def test_a_tuple_whose_ack_lingers_is_done(lingering):
    acker = lingering()
    tup = a_tuple(acker)
    acker.ack(tup)
    with pytest.raises(TupleClosed):
        acker.ack(tup)
    with pytest.raises(TupleClosed):
        tup.anchor("late")


def test_closing_flushes(connect, service):
    with connect(linger=FOR_EVER_S) as acker:
        ack(acker, 5)
    assert len(service.writes("ack")) == 1


def test_a_fail_goes_out_at_once_behind_the_acks_of_its_root(lingering, service):
    acker = lingering()
    ack(acker, 2)
    acker.fail(a_tuple(acker), reason="no")
    assert [type(message).__name__ for message in service.applied] == ["Ack", "Fail"]


def test_a_reset_of_the_timeout_goes_out_at_once_behind_the_acks_of_its_root(lingering, service):
    acker = lingering()
    ack(acker, 2)
    acker.reset_timeout(a_tuple(acker))
    assert [type(message).__name__ for message in service.applied] == ["Ack", "ResetTimeout"]


def test_a_fail_leaves_the_acks_of_other_roots_to_linger(lingering, service):
    acker = lingering()
    ack(acker, 2, "00000000000000bb")
    acker.fail(a_tuple(acker), reason="no")
    assert [type(message).__name__ for message in service.applied] == ["Fail"]


def test_an_init_goes_out_behind_the_acks_of_its_root(lingering, service):
    acker = lingering()
    with acker.shared_spout("orders").emit(message_id="42") as root:
        acker.ack(acker.receive(root.headers("split"), component="split"))
    assert [type(message).__name__ for message in service.applied] == ["Ack", "Init"]
    assert service.completions("orders") == ["42"]


def test_a_batch_folds_what_it_gathers_and_sends_it_when_its_block_is_left(lingering, service):
    acker = lingering()
    with acker.batch() as batch:
        ack(acker, 10)
        assert len(batch) == 1
    assert [answer.state for answer in batch.results] == ["early"]


def test_a_batch_that_was_sent_is_frozen_and_what_comes_later_travels_in_another(lingering, service):
    acker = lingering()
    ack(acker, 2)
    service.faults += [lost_reply(httpx.ReadTimeout("lost"))]
    acker.flush()
    first, again = service.writes("ack")
    assert (first.content, first.headers["Idempotency-Key"]) == (again.content, again.headers["Idempotency-Key"])
    ack(acker)
    acker.flush()
    assert [message.outstanding for message in service.applied] == [-2, -1]


def test_a_batch_whose_sender_was_interrupted_is_taken_up_with_its_key(lingering, service, monkeypatch):
    acker = lingering()
    ack(acker, 2)
    service.faults += [lost_reply(httpx.ReadTimeout("lost"))]
    monkeypatch.setattr(acker._driver, "_sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        acker.flush()
    assert acker.stats().in_flight == 1
    ack(acker)
    acker.flush()
    assert service.keys("ack")[0] == service.keys("ack")[1] != service.keys("ack")[2]
    assert [message.outstanding for message in service.applied] == [-2, -1]


def interrupt(_: float) -> None:
    raise KeyboardInterrupt


def test_a_batch_that_is_older_than_its_key_is_an_error_and_never_sent(lingering, service, time, monkeypatch):
    acker = lingering()
    ack(acker)
    service.faults += [REFUSED]
    monkeypatch.setattr(acker._driver, "_sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        acker.flush()
    time.advance(61)
    with pytest.raises(OperationsLost) as raised:
        acker.flush()
    assert isinstance(raised.value.__cause__, RetriesExhausted)
    assert len(service.writes()) == 1


@pytest.mark.parametrize("use", ["ack", "fail", "flush", "close", "emit", "execute"])
def test_what_could_not_be_delivered_is_raised_by_the_next_call_once_and_counted(lingering, service, use):
    acker = lingering()
    ack(acker, 3, "00000000000000aa")
    ack(acker, 3, "00000000000000bb")
    service.faults += [REFUSED] * 1_000
    acker._driver.run(acker._submitter.flusher.flush())
    service.faults.clear()
    tup = a_tuple(acker)
    uses = {
        "ack": lambda: acker.ack(tup),
        "fail": lambda: acker.fail(tup),
        "flush": acker.flush,
        "close": acker.close,
        "emit": lambda: acker.spout("orders").emit(message_id="1").__enter__(),
        "execute": lambda: acker.receive({}, component="count").__enter__(),
    }
    with pytest.raises(OperationsLost, match="2 operations") as raised:
        uses[use]()
    assert isinstance(raised.value.__cause__, RetriesExhausted)
    assert (acker.stats().lost, raised.value.operations) == (2, 2)
    assert not tup.closed
    acker._submitter.flusher.buffer.raise_failures()


def test_a_refused_batch_is_reported(lingering, service):
    acker = lingering()
    ack(acker)
    service.exists = False
    with pytest.raises(OperationsLost) as raised:
        acker.flush()
    assert isinstance(raised.value.__cause__, UnknownTopology)


OTHER = "00000000000000bb"


def fill(service, acker, monkeypatch, *, for_sleeps: int) -> list[float]:
    """Let the store be full until the client has waited so often, and return how long it waits."""
    service.store.is_full = True
    slept, sleep = [], acker._driver._sleep

    def sleeping(seconds: float) -> None:
        slept.append(seconds)
        service.store.is_full = len(slept) < for_sleeps
        sleep(seconds)

    monkeypatch.setattr(acker._driver, "_sleep", sleeping)
    return slept


def test_acks_that_a_full_store_refuses_are_sent_again_in_new_requests_until_they_are_taken(
    lingering, service, monkeypatch
):
    acker = lingering()
    slept = fill(service, acker, monkeypatch, for_sleeps=3)
    ack(acker, 2)
    ack(acker, 1, OTHER)
    acker.flush()
    assert [message.outstanding for message in service.applied] == [-2, -1]
    assert len(set(service.keys("batch"))) == len(service.keys("batch")) == 4
    assert len(slept) == 3
    assert (acker.stats().in_flight, acker.stats().lost) == (0, 0)


def test_an_ack_that_is_refused_alone_is_sent_again_with_its_key(lingering, service, monkeypatch):
    acker = lingering()
    fill(service, acker, monkeypatch, for_sleeps=2)
    ack(acker)
    acker.flush()
    assert len(service.applied) == 1
    assert len(service.keys("ack")) == 3
    assert len(set(service.keys("ack"))) == 1


def test_of_a_batch_only_what_was_refused_is_sent_again(lingering, service, connect, monkeypatch):
    with connect().spout("orders").emit(message_id="1") as root:
        anchor = root.anchor()
    acker = lingering()
    fill(service, acker, monkeypatch, for_sleeps=1)
    acker.ack(acker.receive(anchor.headers(), component="count"))
    ack(acker)
    ack(acker, 1, OTHER)
    acker.flush()
    assert [len(body["ops"]) for body in service.bodies("batch")] == [3, 2]
    assert sorted(message.root_id for message in service.applied if isinstance(message, Ack)) == sorted(
        [int(root.root_id, 16), int(ROOT, 16), int(OTHER, 16)]
    )


def test_acks_of_pending_roots_do_not_wait_behind_those_that_a_full_store_refuses(lingering, service, connect):
    with connect().spout("orders").emit(message_id="1") as root:
        anchor = root.anchor()
    acker = lingering()
    service.store.is_full = True
    ack(acker, 2)
    acker._driver.run(acker._submitter.flusher.send_due())
    acker.ack(acker.receive(anchor.headers(), component="count"))
    acker._driver.run(acker._submitter.flusher.send_due())
    assert isinstance(service.roots[int(root.root_id, 16)], Finished)
    assert acker.stats().in_flight == 1
    service.store.is_full = False
    acker.flush()
    assert acker.stats().in_flight == 0


def test_acks_that_stay_refused_are_raised_by_the_next_call_and_counted(lingering, service, time):
    acker = lingering()
    service.store.is_full = True
    ack(acker, 2)
    ack(acker, 1, OTHER)
    began = time.monotonic()
    with pytest.raises(OperationsLost, match="2 operations") as raised:
        acker.flush()
    assert isinstance(raised.value.__cause__, StoreFull)
    assert acker.stats().lost == 2
    assert 50 < time.monotonic() - began <= 60
    assert service.applied == []


def test_the_watcher_of_refused_acks_pauses_between_looks_while_the_client_closes(lingering, service):
    acker = lingering()
    service.store.is_full = True
    ack(acker)
    acker._submitter.flusher.stop()
    flow = acker._submitter.flusher._flush_in_background()
    looks, sent = [next(flow)], []
    while len(looks) < 6:
        step = flow.send(acker._driver._perform(sent.pop()) if sent else None)
        (sent if isinstance(step, Request) else looks).append(step)
    assert [type(step) for step in looks] == [WaitFlush, Sleep] * 3
    assert [step.seconds for step in looks[1::2]] == [REFUSED_PAUSE_S] * 3
    assert len(service.writes()) == 1


@pytest.mark.parametrize("verb", ["ack", "fail"])
def test_an_operation_by_itself_is_sent_again_with_its_key_until_a_full_store_takes_it(
    connect, service, monkeypatch, verb
):
    acker = met(connect(), service)
    slept = fill(service, acker, monkeypatch, for_sleeps=2)
    assert getattr(acker, verb)(a_tuple(acker)) == ["early"]
    assert len(service.keys(verb)) == 3
    assert len(set(service.keys(verb))) == 1
    assert slept[0] >= 1, "Retry-After counts"


@pytest.mark.parametrize("verb", ["ack", "fail"])
def test_an_operation_by_itself_that_stays_refused_is_an_error(connect, service, time, verb):
    acker = met(connect(), service)
    service.store.is_full = True
    began = time.monotonic()
    with pytest.raises(StoreFull, match=f"the {verb} of root {ROOT} was refused"):
        getattr(acker, verb)(a_tuple(acker))
    assert 50 < time.monotonic() - began <= 65


def test_a_batch_that_the_program_opened_sends_refused_acks_again_in_new_requests(connect, service, monkeypatch):
    acker = met(connect(), service)
    fill(service, acker, monkeypatch, for_sleeps=1)
    with acker.batch() as batch:
        acker.ack(a_tuple(acker))
        acker.fail(a_tuple(acker, OTHER))
    assert [answer.state for answer in batch.results] == ["early", "early"]
    assert len(set(service.keys("batch"))) == 2


def test_the_bound_on_early_roots_refuses_acks_of_more_of_them(connect):
    service = MemoryAcker(max_early=1)
    acker = service.acker(linger=0, retry_timeout=0)
    assert acker.ack(a_tuple(acker)) == ["early"]
    with pytest.raises(StoreFull):
        acker.ack(a_tuple(acker, OTHER))
    assert acker.ack(a_tuple(acker)) == ["early"]


def test_a_block_that_ended_well_is_acked_whatever_became_of_earlier_acks(lingering, service):
    acker = lingering()
    with acker.receive({"Acker-Anchors": f"00 default {ROOT}-00000000000000bb"}, component="count") as tup:
        ack(acker)
        service.faults += [REFUSED] * 1_000
        acker._driver.run(acker._submitter.flusher.flush())
        service.faults.clear()
    assert tup.closed
    with pytest.raises(OperationsLost):
        acker.flush()


def test_a_full_buffer_blocks_the_caller_until_there_is_space(lingering, service):
    acker = lingering(batch_size=2, buffer_size=2)
    acker._submitter.flusher.buffer.batch_size = 10
    for number in range(10):
        ack(acker, 1, f"00000000000000a{number}")
        assert acker.stats().in_flight <= 2
    assert len(service.applied) == 8


def test_a_full_buffer_raises_by_choice_and_leaves_the_tuple_as_it_was(lingering, service):
    acker = lingering(batch_size=1, buffer_size=1, on_full="raise")
    acker._submitter.flusher.buffer.batch_size = 10
    ack(acker)
    tup = a_tuple(acker, "00000000000000bb")
    with pytest.raises(BufferFull):
        acker.ack(tup)
    acker.flush()
    assert acker.ack(tup) == []


def test_an_acker_that_cannot_learn_its_topology_leaves_the_tuple_as_it_was(connect, service):
    service.exists = False
    with connect(linger=FOR_EVER_S) as acker:
        tup = a_tuple(acker)
        with pytest.raises(UnknownTopology):
            acker.ack(tup)
        assert not tup.closed


def test_a_topology_that_begins_to_dedupe_is_noticed(lingering, service, time):
    acker = lingering()
    time.advance(61)
    service.store.rules = TopologyRules(dedupe_window_ms=60_000)
    ack(acker, 2)
    acker.flush()
    ack(acker, 2)
    acker.flush()
    assert len(service.applied) == 3


def test_threads_that_ack_together_lose_nothing(connect, service):
    with connect(linger=0.001, batch_size=4, buffer_size=8) as acker:
        roots = [format_id(root) for root in range(1, 21)]
        threads = [threading.Thread(target=lambda: [ack(acker, 1, root) for root in roots]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(message.outstanding for message in service.applied) == -160


def test_where_no_thread_can_be_begun_acks_go_out_at_once(lingering, service, monkeypatch):
    acker = lingering()

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    ack(acker)
    assert len(service.writes()) == 1
    monkeypatch.undo()
    ack(acker)
    assert len(service.writes()) == 1


def test_the_end_of_the_interpreter_flushes_and_later_acks_go_out_at_once(lingering, service):
    acker = lingering()
    ack(acker, 3)
    acker.flush_at_exit()
    assert len(service.writes()) == 1
    assert acker.ack(a_tuple(acker)) == ["early"]


def test_what_the_end_of_the_interpreter_cannot_deliver_is_logged(lingering, service, caplog):
    acker = lingering()
    ack(acker, 3)
    service.faults += [REFUSED] * 1_000
    with caplog.at_level(logging.ERROR, "acker_client"):
        lifecycle._flush(acker.flush_at_exit)
    assert "not delivered" in caplog.text


def test_a_tree_completes_by_what_its_bolts_fold(lingering, service):
    acker = lingering()
    with acker.shared_spout("orders").emit(message_id="42") as root:
        headers = root.headers("split")
    with acker.receive(headers, component="split") as tup:
        children = [tup.headers(str(number)) for number in range(20)]
    for child in children:
        with acker.receive(child, component="count"):
            pass
    acker.flush()
    assert [state.outcome for state in service.roots.values()] == [Outcome.ACKED]
    assert len(service.writes()) == 2
