"""The state machine, state by state; whole sequences run in tests/model."""

from dataclasses import replace
from functools import reduce

import pytest
from acker_protocol.ids import fold
from acker_protocol.operations import (
    Ack,
    CompletionRecord,
    EndOn,
    Fail,
    Init,
    Operation,
    OperationState,
    Outcome,
    ResetTimeout,
)
from acker_protocol.states import Finished, Gap, State, TopologyRules, Transition, Tree
from acker_protocol.tree import (
    ACKED_TOO_OFTEN_IN_WINDOW,
    ACKED_TOO_OFTEN_WITHOUT_WINDOW,
    MAX_SPAN_MS,
    apply_operation,
    expire,
    forget_expired,
    note_tick,
)
from hypothesis import given
from hypothesis import strategies as st

NOW = 10_000
RULES = TopologyRules(message_timeout_ms=1_000, retention_ms=5_000)
DEDUPE = TopologyRules(message_timeout_ms=1_000, retention_ms=5_000, dedupe_window_ms=2_000)
NO_ACKERS = TopologyRules(message_timeout_ms=1_000, retention_ms=5_000, tracked=False)

E1, E2, E3 = 0xB1, 0xB2, 0xB3
INIT = Init(root_id=1, spout_task="orders", message_id="42", ack_val=E1, outstanding=1)
OTHER = replace(INIT, spout_task="refunds")
ACK = Ack(root_id=1, ack_val=E1, outstanding=-1, edge_id=E1)
FAIL = Fail(root_id=1, reason="broken", component="authorize")
RESET = ResetTimeout(root_id=1)

EARLY = Tree(root_id=1, started_ms=9_900, deadline_ms=10_900, ack_val=E2, outstanding=-1)
EARLY_FAILED = replace(EARLY, failure=FAIL)
PENDING = Tree(
    root_id=1,
    started_ms=9_900,
    deadline_ms=10_900,
    spout_task="orders",
    message_id="42",
    ack_val=E1 ^ E2,
    outstanding=2,
)
LAST = replace(PENDING, ack_val=E1, outstanding=1)
FINISHED = Finished(outcome=Outcome.TIMED_OUT, at_ms=9_990)
STATES = {
    "unknown": None,
    "early": EARLY,
    "early and failed": EARLY_FAILED,
    "pending": PENDING,
    "at its last edge": LAST,
    "finished": FINISHED,
}

# state, operation, answer, state after it
TRANSITIONS = [
    ("unknown", INIT, "pending", "pending"),
    ("unknown", ACK, "early", "early"),
    ("unknown", FAIL, "early", "early"),
    ("unknown", RESET, "unknown", "unknown"),
    ("early", INIT, "pending", "pending"),
    ("early", ACK, "early", "early"),
    ("early", FAIL, "early", "early"),
    ("early", RESET, "unknown", "early"),
    ("early and failed", INIT, "failed", "finished"),
    ("early and failed", ACK, "early", "early"),
    ("early and failed", FAIL, "early", "early"),
    ("early and failed", RESET, "unknown", "early"),
    ("pending", INIT, "duplicate", "pending"),
    ("pending", OTHER, "conflict", "pending"),
    ("pending", ACK, "pending", "pending"),
    ("pending", FAIL, "failed", "finished"),
    ("pending", RESET, "pending", "pending"),
    ("at its last edge", INIT, "duplicate", "pending"),
    ("at its last edge", ACK, "acked", "finished"),
    ("at its last edge", FAIL, "failed", "finished"),
    ("finished", INIT, "finished", "finished"),
    ("finished", OTHER, "finished", "finished"),
    ("finished", ACK, "finished", "finished"),
    ("finished", FAIL, "finished", "finished"),
    ("finished", RESET, "finished", "finished"),
]
UNCHANGED = [
    ("unknown", RESET),
    ("early", RESET),
    ("pending", INIT),
    ("pending", OTHER),
    ("finished", INIT),
    ("finished", ACK),
    ("finished", FAIL),
    ("finished", RESET),
]


def step(
    state: State, operation: Operation, rules: TopologyRules = RULES, free_slots: int | None = None, now_ms: int = NOW
) -> Transition:
    return apply_operation(state, operation, now_ms=now_ms, rules=rules, free_slots=free_slots)


def tree_after(*operations: Operation, state: State = None, rules: TopologyRules = RULES, now_ms: int = NOW) -> Tree:
    after = reduce(lambda present, operation: step(present, operation, rules, now_ms=now_ms).state, operations, state)
    assert isinstance(after, Tree)
    return after


def named(state: State) -> str:
    if isinstance(state, Tree):
        return "pending" if state.spout_task else "early"
    return "finished" if isinstance(state, Finished) else "unknown"


@pytest.mark.parametrize("operation", [ACK, FAIL, replace(ACK, edge_id=None)])
@pytest.mark.parametrize("rules", [RULES, DEDUPE])
def test_no_tree_begins_by_an_ack_or_a_fail_where_there_may_be_no_more_early_roots(
    operation: Operation, rules: TopologyRules
) -> None:
    for free_early in (0, -1):
        done = apply_operation(None, operation, now_ms=NOW, rules=rules, free_early=free_early)
        assert done == Transition(state=None, operation_state=OperationState.STORE_FULL)
    for more in (1, None):
        done = apply_operation(None, operation, now_ms=NOW, rules=rules, free_early=more)
        assert (done.operation_state, named(done.state)) == ("early", "early")


@pytest.mark.parametrize(("before", "operation", "answer", "after"), [row for row in TRANSITIONS if row[2] != "early"])
def test_all_else_goes_on_where_there_may_be_no_more_early_roots(
    before: str, operation: Operation, answer: str, after: str
) -> None:
    done = apply_operation(STATES[before], operation, now_ms=NOW, rules=RULES, free_early=0)
    assert (done.operation_state, named(done.state)) == (answer, after)


@pytest.mark.parametrize("operation", [ACK, FAIL])
def test_a_root_that_is_early_stays_so_where_there_may_be_no_more(operation: Operation) -> None:
    done = apply_operation(EARLY, operation, now_ms=NOW, rules=RULES, free_early=0)
    assert (done.operation_state, named(done.state)) == ("early", "early")


@pytest.mark.parametrize("root", [EARLY, PENDING])
@pytest.mark.parametrize("free_edges", [0, -1])
def test_an_ack_is_refused_whose_edge_there_is_no_room_to_remember(root: Tree, free_edges: int) -> None:
    known = tree_after(OTHER_ACK, state=root, rules=DEDUPE)

    def answer(state: State, operation: Operation, rules: TopologyRules = DEDUPE) -> Transition:
        return apply_operation(state, operation, now_ms=NOW, rules=rules, free_edges=free_edges)

    refused = OperationState.STORE_FULL
    assert answer(known, ACK) == Transition(state=known, operation_state=refused)
    assert answer(None, ACK) == Transition(state=None, operation_state=refused)
    assert answer(known, OTHER_ACK).operation_state is OperationState.DUPLICATE
    for operation, rules in ((replace(ACK, edge_id=None), DEDUPE), (ACK, RULES), (FAIL, DEDUPE), (INIT, DEDUPE)):
        assert answer(known, operation, rules) == step(known, operation, rules)


@pytest.mark.parametrize("state", [EARLY, PENDING])
@pytest.mark.parametrize("free_edges", [1, None])
def test_a_root_has_edges_remembered_while_there_is_room(state: Tree, free_edges: int | None) -> None:
    done = apply_operation(state, ACK, now_ms=NOW, rules=DEDUPE, free_edges=free_edges)
    assert named(done.state) == named(state)
    assert tree_after(state=done.state).edges == {(E1, NOW)}


@pytest.mark.parametrize("free_edges", [0, -1])
def test_in_a_full_store_a_pending_root_takes_the_ack_of_an_edge_that_there_is_no_room_to_remember(
    free_edges: int,
) -> None:
    def answer(state: State, operation: Operation) -> Transition:
        return apply_operation(
            state, operation, now_ms=NOW, rules=DEDUPE, free_edges=free_edges, is_full=True, free_early=0
        )

    known = tree_after(OTHER_ACK, state=PENDING, rules=DEDUPE)
    assert answer(known, ACK) == step(known, replace(ACK, edge_id=None), DEDUPE)
    assert answer(known, OTHER_ACK) == Transition(state=known, operation_state=OperationState.DUPLICATE)
    assert answer(EARLY, ACK) == Transition(state=EARLY, operation_state=OperationState.STORE_FULL)


def test_an_ack_val_of_zero_begins_no_tree_and_is_not_refused() -> None:
    done = apply_operation(None, replace(ACK, ack_val=0), now_ms=NOW, rules=RULES, free_early=0)
    assert done == Transition(state=None, operation_state=OperationState.EARLY)


@pytest.mark.parametrize("operation", [ACK, FAIL])
def test_without_ackers_nothing_is_early_and_nothing_is_refused(operation: Operation) -> None:
    done = apply_operation(None, operation, now_ms=NOW, rules=NO_ACKERS, free_early=0)
    assert done.operation_state is OperationState.FINISHED


@pytest.mark.parametrize(("before", "operation", "answer", "after"), TRANSITIONS)
def test_an_operation_is_answered_and_moves_the_root(
    before: str, operation: Operation, answer: str, after: str
) -> None:
    done = step(STATES[before], operation)
    assert (done.operation_state, named(done.state)) == (answer, after)


@pytest.mark.parametrize(("before", "operation", "answer", "after"), TRANSITIONS)
def test_there_is_a_completion_exactly_where_a_root_ends(
    before: str, operation: Operation, answer: str, after: str
) -> None:
    ended = after == "finished" != before
    assert (step(STATES[before], operation).completion is not None) == ended


@pytest.mark.parametrize(("before", "operation"), UNCHANGED)
def test_what_has_no_effect_leaves_the_state_as_it_was(before: str, operation: Operation) -> None:
    assert step(STATES[before], operation).state == STATES[before]


@pytest.mark.parametrize("operation", [INIT, ACK, FAIL, RESET])
def test_a_finished_root_answers_with_its_outcome(operation: Operation) -> None:
    assert step(FINISHED, operation).outcome is Outcome.TIMED_OUT


# What an init says ----------------------------------------------------------------------------------------------------


def test_an_init_begins_a_pending_tree() -> None:
    assert step(None, INIT).state == Tree(
        root_id=1,
        started_ms=NOW,
        deadline_ms=NOW + 1_000,
        ack_val=E1,
        outstanding=1,
        spout_task="orders",
        message_id="42",
        has_details=True,
        end_on=EndOn.FIRST_FAIL,
    )


def test_an_init_of_an_early_root_keeps_its_start_and_begins_its_timeout_again() -> None:
    tree = tree_after(INIT, state=EARLY)
    assert (tree.started_ms, tree.deadline_ms) == (9_900, NOW + 1_000)
    assert (tree.ack_val, tree.outstanding) == (E1 ^ E2, 0)


def test_an_init_without_edges_is_acked_at_once() -> None:
    done = step(None, replace(INIT, ack_val=0, outstanding=0))
    assert (done.operation_state, done.state) == (OperationState.ACKED, Finished(outcome=Outcome.ACKED, at_ms=NOW))


def test_an_init_after_all_its_acks_is_acked() -> None:
    assert step(tree_after(ACK), INIT).operation_state is OperationState.ACKED


def test_an_init_after_a_fail_and_all_its_acks_has_failed() -> None:
    assert step(tree_after(FAIL, ACK), INIT).operation_state is OperationState.FAILED


def test_early_acks_that_cancel_to_zero_end_nothing() -> None:
    cancelled = tree_after(replace(ACK, outstanding=0), replace(ACK, outstanding=0))
    assert (cancelled.ack_val, cancelled.outstanding) == (0, 0)
    assert step(cancelled, INIT).operation_state is OperationState.PENDING


@pytest.mark.parametrize(("own_ms", "deadline_ms"), [(None, NOW + 1_000), (200, NOW + 200), (60_000, NOW + 60_000)])
def test_the_timeout_of_an_init_goes_before_that_of_the_topology(own_ms: int | None, deadline_ms: int) -> None:
    tree = tree_after(replace(INIT, message_timeout_ms=own_ms))
    assert (tree.message_timeout_ms, tree.deadline_ms) == (own_ms, deadline_ms)


@pytest.mark.parametrize(
    ("of_topology", "of_init", "idle_deadline_ms"),
    [(0, None, None), (300, None, NOW + 300), (300, 0, None), (300, 700, NOW + 700), (0, 700, NOW + 700)],
)
def test_the_progress_timeout_of_an_init_goes_before_that_of_the_topology_and_zero_is_none(
    of_topology: int, of_init: int | None, idle_deadline_ms: int | None
) -> None:
    tree = tree_after(replace(INIT, progress_timeout_ms=of_init), rules=replace(RULES, progress_timeout_ms=of_topology))
    assert tree.idle_deadline_ms == idle_deadline_ms


# Free slots -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [None, EARLY])
@pytest.mark.parametrize("free_slots", [0, -1])
def test_an_init_without_a_free_slot_changes_nothing(state: State, free_slots: int) -> None:
    done = step(state, INIT, free_slots=free_slots)
    assert (done.operation_state, done.state, done.completion) == (OperationState.MAX_SPOUT_PENDING, state, None)


def test_an_init_takes_the_last_free_slot() -> None:
    assert step(None, INIT, free_slots=1).operation_state is OperationState.PENDING


@pytest.mark.parametrize(
    ("state", "init", "answer"),
    [
        (None, replace(INIT, ack_val=0, outstanding=0), OperationState.ACKED),
        (EARLY_FAILED, INIT, OperationState.FAILED),
        (PENDING, INIT, OperationState.DUPLICATE),
        (PENDING, OTHER, OperationState.CONFLICT),
        (FINISHED, INIT, OperationState.FINISHED),
    ],
)
def test_an_init_that_needs_no_slot_is_admitted(state: State, init: Init, answer: OperationState) -> None:
    assert step(state, init, free_slots=0).operation_state is answer


# What is XORed and counted --------------------------------------------------------------------------------------------


def test_an_ack_of_an_unknown_root_begins_an_early_tree_with_one_message_timeout() -> None:
    assert step(None, ACK).state == Tree(
        root_id=1,
        started_ms=NOW,
        deadline_ms=NOW + 1_000,
        ack_val=E1,
        outstanding=-1,
        has_details=True,
        last_ack_ms=NOW,
    )


def test_an_ack_xors_its_value_in_and_counts_beside_it() -> None:
    tree = tree_after(Ack(root_id=1, ack_val=E2 ^ E3, outstanding=0), state=PENDING)
    assert (tree.ack_val, tree.outstanding, tree.deadline_ms) == (E1 ^ E3, 2, PENDING.deadline_ms)


@pytest.mark.parametrize("outstanding", [1, -1])
def test_zero_with_edges_outstanding_stays_pending_and_is_unbalanced(outstanding: int) -> None:
    done = step(replace(LAST, outstanding=1 + outstanding), ACK)
    assert (done.operation_state, done.unbalanced) == (OperationState.PENDING, True)


def test_a_value_that_is_not_zero_is_not_unbalanced() -> None:
    assert not step(replace(PENDING, outstanding=1), ACK).unbalanced


@pytest.mark.parametrize(
    ("before", "more", "after"),
    [
        (None, -1, None),
        (2, None, None),
        (2**31 - 2, 1, 2**31 - 1),
        (2**31 - 1, 1, None),
        (-(2**31) + 1, -1, -(2**31)),
        (-(2**31), -1, None),
    ],
)
def test_a_count_once_left_out_or_past_32_bits_is_unknown(
    before: int | None, more: int | None, after: int | None
) -> None:
    tree = tree_after(replace(ACK, outstanding=more), state=replace(PENDING, outstanding=before))
    assert tree.outstanding == after


def test_with_an_unknown_count_zero_alone_decides() -> None:
    assert step(replace(LAST, outstanding=None), ACK).operation_state is OperationState.ACKED


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        (None, OperationState.EARLY),
        (EARLY, OperationState.EARLY),
        (PENDING, OperationState.PENDING),
        (FINISHED, OperationState.FINISHED),
    ],
)
def test_an_ack_val_of_zero_has_no_effect(state: State, answer: OperationState) -> None:
    done = step(state, replace(ACK, ack_val=0), DEDUPE)
    assert (done.operation_state, done.state) == (answer, state)


@st.composite
def whole_trees(draw: st.DrawFn) -> list[Operation]:
    """All operations of one tree in any order. Its edges are single bits: as independent as random ids are."""
    edges = [1 << draw(st.integers(0, 3)) + 4 * number for number in range(draw(st.integers(0, 8)))]
    born = {edge: list[int]() for edge in (0, *edges)}
    for number, edge in enumerate(edges):
        born[draw(st.sampled_from((0, *edges[:number])))].append(edge)
    init = replace(INIT, ack_val=fold(born[0]), outstanding=len(born[0]))
    acks = [Ack(root_id=1, ack_val=fold([edge, *born[edge]]), outstanding=len(born[edge]) - 1) for edge in edges]
    return draw(st.permutations([init, *acks]))


@given(whole_trees())
def test_a_tree_is_acked_at_the_last_of_its_operations_in_whatever_order_and_not_before(
    operations: list[Operation],
) -> None:
    *others, last = operations
    assert step(tree_after(*others) if others else None, last).operation_state is OperationState.ACKED


@given(whole_trees())
def test_a_tree_is_acked_by_its_values_alone_where_nobody_counts(operations: list[Operation]) -> None:
    *others, last = (replace(operation, outstanding=None) for operation in operations)  # type: ignore[type-var]
    assert step(tree_after(*others) if others else None, last).operation_state is OperationState.ACKED


# Failing --------------------------------------------------------------------------------------------------------------


def test_a_fail_ends_a_pending_root_with_its_reason_and_component() -> None:
    done = step(PENDING, FAIL)
    assert done.state == Finished(outcome=Outcome.FAILED, at_ms=NOW)
    assert done.completion == CompletionRecord(
        root_id=1,
        spout_task="orders",
        outcome=Outcome.FAILED,
        message_id="42",
        reason="broken",
        component="authorize",
        started_ms=9_900,
        at_ms=NOW,
    )


def test_a_completion_has_the_first_of_two_early_fails() -> None:
    done = step(tree_after(FAIL, Fail(root_id=1, reason="later")), INIT)
    assert done.completion is not None
    assert (done.completion.reason, done.completion.component) == ("broken", "authorize")


EDGE_FAILS = Fail(root_id=1, reason="declined", ack_val=E1, outstanding=-1, edge_id=E1)
ALL_ENDED = replace(PENDING, end_on=EndOn.ALL_ENDED)
WITH_E1 = frozenset({(E1, 9_950)})
# what a fail that ends an edge finds and makes: state, further edges that may be remembered, answer, failures after it
EDGES_THAT_FAIL = [
    ("the first of two edges", ALL_ENDED, None, "pending", 1),
    ("the last edge", replace(ALL_ENDED, ack_val=E1, outstanding=1), None, "failed", None),
    ("an edge of a root that ends at its first fail", replace(PENDING, end_on=EndOn.FIRST_FAIL), None, "failed", None),
    ("an edge that ended before", replace(ALL_ENDED, edges=WITH_E1), None, "duplicate", 0),
    ("an edge that there is no room to remember", ALL_ENDED, 0, "store_full", 0),
    ("an edge of an early root", EARLY, None, "early", 1),
    ("an edge of an early root that ended before", replace(EARLY, edges=WITH_E1), None, "early", 0),
    ("such an edge once more", replace(EARLY, edges=WITH_E1, failure=FAIL), None, "duplicate", 0),
    ("an edge of an early root that there is no room to remember", EARLY, 0, "store_full", 0),
    ("an edge of an unknown root that there is no room to remember", None, 0, "store_full", None),
]


@pytest.mark.parametrize(
    ("state", "free_edges", "answer", "failures"),
    [row[1:] for row in EDGES_THAT_FAIL],
    ids=[row[0] for row in EDGES_THAT_FAIL],
)
def test_a_fail_may_end_an_edge_alone(state: State, free_edges: int | None, answer: str, failures: int | None) -> None:
    done = apply_operation(state, EDGE_FAILS, now_ms=NOW, rules=DEDUPE, free_edges=free_edges)
    assert done.operation_state == answer
    assert failures == (done.state.failures if isinstance(done.state, Tree) else None)


def test_an_early_root_keeps_that_it_was_failed_though_the_edge_does_not_count() -> None:
    for state, free_edges in ((replace(EARLY, edges=WITH_E1), None), (EARLY, 0)):
        marked = apply_operation(state, EDGE_FAILS, now_ms=NOW, rules=DEDUPE, free_edges=free_edges).state
        assert marked == replace(state, failure=EDGE_FAILS)


def test_a_plain_fail_ends_also_a_root_whose_edges_all_have_to_end() -> None:
    done = step(ALL_ENDED, FAIL)
    assert (done.operation_state, done.completion and done.completion.failures) == (OperationState.FAILED, 0)


@pytest.mark.parametrize(
    ("max_reason", "reason", "component"), [(None, "broken", "authorize"), (3, "bro", "authorize"), (0, None, None)]
)
@pytest.mark.parametrize("before", [None, Tree(root_id=1, started_ms=NOW, deadline_ms=NOW + 1_000, ack_val=E1)])
def test_an_early_root_keeps_as_much_of_a_failure_as_it_has_room_for(
    before: Tree | None, max_reason: int | None, reason: str | None, component: str | None
) -> None:
    early = apply_operation(before, FAIL, now_ms=NOW, rules=RULES, max_reason=max_reason)
    assert early.operation_state is OperationState.EARLY
    done = apply_operation(early.state, INIT, now_ms=NOW, rules=RULES, max_reason=max_reason)
    assert done.completion is not None
    assert (done.outcome, done.completion.reason, done.completion.component) == (Outcome.FAILED, reason, component)


def test_a_fail_without_a_reason_has_none_to_cut() -> None:
    early = apply_operation(None, replace(FAIL, reason=None), now_ms=NOW, rules=RULES, max_reason=3)
    done = apply_operation(early.state, INIT, now_ms=NOW, rules=RULES)
    assert done.completion is not None
    assert (done.completion.reason, done.completion.component) == (None, "authorize")


@pytest.mark.parametrize(("max_reason", "reason"), [(None, "broken"), (3, "bro")])
@pytest.mark.parametrize("end_on", EndOn)
def test_a_pending_root_is_told_with_as_much_of_a_failure_as_there_is_room_for(
    end_on: EndOn, max_reason: int | None, reason: str
) -> None:
    state = apply_operation(None, replace(INIT, end_on=end_on), now_ms=NOW, rules=RULES).state
    done = apply_operation(state, FAIL, now_ms=NOW, rules=RULES, max_reason=max_reason)
    assert done.completion is not None
    assert (done.completion.reason, done.completion.component) == (reason, "authorize")


def test_the_completion_of_an_acked_root_has_no_reason() -> None:
    done = step(LAST, ACK)
    assert done.completion == CompletionRecord(
        root_id=1,
        spout_task="orders",
        outcome=Outcome.ACKED,
        message_id="42",
        reason=None,
        component=None,
        started_ms=9_900,
        at_ms=NOW,
    )


@pytest.mark.parametrize(("state", "operation"), [(LAST, ACK), (PENDING, FAIL)])
def test_the_operation_that_ends_a_root_gives_the_outcome(state: State, operation: Operation) -> None:
    done = step(state, operation)
    assert isinstance(done.state, Finished)
    assert done.outcome is done.state.outcome


# The same edge twice --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [None, PENDING])
def test_an_edge_is_acked_once_where_the_topology_dedupes(state: State) -> None:
    once = tree_after(ACK, state=state, rules=DEDUPE)
    again = step(once, replace(ACK, ack_val=E1 ^ E3), DEDUPE)
    assert (again.operation_state, again.state) == (OperationState.DUPLICATE, once)
    assert once.edges == {(E1, NOW)}


def test_another_edge_is_no_duplicate() -> None:
    tree = tree_after(ACK, Ack(root_id=1, ack_val=E3, outstanding=-1, edge_id=E3), state=EARLY, rules=DEDUPE)
    assert tree.edges == {(E1, NOW), (E3, NOW)}
    assert tree.ack_val == E1 ^ E2 ^ E3


@pytest.mark.parametrize(("ack", "rules"), [(ACK, RULES), (replace(ACK, edge_id=None), DEDUPE)])
def test_without_dedupe_or_without_a_named_edge_the_second_ack_undoes_the_first(ack: Ack, rules: TopologyRules) -> None:
    tree = tree_after(ack, ack, state=PENDING, rules=rules)
    assert (tree.ack_val, tree.outstanding, tree.edges) == (PENDING.ack_val, 0, frozenset())


# Time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("own_ms", "deadline_ms"), [(None, NOW + 1_000), (200, NOW + 200)])
def test_a_reset_gives_the_whole_message_timeout_again(own_ms: int | None, deadline_ms: int) -> None:
    tree = tree_after(RESET, state=replace(PENDING, message_timeout_ms=own_ms))
    assert tree == replace(PENDING, message_timeout_ms=own_ms, deadline_ms=deadline_ms)


@pytest.mark.parametrize("operation", [ACK, RESET])
def test_progress_moves_the_idle_deadline(operation: Operation) -> None:
    tree = tree_after(operation, state=replace(PENDING, progress_timeout_ms=300, idle_deadline_ms=10_100))
    assert tree.idle_deadline_ms == NOW + 300


def test_a_duplicate_and_an_ack_of_zero_are_no_progress() -> None:
    idle = replace(PENDING, progress_timeout_ms=300, idle_deadline_ms=10_100, edges=frozenset({(E1, 9_950)}))
    assert step(idle, ACK, DEDUPE).state == idle
    assert step(idle, replace(ACK, ack_val=0), DEDUPE).state == idle


def test_a_deadline_stays_within_32_bits_of_the_start_however_often_it_is_reset() -> None:
    late = PENDING.started_ms + MAX_SPAN_MS - 10
    tree = tree_after(RESET, state=replace(PENDING, deadline_ms=late, progress_timeout_ms=300), now_ms=late)
    assert tree.deadline_ms == tree.idle_deadline_ms == PENDING.started_ms + MAX_SPAN_MS


def test_a_deadline_is_never_before_the_start_even_if_the_clock_was_set_back() -> None:
    assert tree_after(RESET, state=PENDING, now_ms=100).deadline_ms == PENDING.started_ms


def test_time_ends_a_pending_root_once_its_deadline_has_passed_and_not_at_it() -> None:
    assert expire(PENDING, now_ms=10_900, rules=RULES) == (PENDING, None)
    state, completion = expire(PENDING, now_ms=10_901, rules=RULES)
    assert state == Finished(outcome=Outcome.TIMED_OUT, at_ms=10_901)
    assert completion == CompletionRecord(
        root_id=1,
        spout_task="orders",
        outcome=Outcome.TIMED_OUT,
        message_id="42",
        reason=None,
        component=None,
        started_ms=9_900,
        at_ms=10_901,
    )


def timeout_of(*operations: Operation, rules: TopologyRules) -> CompletionRecord:
    """What is told of a root that timed out after its init with two edges and these operations."""
    tree = tree_after(replace(INIT, ack_val=E1 ^ E2, outstanding=2), *operations, state=None, rules=rules)
    _, completion = expire(tree, now_ms=NOW + 1_001, rules=rules)
    assert completion is not None
    return completion


@pytest.mark.parametrize(
    ("operations", "last_component", "last_ack_ms", "outstanding"),
    [
        ([], None, None, 2),
        ([replace(ACK, component="price")], "price", NOW, 1),
        ([replace(ACK, component="price"), Ack(root_id=1, ack_val=E2 ^ E3, outstanding=0)], None, NOW, 1),
        ([replace(ACK, component="price"), RESET], "price", NOW, 1),
        ([replace(ACK, outstanding=None, component="price")], "price", NOW, None),
        ([replace(ACK, ack_val=0, component="price")], None, None, 2),
    ],
    ids=["no ack", "one ack", "the last names none", "a reset", "unknown count", "an ack of zero"],
)
def test_a_timeout_tells_where_its_root_hung(
    operations: list[Operation], last_component: str | None, last_ack_ms: int | None, outstanding: int | None
) -> None:
    done = timeout_of(*operations, rules=RULES)
    assert (done.last_component, done.last_ack_ms, done.outstanding) == (last_component, last_ack_ms, outstanding)
    assert done.component is None


def test_a_timeout_of_a_root_without_details_does_not_tell_where_it_hung() -> None:
    done = timeout_of(replace(ACK, component="price"), rules=replace(RULES, root_details=False))
    assert (done.last_component, done.last_ack_ms, done.outstanding) == (None, None, None)


def test_a_root_that_ended_otherwise_does_not_tell_where_it_hung() -> None:
    for operation in (replace(LAST, has_details=True), replace(PENDING, has_details=True)):
        done = step(operation, FAIL).completion
        assert done is not None
        assert (done.last_component, done.last_ack_ms, done.outstanding) == (None, None, None)


def test_time_ends_a_pending_root_that_makes_no_progress() -> None:
    idle = replace(PENDING, progress_timeout_ms=300, idle_deadline_ms=10_300)
    assert expire(idle, now_ms=10_300, rules=RULES) == (idle, None)
    assert expire(idle, now_ms=10_301, rules=RULES)[0] == Finished(outcome=Outcome.TIMED_OUT, at_ms=10_301)


# Dropped tuples -------------------------------------------------------------------------------------------------------

DROPPED = replace(ACK, dropped=True)
MOST = 2**32 - 1
"""Dropped tuples are counted up to this number."""


@pytest.mark.parametrize(
    ("state", "dropped"),
    [
        (None, 1),
        (EARLY, 1),
        (PENDING, 1),
        (replace(PENDING, dropped=MOST - 1), MOST),
        (replace(PENDING, dropped=MOST), MOST),
    ],
    ids=["unknown", "early", "pending", "one below the most", "the most"],
)
def test_an_ack_of_a_dropped_tuple_is_counted(state: State, dropped: int) -> None:
    done = step(state, DROPPED)
    assert isinstance(done.state, Tree)
    assert done.state.dropped == dropped


def test_an_ack_of_a_dropped_tuple_is_counted_whatever_its_value_and_ends_its_edge_once() -> None:
    worthless = replace(DROPPED, ack_val=0, outstanding=0)
    tree = tree_after(worthless, worthless, state=PENDING, rules=DEDUPE)
    assert (tree.dropped, tree.ack_val, tree.outstanding) == (1, PENDING.ack_val, PENDING.outstanding)


def test_a_completion_tells_how_many_tuples_were_dropped() -> None:
    done = step(LAST, DROPPED).completion
    assert done is not None
    assert (done.outcome, done.dropped) == (Outcome.ACKED, 1)


# Grace after an outage ------------------------------------------------------------------------------------------------

GRACED = replace(RULES, grace_ms=400)
GAP = Gap(from_ms=10_500, to_ms=20_000)
HALF = replace(PENDING, root_id=0x80 << 56)
"""It draws half of the grace."""


def test_two_ticks_that_are_more_than_two_seconds_apart_leave_a_gap() -> None:
    assert note_tick(10_000, None, now_ms=12_000, rules=GRACED) is None
    assert note_tick(10_000, None, now_ms=12_001, rules=GRACED) == Gap(from_ms=10_000, to_ms=12_001)


def test_a_first_tick_and_one_without_grace_leave_no_gap() -> None:
    assert note_tick(None, None, now_ms=20_000, rules=GRACED) is None
    assert note_tick(10_000, GAP, now_ms=20_000, rules=RULES) is None


@pytest.mark.parametrize("last_ms", [20_000, 79_999])
def test_a_gap_stays_for_a_minute_and_until_then_no_other_begins(last_ms: int) -> None:
    assert note_tick(last_ms, GAP, now_ms=80_000, rules=GRACED) == GAP


def test_a_gap_is_forgotten_after_a_minute_and_another_may_begin() -> None:
    assert note_tick(80_000, GAP, now_ms=80_001, rules=GRACED) is None
    assert note_tick(78_000, GAP, now_ms=80_001, rules=GRACED) == Gap(from_ms=78_000, to_ms=80_001)


def test_a_deadline_is_in_a_gap_from_its_begin_on_and_before_its_end() -> None:
    assert [deadline in GAP for deadline in (10_499, 10_500, 19_999, 20_000)] == [False, True, True, False]


def test_a_root_that_was_due_in_the_gap_gets_a_share_of_the_grace() -> None:
    state, completion = expire(HALF, now_ms=20_000, rules=GRACED, gap=GAP)
    assert (state, completion) == (replace(HALF, deadline_ms=20_200), None)
    assert expire(state, now_ms=20_200, rules=GRACED, gap=GAP) == (state, None)
    assert expire(state, now_ms=20_201, rules=GRACED, gap=GAP)[0] == Finished(outcome=Outcome.TIMED_OUT, at_ms=20_201)


def test_an_idle_deadline_in_the_gap_moves_and_the_message_deadline_behind_it_stays() -> None:
    idle = replace(HALF, deadline_ms=90_000, progress_timeout_ms=700, idle_deadline_ms=10_600)
    assert expire(idle, now_ms=20_000, rules=GRACED, gap=GAP) == (replace(idle, idle_deadline_ms=20_200), None)


@pytest.mark.parametrize("deadline_ms", [10_499, 20_000])
def test_a_root_that_was_due_before_the_gap_or_is_after_it_times_out(deadline_ms: int) -> None:
    root = replace(HALF, deadline_ms=deadline_ms)
    assert expire(root, now_ms=20_001, rules=GRACED, gap=GAP)[0] == Finished(outcome=Outcome.TIMED_OUT, at_ms=20_001)


def test_an_early_root_that_was_due_in_the_gap_is_dropped() -> None:
    assert expire(EARLY, now_ms=20_000, rules=GRACED, gap=GAP) == (None, None)


def test_grace_does_not_make_a_root_older_than_a_record_can_hold() -> None:
    last = PENDING.started_ms + MAX_SPAN_MS
    root, gap = replace(HALF, deadline_ms=last), Gap(from_ms=last - 10, to_ms=last + 5_000)
    assert expire(root, now_ms=last + 5_000, rules=GRACED, gap=gap)[1] is not None


def reason_of_timeout(*operations: Operation, rules: TopologyRules) -> str | None:
    """Why a root timed out after its init and these operations."""
    return timeout_of(*operations, rules=rules).reason


OTHER_ACK = Ack(root_id=1, ack_val=E2, outstanding=-1, edge_id=E2)


@pytest.mark.parametrize(
    "operations",
    [
        [ACK, ACK],
        [ACK, ACK, OTHER_ACK],
        [ACK, ACK, ACK],
        [ACK, ACK, ACK, OTHER_ACK],
        [replace(ACK, ack_val=E1 ^ E3, outstanding=0)] * 2 + [OTHER_ACK, Ack(root_id=1, ack_val=E3, outstanding=-1)],
    ],
    ids=["twice", "twice, and the other once", "thrice", "thrice, and the other once", "twice with a child"],
)
def test_a_root_of_which_a_tuple_was_acked_more_often_than_sent_says_so(operations: list[Operation]) -> None:
    assert reason_of_timeout(*operations, rules=RULES) == ACKED_TOO_OFTEN_WITHOUT_WINDOW
    unnamed = [replace(ack, edge_id=None) for ack in operations if isinstance(ack, Ack)]
    assert reason_of_timeout(*unnamed, rules=DEDUPE) == ACKED_TOO_OFTEN_IN_WINDOW


def test_a_child_that_was_acked_though_the_ack_that_names_it_is_lost_says_so_too() -> None:
    child = Ack(root_id=1, ack_val=E3, outstanding=-1)
    assert reason_of_timeout(OTHER_ACK, child, rules=RULES) == ACKED_TOO_OFTEN_WITHOUT_WINDOW


@pytest.mark.parametrize(
    "operations",
    [[], [ACK], [RESET], [ACK, replace(ACK, ack_val=E3, outstanding=None)], [replace(ACK, ack_val=E1 ^ E2)]],
    ids=["no ack", "an ack is missing", "reset", "unknown outstanding", "ids that are not random"],
)
@pytest.mark.parametrize("rules", [RULES, DEDUPE], ids=["without a window", "with a window"])
def test_any_other_root_times_out_without_a_reason(operations: list[Operation], rules: TopologyRules) -> None:
    assert reason_of_timeout(*operations, rules=rules) is None


def test_with_a_window_the_same_edge_counts_once_and_no_reason_is_given() -> None:
    assert reason_of_timeout(ACK, ACK, ACK, rules=DEDUPE) is None


@pytest.mark.parametrize("state", [EARLY, EARLY_FAILED])
def test_time_drops_an_early_root_and_tells_nobody(state: Tree) -> None:
    assert expire(state, now_ms=10_900, rules=RULES) == (state, None)
    assert expire(state, now_ms=10_901, rules=RULES) == (None, None)


@pytest.mark.parametrize("state", [None, FINISHED])
def test_time_ends_nothing_else(state: State) -> None:
    assert expire(state, now_ms=10**15, rules=RULES) == (state, None)


def test_an_ack_after_the_deadline_and_before_the_tick_counts() -> None:
    assert step(LAST, ACK, now_ms=10_950).operation_state is OperationState.ACKED


@pytest.mark.parametrize(
    ("now_ms", "remembered"), [(9_990, "finished"), (14_999, "finished"), (15_000, "unknown"), (99_999, "unknown")]
)
def test_an_outcome_is_remembered_for_its_slice_of_the_retention_and_the_next(now_ms: int, remembered: str) -> None:
    assert named(forget_expired(Finished(outcome=Outcome.ACKED, at_ms=9_990), now_ms=now_ms, rules=RULES)) == remembered


@given(at_ms=st.integers(0, 10**6), later_ms=st.integers(0, 12_000))
def test_an_outcome_is_remembered_for_the_retention_at_least_and_twice_that_at_most(at_ms: int, later_ms: int) -> None:
    state = forget_expired(Finished(outcome=Outcome.ACKED, at_ms=at_ms), now_ms=at_ms + later_ms, rules=RULES)
    assert state is not None or later_ms > RULES.retention_ms
    assert state is None or later_ms < 2 * RULES.retention_ms


def test_a_root_id_used_again_after_the_retention_is_a_new_tree() -> None:
    done = step(FINISHED, INIT, now_ms=30_000)
    assert done.state == step(None, INIT, now_ms=30_000).state


def test_acked_edges_are_remembered_as_long_as_the_dedupe_window() -> None:
    tree = replace(PENDING, edges=frozenset({(E1, 9_900), (E2, 10_100), (E3, 12_100)}))
    assert tree.edges == frozenset(tree_after(state=forget_expired(tree, now_ms=11_900, rules=DEDUPE)).edges)
    later = forget_expired(tree, now_ms=12_200, rules=DEDUPE)
    assert later == replace(tree, edges=frozenset({(E2, 10_100), (E3, 12_100)}))
    assert step(tree, ACK, DEDUPE, now_ms=12_200).operation_state is OperationState.PENDING


def test_edges_remembered_from_before_are_forgotten_where_the_topology_dedupes_no_more() -> None:
    tree = replace(PENDING, edges=frozenset({(E1, NOW)}))
    assert forget_expired(tree, now_ms=NOW, rules=RULES) == PENDING


@pytest.mark.parametrize("state", [None, EARLY, PENDING])
def test_nothing_else_is_forgotten(state: State) -> None:
    assert forget_expired(state, now_ms=10**15, rules=DEDUPE) == state


# Without ackers -------------------------------------------------------------------------------------------------------


def test_without_ackers_an_init_is_acked_at_once_with_a_completion() -> None:
    done = step(None, INIT, NO_ACKERS, free_slots=0)
    assert (done.operation_state, done.state) == (OperationState.ACKED, Finished(outcome=Outcome.ACKED, at_ms=NOW))
    assert done.completion is not None
    assert (done.completion.spout_task, done.completion.message_id, done.completion.started_ms) == ("orders", "42", NOW)


@pytest.mark.parametrize("operation", [ACK, FAIL, RESET])
def test_without_ackers_everything_else_is_finished_and_leaves_nothing(operation: Operation) -> None:
    done = step(None, operation, NO_ACKERS)
    assert (done.operation_state, done.outcome, done.state, done.completion) == (
        OperationState.FINISHED,
        Outcome.ACKED,
        None,
        None,
    )


def test_without_ackers_a_second_init_is_finished() -> None:
    done = step(step(None, INIT, NO_ACKERS).state, INIT, NO_ACKERS)
    assert (done.operation_state, done.outcome, done.completion) == (OperationState.FINISHED, Outcome.ACKED, None)
