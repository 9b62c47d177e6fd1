"""The load is drawn from its seed, in every shape; and a tree that is acked wholly comes to zero."""

import random
from collections import Counter
from functools import reduce
from itertools import islice
from operator import xor

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, OperationState, ResetTimeout
from acker_protocol.states import TopologyRules
from acker_protocol.tree import apply_operation

from tests.faults_long.faults import KINDS
from tests.faults_long.schedule import ANYWHERE, IN_A_CLUSTER, WITH_OWN_CLOCKS, WITH_REPLICAS, kinds_of, rounds
from tests.faults_long.trees import TreeDrawer

SOME = 400


def drawn(seed: int, *, dedupes: bool = True) -> list[list[Operation]]:
    drawer = TreeDrawer(chance=random.Random(seed), spout_task="a", other_spout_task="b", dedupes=dedupes)
    return [[operation for wave in drawer.draw() for operation in wave] for _ in range(SOME)]


def test_the_same_seed_draws_the_same_trees() -> None:
    assert drawn(1) == drawn(1) != drawn(2)


def test_every_operation_and_repeats_of_it_are_drawn() -> None:
    trees = drawn(1)
    kinds = Counter(type(operation) for tree in trees for operation in tree)
    assert {Init, Ack, Fail, ResetTimeout} == kinds.keys()
    assert any(tree.count(operation) > 1 for tree in trees for operation in tree if isinstance(operation, Ack))
    assert {each.spout_task for tree in trees for each in tree if isinstance(each, Init)} == {"a", "b"}


@pytest.mark.parametrize("dedupes", [True, False])
def test_a_tree_that_is_acked_wholly_comes_to_zero_in_the_end(*, dedupes: bool) -> None:
    rules = TopologyRules(dedupe_window_ms=60_000 if dedupes else 0, message_timeout_ms=60_000)
    ended = Counter[OperationState]()
    for tree in drawn(1, dedupes=dedupes):
        state, answers = None, []
        for operation in tree:
            done = apply_operation(state, operation, now_ms=0, rules=rules)
            state = done.state
            answers.append(done.operation_state)
        ended[next((each for each in answers if each in ("acked", "failed")), answers[-1])] += 1
    assert ended[OperationState.ACKED] > SOME / 2
    assert ended[OperationState.FAILED] > 0
    assert ended[OperationState.PENDING] + ended[OperationState.DUPLICATE] > 0, "some are held"


def test_without_a_window_edges_have_no_names_and_nothing_comes_twice() -> None:
    for tree in drawn(1, dedupes=False):
        acks = [operation for operation in tree if isinstance(operation, Ack)]
        assert len(acks) == len(set(acks))
        assert {ack.edge_id for ack in acks} <= {None}
        assert reduce(xor, (ack.ack_val for ack in acks), 0) >= 0


def test_a_schedule_is_drawn_from_its_seed() -> None:
    first, again, other = (next(rounds(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first.faults != other.faults


def test_every_kind_of_fault_that_is_drawn_can_be_made() -> None:
    assert KINDS.keys() == ANYWHERE.keys() | WITH_OWN_CLOCKS.keys() | WITH_REPLICAS.keys() | IN_A_CLUSTER.keys()
    assert kinds_of("valkey") == ANYWHERE
    assert kinds_of("valkey-cluster", own_clocks=True).keys() == KINDS.keys()
    assert all(
        (WITH_OWN_CLOCKS.keys() <= {fault.kind for fault in each.faults}) == each.own_clocks
        for each in islice(rounds(1), 9)
    )
