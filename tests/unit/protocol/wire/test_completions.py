import json
from dataclasses import replace

import pytest
from acker_protocol.operations import CompletionRecord, Outcome
from acker_protocol.wire.completions import encode_completion

FAILED = CompletionRecord(
    root_id=0xA1,
    spout_task="orders",
    outcome=Outcome.FAILED,
    message_id="刘备",
    reason="card service timed out",
    component="authorize",
    started_ms=1_790_000_000_000,
    at_ms=1_790_000_000_012,
)


def test_a_completion_is_written_in_the_form_of_the_contract() -> None:
    assert json.loads(json.dumps(encode_completion(FAILED, incarnation="0123456789abcdef"))) == {
        "id": "9a9e1a5f63cb4c27927238bc896180d2",
        "root_id": "00000000000000a1",
        "outcome": "failed",
        "message_id": "刘备",
        "reason": "card service timed out",
        "component": "authorize",
        "complete_latency_ms": 12,
        "at_ms": 1_790_000_000_012,
    }


@pytest.mark.parametrize("outcome", [Outcome.ACKED, Outcome.TIMED_OUT])
def test_what_a_completion_does_not_have_is_null(outcome: Outcome) -> None:
    completion = CompletionRecord(
        root_id=0xA1,
        spout_task="orders",
        outcome=outcome,
        message_id=None,
        reason=None,
        component=None,
        started_ms=1_790_000_000_000,
        at_ms=1_790_000_000_000,
    )
    document = encode_completion(completion, incarnation="0123456789abcdef")
    hung = {"last_component", "last_ack_at_ms", "outstanding"} if outcome is Outcome.TIMED_OUT else set()
    assert {name for name, value in document.items() if value is None} == {"message_id", "reason", "component"} | hung
    assert (document["outcome"], type(document["outcome"]), document["complete_latency_ms"]) == (outcome, str, 0)


def test_a_timeout_is_written_with_where_its_root_hung() -> None:
    hung = replace(
        FAILED, outcome=Outcome.TIMED_OUT, component=None, last_component="price", last_ack_ms=9, outstanding=2
    )
    document = encode_completion(hung, incarnation="1")
    assert (document["component"], document["last_component"]) == (None, "price")
    assert (document["last_ack_at_ms"], document["outstanding"]) == (9, 2)
    assert "outstanding" not in encode_completion(replace(hung, outcome=Outcome.FAILED), incarnation="1")


def test_a_completion_keeps_its_id_however_late_it_is_delivered() -> None:
    later = CompletionRecord(
        root_id=0xA1,
        spout_task="other",
        outcome=Outcome.FAILED,
        message_id=None,
        reason=None,
        component=None,
        started_ms=1_790_000_000_000,
        at_ms=1_799_999_999_999,
    )
    first, second = (encode_completion(done, incarnation="0123456789abcdef")["id"] for done in (FAILED, later))
    assert first == second


def test_a_completion_tells_failures_only_where_its_root_ends_when_all_have_ended() -> None:
    document = encode_completion(FAILED, incarnation="1")
    for failures in (0, 3):
        counted = replace(FAILED, failures=failures)
        assert encode_completion(counted, incarnation="1") == document | {"failures": failures}


def test_a_completion_tells_dropped_edges_only_where_some_were() -> None:
    document = encode_completion(FAILED, incarnation="1")
    assert "dropped" not in document
    assert encode_completion(replace(FAILED, dropped=2), incarnation="1") == document | {"dropped": 2}


def test_a_completion_has_a_traceparent_only_where_its_init_gave_one() -> None:
    traced = replace(FAILED, traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    document = encode_completion(FAILED, incarnation="1")
    assert encode_completion(traced, incarnation="1") == document | {"traceparent": traced.traceparent}
