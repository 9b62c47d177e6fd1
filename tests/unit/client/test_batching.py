"""Tests operations that go out together."""

import json
import threading
from dataclasses import replace

import httpx
import pytest
from acker_client import BatchError, InvalidRequest, MailboxFull, OperationState, TupleClosed
from acker_client._core.requests import write_operations
from acker_client.testing import MemoryAcker, lost_reply
from acker_protocol.operations import Ack, Fail, Init, Outcome
from acker_protocol.wire.operations import decode_batch
from acker_protocol.wire.packed import MAX_BYTES, decode_packed, encode_packed

from tests.unit.client.conftest import met


@pytest.fixture
def spout(acker, service):
    return met(acker, service).shared_spout("orders")


def emit(spout, *message_ids: str) -> list[dict[str, str]]:
    headers = []
    for message_id in message_ids:
        with spout.emit(message_id=message_id) as root:
            headers.append(root.headers("split"))
    return headers


def ops(service: MemoryAcker) -> list[list[tuple[str, str | None]]]:
    return [[(op["op"], op.get("message_id")) for op in body["ops"]] for body in service.bodies("batch")]


def test_inits_acks_and_fails_of_a_block_travel_in_one_request_in_their_order(acker, spout, service):
    with acker.batch() as batch:
        one, two = (acker.receive(headers, component="split") for headers in emit(spout, "1", "2"))
        with acker.receive(one.headers("x"), component="count"):
            pass
        acker.ack(one)
        acker.fail(two, reason="no")
        assert service.writes() == []
        assert len(batch) == 5
    assert ops(service) == [[("init", "1"), ("init", "2"), ("ack", None), ("ack", None), ("fail", None)]]
    assert [answer.state for answer in batch.results] == ["pending", "pending", "pending", "acked", "failed"]


def test_a_batch_whose_reply_was_lost_is_sent_again_as_the_same_bytes_and_applied_once(acker, spout, service):
    service.faults += [lost_reply(httpx.ReadTimeout("lost"))]
    with acker.batch():
        for headers in emit(spout, "1", "2"):
            acker.ack(acker.receive(headers, component="split"))
    first, again = service.writes("batch")
    assert (first.content, first.headers["Idempotency-Key"]) == (again.content, again.headers["Idempotency-Key"])
    assert len(service.applied) == 4
    assert {state.outcome for state in service.roots.values()} == {Outcome.ACKED}


def test_refused_inits_of_a_batch_are_sent_again_alone_in_a_new_request(acker, spout, service):
    service.refusals += [OperationState.MAX_SPOUT_PENDING, OperationState.PENDING, OperationState.STORE_FULL]
    with acker.batch() as batch:
        emit(spout, "1", "2", "3")
    assert ops(service) == [[("init", "1"), ("init", "2"), ("init", "3")], [("init", "1"), ("init", "3")]]
    assert len(set(service.keys("batch"))) == 2
    assert [(answer.operation.message_id, answer.state) for answer in batch.results] == [
        ("1", "pending"),
        ("2", "pending"),
        ("3", "pending"),
    ]


def test_inits_that_never_find_a_slot_are_reported_one_by_one(acker, spout, service):
    service.refusals += [OperationState.PENDING] + [OperationState.MAILBOX_FULL] * 1_000
    with pytest.raises(BatchError, match=r"1 operations .* mailbox_full") as raised, acker.batch() as batch:
        emit(spout, "1", "2")
    assert [(answer.operation.message_id, answer.state) for answer in raised.value.results] == [("2", "mailbox_full")]
    assert [answer.state for answer in batch.results] == ["pending", "mailbox_full"]


def test_a_conflict_is_reported_and_not_sent_again(acker, spout, service):
    service.refusals += [OperationState.CONFLICT]
    with pytest.raises(BatchError, match="conflict"), acker.batch():
        emit(spout, "1", "2")
    assert len(service.writes()) == 1


def test_a_batch_of_one_is_a_single_call(acker, spout, service):
    with acker.batch():
        emit(spout, "1")
    assert len(service.writes("init")) == 1


def test_a_batch_of_one_whose_init_is_refused_is_reported_as_a_batch_is(acker, spout, service):
    service.refusals += [OperationState.MAILBOX_FULL] * 1_000
    with pytest.raises(BatchError), acker.batch():
        emit(spout, "1")
    with pytest.raises(MailboxFull):
        emit(spout, "1")


def test_an_empty_batch_sends_nothing(acker, service):
    with acker.batch() as batch:
        pass
    assert service.writes() == []
    assert batch.results == ()


def test_what_was_gathered_goes_out_after_an_exception_too(acker, spout, service):
    [headers] = emit(spout, "1")
    with pytest.raises(ValueError, match="no"), acker.batch(), acker.receive(headers, component="split"):
        raise ValueError("no")
    assert [state.outcome for state in service.roots.values()] == [Outcome.FAILED]


def test_the_end_of_the_program_sends_nothing(acker, spout, service):
    with pytest.raises(KeyboardInterrupt), acker.batch():
        raise KeyboardInterrupt(emit(spout, "1"))
    assert service.writes() == []


def test_a_tuple_in_a_batch_is_done_at_once(acker, spout):
    [headers] = emit(spout, "1")
    tup = acker.receive(headers, component="split")
    with acker.batch():
        acker.ack(tup)
        with pytest.raises(TupleClosed):
            tup.anchor("late")


def test_a_timeout_is_reset_at_once_also_within_a_batch(acker, spout, service):
    [headers] = emit(spout, "1")
    with acker.batch():
        acker.reset_timeout(acker.receive(headers, component="split"))
        assert len(service.writes("reset-timeout")) == 1


def test_after_the_block_operations_go_out_by_themselves_again(acker, spout, service):
    with acker.batch():
        pass
    emit(spout, "1")
    assert len(service.writes("init")) == 1


def test_a_batch_gathers_for_its_own_acker_only(acker, spout, connect, service):
    with connect() as other, other.batch() as batch:
        emit(spout, "1")
        assert len(batch) == 0
        assert len(service.writes("init")) == 1


def test_a_batch_within_a_batch_gathers_its_own(acker, spout, service):
    with acker.batch():
        emit(spout, "1", "2")
        with acker.batch():
            emit(spout, "3", "4")
    assert ops(service) == [[("init", "3"), ("init", "4")], [("init", "1"), ("init", "2")]]


def test_another_thread_is_not_within_the_batch(acker, spout, service):
    with acker.batch() as batch:
        thread = threading.Thread(target=emit, args=(spout, "1"))
        thread.start()
        thread.join()
        assert len(batch) == 0
    assert len(service.writes("init")) == 1


def test_a_batch_that_is_not_valid_is_raised(acker, spout, service):
    service.faults += [InvalidRequest("message_timeout_ms is over the dedupe window", index=1)]
    with pytest.raises(InvalidRequest) as raised, acker.batch():
        emit(spout, "1", "2")
    assert raised.value.extra == {"index": 1}


def test_more_than_ten_thousand_operations_are_split_in_their_order():
    messages = [Ack(root_id=1, ack_val=edge, edge_id=edge) for edge in range(1, 20_002)]
    calls = write_operations("default", messages)
    assert [len(decode_packed(call.body, max_operations=10_000)) for call in calls[:2]] == [10_000, 10_000]
    assert len(calls[2].operations) == 1
    assert [message for call in calls for message in call.operations] == messages


def test_long_operations_are_split_below_four_mebibytes():
    init = Init(root_id=1, spout_task="orders", ack_val=1, message_id="ü" * 512)
    calls = write_operations(
        "default", [replace(init, message_id=f"{number}{init.message_id[5:]}") for number in range(9_000)]
    )
    assert max(len(call.body) for call in calls) <= 4 * 1024 * 1024
    assert sum(len(call.operations) for call in calls) == 9_000


def test_operations_that_share_a_long_text_are_split_until_each_batch_is_taken():
    messages = [Fail(root_id=root, reason="😀" * 1_024, component="c" * 128) for root in range(1, 9_001)]
    calls = write_operations("default", messages)
    assert len(encode_packed(messages)) < MAX_BYTES
    decoded = [decode_packed(call.body, max_operations=10_000, max_bytes=MAX_BYTES) for call in calls]
    assert [message for batch in decoded for message in batch] == messages
    assert max(map(len, decoded)) > 500


def test_operations_that_share_a_short_text_stay_in_one_batch():
    messages = [Fail(root_id=root, reason="card service timed out") for root in range(1, 10_001)]
    assert len(write_operations("default", messages)) == 1


TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def traced_inits(count: int, *, message_id: str = "42") -> list[Init]:
    return [
        Init(root_id=n, spout_task="s", ack_val=n, message_id=message_id, traceparent=TRACEPARENT)
        for n in range(1, count + 1)
    ]


def test_a_batch_with_a_traceparent_is_sent_in_json():
    ops = [Ack(root_id=9, ack_val=1), *traced_inits(2)]
    (request,) = write_operations("default", ops)
    assert request.content_type == "application/json"
    assert decode_batch(json.loads(request.body), max_operations=10) == ops


def test_a_large_batch_with_traceparents_is_halved():
    ops = traced_inits(10_000, message_id="m" * 1_000)
    requests = write_operations("default", ops)
    assert len(requests) > 1
    assert max(len(request.body) for request in requests) <= MAX_BYTES
    assert [op for request in requests for op in decode_batch(json.loads(request.body), max_operations=10_000)] == ops
