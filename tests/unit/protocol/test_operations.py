from dataclasses import FrozenInstanceError, fields

import pytest
from acker_protocol.operations import (
    NOT_ADMITTED,
    REFUSED,
    Ack,
    CompletionRecord,
    Fail,
    Init,
    Operation,
    OperationState,
    Outcome,
    ResetTimeout,
)

EACH = [
    Init(root_id=1, spout_task="orders", ack_val=2),
    Ack(root_id=1, ack_val=2),
    Fail(root_id=1),
    ResetTimeout(root_id=1),
]


def test_the_outcomes_are_those_of_the_contract() -> None:
    assert [*Outcome] == ["acked", "failed", "timed_out"]


def test_the_states_are_those_of_the_contract() -> None:
    assert {*OperationState} == {
        "pending",
        "acked",
        "failed",
        "early",
        "finished",
        "duplicate",
        "unknown",
        "conflict",
        "max_spout_pending",
        "mailbox_full",
        "store_full",
    }


def test_an_init_that_was_not_admitted_was_not_applied() -> None:
    assert {"max_spout_pending", "mailbox_full", "store_full"} == NOT_ADMITTED


def test_a_conflict_is_refused_too() -> None:
    assert {"conflict", "max_spout_pending", "mailbox_full", "store_full"} == REFUSED


@pytest.mark.parametrize("operation", EACH, ids=lambda operation: type(operation).__name__)
def test_an_operation_is_a_frozen_value(operation: Operation) -> None:
    again = type(operation)(**{field.name: getattr(operation, field.name) for field in fields(operation)})
    assert (again, hash(again)) == (operation, hash(operation))
    with pytest.raises(FrozenInstanceError):
        operation.root_id = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        type(operation)(1)  # type: ignore[call-arg, misc]
    assert not hasattr(operation, "__dict__")


@pytest.mark.parametrize("operation", EACH, ids=lambda operation: type(operation).__name__)
def test_a_field_that_is_left_out_is_none(operation: Operation) -> None:
    said = {"root_id", "spout_task", "ack_val", "dropped"}
    assert {getattr(operation, field.name) for field in fields(operation) if field.name not in said} == {None}


@pytest.mark.parametrize(
    ("started_ms", "at_ms", "latency_ms"), [(1_000, 1_012, 12), (1_000, 1_000, 0), (1_000, 400, 0)]
)
def test_complete_latency_counts_from_the_first_operation_and_is_never_negative(
    started_ms: int, at_ms: int, latency_ms: int
) -> None:
    completion = CompletionRecord(
        root_id=1,
        spout_task="orders",
        outcome=Outcome.ACKED,
        message_id=None,
        reason=None,
        component=None,
        started_ms=started_ms,
        at_ms=at_ms,
    )
    assert completion.complete_latency_ms == latency_ms


@pytest.mark.parametrize(("ack_val", "is_plain"), [(None, True), (0, False), (5, False)])
def test_a_fail_is_plain_unless_it_ends_an_edge(ack_val: int | None, *, is_plain: bool) -> None:
    assert Fail(root_id=1, ack_val=ack_val).is_plain is is_plain
