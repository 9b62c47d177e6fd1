from dataclasses import replace

import pytest
from acker_protocol.operations import EndOn, Fail, Init, OperationState, Outcome
from acker_protocol.states import Finished, Gap, TopologyRules, Transition, Tree


@pytest.mark.parametrize(
    ("deadline_ms", "idle_deadline_ms", "due_ms"), [(1_000, None, 1_000), (1_000, 300, 300), (1_000, 2_000, 1_000)]
)
def test_a_tree_is_due_at_the_nearer_of_its_deadlines(
    deadline_ms: int, idle_deadline_ms: int | None, due_ms: int
) -> None:
    tree = Tree(root_id=1, started_ms=0, deadline_ms=deadline_ms, idle_deadline_ms=idle_deadline_ms)
    assert tree.due_ms == due_ms


EMITTED = Tree(root_id=1, started_ms=0, deadline_ms=9, spout_task="orders", message_id="42", ack_val=5, outstanding=1)


def test_an_init_of_the_same_spout_task_and_message_id_is_the_same_emit_whatever_its_values() -> None:
    init = Init(root_id=1, spout_task="orders", message_id="42", ack_val=77, outstanding=9, message_timeout_ms=100)
    assert EMITTED.emitted_by(init)


@pytest.mark.parametrize(("spout_task", "message_id"), [("orders", "43"), ("orders", None), ("refunds", "42")])
def test_an_init_of_another_spout_task_or_message_id_is_another_emit(spout_task: str, message_id: str | None) -> None:
    init = Init(root_id=1, spout_task=spout_task, message_id=message_id, ack_val=5, outstanding=1)
    assert not EMITTED.emitted_by(init)


def test_a_new_tree_is_early_and_counts_from_zero() -> None:
    tree = Tree(root_id=1, started_ms=0, deadline_ms=9)
    assert (tree.spout_task, tree.ack_val, tree.outstanding, tree.edges) == (None, 0, 0, frozenset())


def test_the_rules_are_by_default_those_of_a_new_topology() -> None:
    assert TopologyRules() == TopologyRules(
        message_timeout_ms=30_000, progress_timeout_ms=0, dedupe_window_ms=0, retention_ms=60_000, tracked=True
    )


def test_a_step_says_nothing_of_an_end_unless_there_is_one() -> None:
    step = Transition(state=Finished(outcome=Outcome.ACKED, at_ms=1), operation_state=OperationState.FINISHED)
    assert (step.completion, step.outcome, step.unbalanced) == (None, None, False)


@pytest.mark.parametrize(("deadline_ms", "is_in_it"), [(9, False), (10, True), (19, True), (20, False)])
def test_a_gap_is_from_the_tick_before_it_up_to_the_tick_after_it(deadline_ms: int, *, is_in_it: bool) -> None:
    assert (deadline_ms in Gap(from_ms=10, to_ms=20)) is is_in_it


@pytest.mark.parametrize("end_on", [None, EndOn.FIRST_FAIL, EndOn.ALL_ENDED])
@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("has_failure", [False, True])
def test_any_fail_fails_a_tree_but_that_of_an_edge_where_all_have_to_end(
    end_on: EndOn | None, *, is_plain: bool, has_failure: bool
) -> None:
    failure = Fail(root_id=1) if has_failure else None
    tree = replace(EMITTED, failure=failure, has_plain_fail=is_plain and has_failure, end_on=end_on)
    assert tree.is_failed == (has_failure and (is_plain or end_on is not EndOn.ALL_ENDED))
