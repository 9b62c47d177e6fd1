from dataclasses import replace

import pytest
from acker_protocol.idempotency import replay_operation
from acker_protocol.operations import Ack, EndOn, Fail, Init, Operation, OperationState, Outcome, ResetTimeout
from acker_protocol.states import Finished, State, Tree

INIT = Init(root_id=1, spout_task="orders", message_id="42", ack_val=5, outstanding=1)
OTHER_SPOUT = Init(root_id=1, spout_task="refunds", message_id="42", ack_val=5, outstanding=1)
OTHER_MESSAGE = Init(root_id=1, spout_task="orders", message_id="43", ack_val=5, outstanding=1)
ACK, FAIL, RESET = Ack(root_id=1, ack_val=5, outstanding=-1), Fail(root_id=1), ResetTimeout(root_id=1)

FAIL_OF_EDGE = Fail(root_id=1, ack_val=5, outstanding=-1)

EARLY = Tree(root_id=1, started_ms=0, deadline_ms=1_000)
PENDING = Tree(root_id=1, started_ms=0, deadline_ms=1_000, spout_task="orders", message_id="42", ack_val=5)
WAITING = replace(PENDING, end_on=EndOn.ALL_ENDED)
PENDING = replace(PENDING, end_on=EndOn.FIRST_FAIL)
FINISHED = Finished(outcome=Outcome.TIMED_OUT, at_ms=0)

TABLE = {
    "unknown": (None, {INIT: "duplicate", ACK: "duplicate", FAIL: "duplicate", RESET: "duplicate"}),
    "early": (EARLY, {INIT: "duplicate", ACK: "early", FAIL: "early", RESET: "unknown"}),
    "pending": (
        PENDING,
        {
            INIT: "pending",
            OTHER_SPOUT: "conflict",
            OTHER_MESSAGE: "conflict",
            ACK: "pending",
            FAIL: "duplicate",
            FAIL_OF_EDGE: "duplicate",
            RESET: "pending",
        },
    ),
    "waiting for all of its edges": (WAITING, {FAIL: "duplicate", FAIL_OF_EDGE: "pending"}),
    "finished": (FINISHED, {INIT: "finished", ACK: "finished", FAIL: "finished", RESET: "finished"}),
}
ROWS = [
    pytest.param(state, operation, OperationState(answer), id=f"{name}-{type(operation).__name__}-{answer}")
    for name, (state, answers) in TABLE.items()
    for operation, answer in answers.items()
]


@pytest.mark.parametrize(("state", "operation", "answer"), ROWS)
def test_a_repeat_is_answered_with_the_present_state(
    state: State, operation: Operation, answer: OperationState
) -> None:
    assert replay_operation(state, operation, refused=False) is answer


@pytest.mark.parametrize("state", [None, EARLY])
def test_an_init_that_was_refused_is_refused_again(state: State) -> None:
    assert replay_operation(state, INIT, refused=True) is OperationState.MAX_SPOUT_PENDING


@pytest.mark.parametrize("state", [None, EARLY, PENDING])
@pytest.mark.parametrize("operation", [ACK, FAIL])
def test_an_ack_or_a_fail_that_was_refused_is_refused_again(state: State, operation: Operation) -> None:
    assert replay_operation(state, operation, refused=True) is OperationState.STORE_FULL


@pytest.mark.parametrize("init", [INIT, OTHER_SPOUT, OTHER_MESSAGE])
def test_an_init_that_was_refused_is_answered_with_the_state_of_a_pending_root(init: Init) -> None:
    pending = replay_operation(PENDING, init, refused=False)
    assert replay_operation(PENDING, init, refused=True) is pending


@pytest.mark.parametrize("operation", [INIT, ACK, FAIL])
def test_what_was_refused_is_finished_once_its_root_is(operation: Operation) -> None:
    assert replay_operation(FINISHED, operation, refused=True) is OperationState.FINISHED
