"""Tests a spout that emits."""

import os
import re

import httpx
import pytest
from acker_client import (
    BatchError,
    DuplicateKey,
    MailboxFull,
    MaxSpoutPending,
    RetriesExhausted,
    StoreFull,
    TupleClosed,
    UsageError,
    propagate,
)
from acker_client.root import spout_task_name
from acker_client.testing import lost_reply
from acker_protocol.anchors import read_anchors
from acker_protocol.errors import Conflict
from acker_protocol.ids import SPOUT_EDGE, derive_edge
from acker_protocol.operations import OperationState
from acker_protocol.wire import fields

from tests.unit.client.conftest import met

LOST = httpx.ReadTimeout("lost")


@pytest.fixture
def spout(acker, service):
    return met(acker, service).shared_spout("orders")


def emit(spout, **emission):
    with spout.emit(message_id="42", **emission) as root:
        root.anchor("bill")


def test_the_init_holds_the_edges_of_all_consumers(spout, service):
    with spout.emit(message_id="42", message_timeout=5, progress_timeout=0) as root:
        one, two = root.anchor("bill").anchors[0], root.anchor("ship").anchors[0]
    assert service.bodies("init") == [
        {
            "root_id": root.root_id,
            "spout_task": "orders",
            "ack_val": f"{one.edge_id ^ two.edge_id:016x}",
            "outstanding": 2,
            "message_id": "42",
            "message_timeout_ms": 5_000,
            "progress_timeout_ms": 0,
        }
    ]


def test_the_edge_of_a_consumer_with_a_key_is_derived_with_the_spout_task_as_component(spout):
    with spout.emit(message_id="42") as root:
        [anchor] = read_anchors(root.headers("bill"), topology="default").anchors
    assert f"{anchor.root_id:016x}" == root.root_id
    assert anchor.edge_id == derive_edge(
        root_id=anchor.root_id, parent_edge=SPOUT_EDGE, component="orders", name="bill"
    )


def test_the_edge_of_a_consumer_without_a_key_is_random(spout):
    with spout.emit(message_id="42") as root:
        [anchor] = root.anchor().anchors
    keys = ("", "#0", "0", "None")
    derived = [
        derive_edge(root_id=anchor.root_id, parent_edge=SPOUT_EDGE, component="orders", name=key) for key in keys
    ]
    assert anchor.edge_id not in derived


def test_nothing_is_sent_before_the_block_is_left(spout, service):
    with spout.emit(message_id="42") as root:
        root.anchor("bill")
        assert service.writes() == []
    assert len(service.writes()) == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_inside_sends_no_init(spout, service, error):
    with pytest.raises(error), spout.emit(message_id="42") as root:
        raise error(root.anchor("bill"))
    assert service.writes() == []


def test_a_block_is_entered_once(spout, service):
    block = spout.emit(message_id="42")
    with block as root:
        root.anchor("bill")
        with pytest.raises(UsageError, match="call emit again"), block:
            pass
        assert propagate.current() is root
    with pytest.raises(UsageError, match="call emit again"), block:
        pass
    assert len(service.applied) == 1


def test_a_root_without_a_message_id_is_not_tracked_and_nothing_is_sent(spout, service):
    with spout.emit() as root:
        assert root.headers("bill") == {}
    assert service.writes() == []


def test_a_consumers_name_used_twice_is_refused(spout):
    with spout.emit(message_id="42") as root:
        root.anchor("bill")
        with pytest.raises(DuplicateKey):
            root.anchor("bill")


def test_a_root_cannot_be_anchored_to_after_its_block(spout):
    with spout.emit(message_id="42") as root:
        pass
    with pytest.raises(TupleClosed, match=f"root {root.root_id} of 'orders' .message id '42'. has left its emit block"):
        root.anchor("late")


@pytest.mark.parametrize(
    "word", [OperationState.MAX_SPOUT_PENDING, OperationState.MAILBOX_FULL, OperationState.STORE_FULL]
)
def test_a_refused_init_is_sent_again_with_a_new_key_until_it_is_placed(spout, service, word):
    service.refusals += [word, word]
    emit(spout)
    assert len(service.applied) == 1
    assert len(set(service.keys("init"))) == 3


def test_a_refused_init_waits_as_long_as_the_service_asks(spout, service, time):
    service.refusals += [OperationState.MAX_SPOUT_PENDING]
    emit(spout)
    assert time.slept == [1.0]


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        (OperationState.MAX_SPOUT_PENDING, MaxSpoutPending),
        (OperationState.MAILBOX_FULL, MailboxFull),
        (OperationState.STORE_FULL, StoreFull),
    ],
)
def test_an_init_that_finds_no_place_raises_the_refusal_after_its_message_timeout(spout, service, time, word, problem):
    service.refusals += [word] * 1_000
    with pytest.raises(problem, match="'42'"):
        emit(spout, message_timeout=4)
    assert 4.0 <= sum(time.slept) <= 9.0


def test_an_init_is_sent_again_for_emit_timeout_at_most(connect, service, time):
    service.refusals += [OperationState.MAILBOX_FULL] * 1_000
    with connect(emit_timeout=2) as acker, pytest.raises(MailboxFull):
        emit(acker.spout("orders"), message_timeout=60)
    assert 2.0 <= sum(time.slept) <= 7.0


@pytest.mark.parametrize("retry_after_s", [3, 120])
def test_an_emit_ends_at_once_where_the_service_asks_to_wait_beyond_emit_timeout(connect, service, time, retry_after_s):
    with connect(emit_timeout=2) as acker:
        spout = met(acker, service).shared_spout("orders")
        service.faults += [MailboxFull("full", retry_after_s=retry_after_s)]
        with pytest.raises(MailboxFull, match="'42'"):
            emit(spout)
    assert (time.slept, len(service.writes("init"))) == ([], 1)


def test_an_emit_waits_as_long_as_the_service_asks_within_emit_timeout(connect, service, time):
    with connect(emit_timeout=2) as acker:
        spout = met(acker, service).shared_spout("orders")
        service.faults += [MailboxFull("full", retry_after_s=2)]
        emit(spout)
    assert (time.slept, len(service.writes("init"))) == ([2.0], 2)


def test_a_refused_batch_is_sent_for_the_last_time_when_emit_timeout_is_over(connect, service, time):
    """No wait is asked for then; those of the client double, and would go beyond it."""
    service.refusals += [OperationState.MAILBOX_FULL] * 1_000
    with connect(emit_timeout=20) as acker:
        spout, began = met(acker, service).shared_spout("orders"), time.monotonic()
        with pytest.raises(BatchError):
            emit_batch(acker, spout, {}, {})
    assert time.monotonic() - began == pytest.approx(20, abs=0.002)


def test_a_refused_batch_is_sent_no_more_often_for_many_timeouts(connect, service, time):
    service.refusals += [OperationState.MAILBOX_FULL] * 10_000
    with connect(emit_timeout=20) as acker:
        spout = met(acker, service).shared_spout("orders")
        with pytest.raises(BatchError):
            emit_batch(acker, spout, *({"message_timeout": 5 + number / 10} for number in range(50)))
    assert len(time.slept) < 10, "with doubled waits from 50 ms up to 5 s"


def test_of_a_batch_only_what_has_time_for_it_waits_as_long_as_the_service_asks(connect, service):
    with connect(emit_timeout=20) as acker:
        spout = met(acker, service).shared_spout("orders")
        service.faults += [refused_batch(2, retry_after_s=5)]
        with pytest.raises(BatchError) as raised:
            emit_batch(acker, spout, {"message_timeout": 0.1}, {})
    assert [result.operation.message_timeout_ms for result in raised.value.results] == [100]
    assert [init.message_timeout_ms for init in service.applied] == [None]


def emit_batch(acker, spout, *emissions) -> None:
    with acker.batch():
        for emission in emissions:
            emit(spout, **emission)


def refused_batch(operations: int, *, retry_after_s: int) -> httpx.Response:
    states = {"accepted": 0, "results": [OperationState.MAILBOX_FULL] * operations}
    return httpx.Response(200, json=states, headers={"Retry-After": str(retry_after_s)})


def test_an_init_of_unknown_outcome_keeps_its_key_and_takes_a_new_one_once_it_is_refused(spout, service):
    service.faults += [LOST]
    service.refusals += [OperationState.MAX_SPOUT_PENDING]
    emit(spout)
    first, again, anew = service.keys("init")
    assert first == again != anew


def test_an_init_whose_reply_was_lost_emits_one_root(spout, service):
    service.faults += [lost_reply(LOST)]
    emit(spout)
    assert len(service.applied) == 1


def test_an_init_whose_outcome_stays_unknown_raises(spout, service):
    service.faults += [LOST] * 1_000
    with pytest.raises(RetriesExhausted):
        emit(spout)


def test_a_rate_limit_in_between_is_not_taken_for_a_refusal(spout, service):
    service.faults += [httpx.Response(429, headers={"Retry-After": "1"})]
    emit(spout)
    assert len(set(service.keys("init"))) == 1


def test_a_conflict_is_raised(spout, service):
    service.refusals += [OperationState.CONFLICT]
    with pytest.raises(Conflict):
        emit(spout)
    assert len(service.writes()) == 1


@pytest.mark.parametrize(
    "emission",
    [
        {"message_id": "x" * 1_025},
        {"message_id": 42},
        {"message_timeout": 0.099},
        {"message_timeout": 0},
        {"progress_timeout": 0.099},
    ],
)
def test_what_no_init_may_say_is_refused_before_the_block(spout, emission):
    with pytest.raises(UsageError, match=next(iter(emission))), spout.emit(**{"message_id": "42", **emission}):
        pytest.fail("the block was entered")


def test_a_shared_spout_keeps_its_name(acker):
    assert acker.shared_spout("orders").name == "orders"


def test_a_spout_of_its_own_adds_host_and_process(acker):
    assert re.fullmatch(rf"orders-[A-Za-z0-9._-]+-{os.getpid()}-[0-9a-f]{{8}}", acker.spout("orders").name)


def test_the_name_of_a_spout_task_is_a_name_whatever_the_host_is_called():
    assert spout_task_name("orders", host="a_b c/d", process="7") == "orders-a_b-c-d-7"
    for host in ("ü", "h" * 100, "_", "机器"):
        assert fields.name(spout_task_name("orders", host=host, process="7")).startswith("orders-")


def test_spouts_whose_names_differ_at_their_end_are_two_spout_tasks():
    names = {spout_task_name("o" * 127 + end, host="h" * 100, process="7") for end in "12"}
    assert len(names) == 2
    assert all(fields.name(name) for name in names)


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 129])
def test_a_spouts_name_must_be_a_name(acker, name):
    with pytest.raises(UsageError, match="spout's name"):
        acker.spout(name)
