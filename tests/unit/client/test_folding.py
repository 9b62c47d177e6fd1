"""Tests how acks of one root become one operation."""

from collections.abc import Iterable

from acker_client._core.hot_path import EdgeSet, FoldedOperations
from acker_protocol import tree
from acker_protocol.ids import draw_id
from acker_protocol.operations import Ack, Fail, Init, Operation, Outcome, ResetTimeout
from acker_protocol.states import Finished, TopologyRules
from acker_protocol.wire.packed import encode_packed
from hypothesis import given
from hypothesis import strategies as st

ROOT = 7


def ack(edge: int, *children: int, root: int = ROOT, component: str = "count") -> Ack:
    val = edge
    for child in children:
        val ^= child
    return Ack(root_id=root, ack_val=val, outstanding=len(children) - 1, edge_id=edge, component=component)


def folded(*messages: Operation) -> tuple[Operation, ...]:
    return tuple(gather(messages).operations())


def gather(messages: Iterable[Operation]) -> FoldedOperations:
    """Add operations, each ack of an edge to the fold of its root."""
    gathered = FoldedOperations()
    for each in messages:
        if isinstance(each, Ack):
            assert each.edge_id is not None
            assert each.outstanding is not None
            gathered.fold_ack(each.root_id, each.edge_id, each.ack_val, each.outstanding, each.component)
        else:
            gathered.add([each])
    return gathered


def test_a_thousand_acks_of_one_root_are_one_operation():
    edges = [draw_id() for _ in range(1_000)]
    [one] = folded(*map(ack, edges))
    val = 0
    for edge in edges:
        val ^= edge
    assert one == Ack(root_id=ROOT, ack_val=val, outstanding=-1_000, component="count")


def test_an_ack_that_is_alone_keeps_its_edge():
    assert folded(ack(1), ack(2, root=8)) == (ack(1), ack(2, root=8))


def test_children_acked_in_the_same_fold_leave_only_what_is_open():
    assert folded(ack(1, 2, 3), ack(2)) == (Ack(root_id=ROOT, ack_val=1 ^ 3, outstanding=0, component="count"),)


def test_the_component_of_several_is_left_out():
    [one] = folded(ack(1), ack(2, component="split"))
    assert one.component is None


def test_a_count_that_would_leave_its_32_bits_is_not_folded():
    deep = Ack(root_id=ROOT, ack_val=1, edge_id=1, outstanding=-(2**31))
    assert folded(deep, ack(2)) == (deep, ack(2))


def test_the_same_edge_acked_twice_stays_two_operations():
    assert folded(ack(1), ack(1)) == (ack(1), ack(1))


def test_what_is_not_an_ack_of_an_edge_closes_the_fold_of_its_root_alone():
    fail = Fail(root_id=ROOT)
    assert folded(ack(1), ack(9, root=8), fail, ack(2), ack(3), ack(10, root=8)) == (
        ack(1),
        Ack(root_id=8, ack_val=9 ^ 10, outstanding=-2, component="count"),
        fail,
        Ack(root_id=ROOT, ack_val=2 ^ 3, outstanding=-2, component="count"),
    )


def test_what_is_added_as_it_is_does_not_fold():
    gathered = FoldedOperations()
    gathered.add([ack(1), ack(2)])
    assert tuple(gathered.operations()) == (ack(1), ack(2))


def test_acks_of_a_tuple_that_do_not_fold_stay_as_they_are():
    gathered = FoldedOperations()
    parent = EdgeSet(ROOT, 1, "count")
    child = parent.add_child("a")
    gathered.add_acks(((ROOT, 1), [parent]), "count", fold=False, is_traced=lambda _: False)
    gathered.add_acks(((ROOT, 3, 9, 3), None), "count", fold=False, is_traced=lambda _: False)
    assert list(gathered.operations()) == [ack(1, child), ack(3), ack(3, root=9)]


def test_an_ack_of_a_traced_root_does_not_fold_and_closes_the_fold_of_its_root():
    gathered = FoldedOperations()
    for at, is_traced in enumerate([False, False, True, False], 1):
        gathered.add_acks(((ROOT, at), None), "count", fold=True, is_traced=lambda _, traced=is_traced: traced)
    assert list(gathered.operations()) == [
        Ack(root_id=ROOT, ack_val=1 ^ 2, outstanding=-2, component="count"),
        Ack(root_id=ROOT, ack_val=3, outstanding=-1, edge_id=3, component="count", children=()),
        ack(4),
    ]


def test_an_ack_that_is_added_as_it_is_closes_the_fold_of_its_root():
    gathered = FoldedOperations()
    for each in (1, 2):
        gathered.fold_ack(ROOT, each, each, -1, "count")
    gathered.add_ack(ROOT, 3, 3, -1, "count")
    gathered.fold_ack(ROOT, 4, 4, -1, "count")
    assert [each.edge_id for each in gathered.operations()] == [None, 3, 4]
    assert gathered.holds_any({ROOT, 1})
    assert not gathered.holds_any({1})


def test_operations_are_a_sequence_that_packs_itself():
    messages = [ack(1, 2), ack(2), Fail(root_id=ROOT, reason="no", component="count"), ack(3), ack(5, root=8)]
    operations = gather(messages).operations()
    assert len(operations) == len(list(operations)) == 4
    assert operations[-1] == ack(5, root=8)
    assert list(operations[1:]) == list(operations)[1:]
    assert operations.packed() == encode_packed(list(operations))
    assert operations[:2].packed() == encode_packed(list(operations)[:2])


@st.composite
def prefixes(draw):
    """The operations of a whole tree in any order, cut off anywhere, with a failure in it or not."""
    parents = draw(st.lists(st.integers(0, 5), min_size=1, max_size=8))
    edges = draw(st.lists(st.integers(1, 2**64 - 1), min_size=len(parents), max_size=len(parents), unique=True))
    children = {at: [edges[n] for n, parent in enumerate(parents) if min(parent, n) == at] for at in range(9)}
    val = 0
    for edge in children[0]:
        val ^= edge
    init = Init(root_id=ROOT, spout_task="s", ack_val=val, outstanding=len(children[0]))
    acks = [ack(edge, *children[number]) for number, edge in enumerate(edges, 1)]
    ended = draw(st.sampled_from([[], [Fail(root_id=ROOT)], [ResetTimeout(root_id=ROOT)]]))
    messages = draw(st.permutations([init, *acks, *ended]))
    return messages[: draw(st.integers(0, len(messages)))]


def ending(messages) -> tuple[Outcome | None, int]:
    """How a root ends by these operations, and its ack val if it does not."""
    state = None
    for message in messages:
        state = tree.apply_operation(state, message, now_ms=0, rules=TopologyRules()).state
    return (state.outcome, 0) if isinstance(state, Finished) else (None, state.ack_val if state else 0)


@given(prefixes())
def test_a_fold_does_to_a_tree_what_its_acks_would_have_done(messages):
    assert ending(folded(*messages)) == ending(messages)
