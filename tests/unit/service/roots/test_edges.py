"""The tree of a root, built from its trace."""

import random
from itertools import pairwise

import pytest
from acker_protocol.ids import fold
from acker_protocol.operations import Outcome
from acker_service.redis.functions.traces import EntryKind, TraceEntry
from acker_service.roots.edges import EdgeState, EdgeTree, build_tree, outstanding_of

ACKED, OPEN, FAILED = EdgeState.ACKED, EdgeState.OPEN, EdgeState.FAILED


def init(*edges: int, named: bool = True, at: int = 0, late: bool = False) -> TraceEntry:
    names = edges if named else None
    return TraceEntry(
        kind=EntryKind.INIT, at_ms=at, ack_val=fold(edges), outstanding=len(edges), names=names, is_late=late
    )


def ack(edge: int, *children: int, named: bool = True, at: int = 0, by: str | None = None) -> TraceEntry:
    return TraceEntry(
        kind=EntryKind.ACK,
        at_ms=at,
        ack_val=fold((edge, *children)),
        outstanding=len(children) - 1,
        edge_id=edge,
        component=by,
        names=children if named else None,
    )


def folded(*edges: int) -> TraceEntry:
    return TraceEntry(kind=EntryKind.ACK, at_ms=0, ack_val=fold(edges), outstanding=-len(edges))


def end(outcome: Outcome, *, at: int = 9) -> TraceEntry:
    return TraceEntry(kind=EntryKind.END, at_ms=at, outcome=outcome)


def states(tree: EdgeTree) -> dict[int, tuple[int | None, EdgeState]]:
    return {edge.edge_id: (edge.parent, edge.state) for edge in tree.edges}


def test_an_edge_has_its_parent_its_maker_and_the_time_of_its_state() -> None:
    tree = build_tree([init(1, at=1), ack(1, 2, 3, at=2, by="split"), ack(2, at=3)], maker="orders")
    assert [(e.edge_id, e.parent, e.component, e.state, e.since_ms) for e in tree.edges] == [
        (1, None, "orders", ACKED, 2),
        (2, 1, "split", ACKED, 3),
        (3, 1, "split", OPEN, 2),
    ]
    assert tree.is_whole


def test_an_edge_tells_when_it_was_sent_and_what_ended_it() -> None:
    tree = build_tree(
        [init(1, at=1), ack(1, 2, 3, at=2, by="split"), ack(2, at=5, by="count"), ack(7, at=6, by="store")]
    )
    assert {e.edge_id: (e.sent_ms, e.ended_by) for e in tree.edges} == {
        1: (1, "split"),
        2: (2, "count"),
        3: (2, None),
        7: (None, "store"),
    }


def test_an_edge_that_is_open_again_was_ended_by_nothing() -> None:
    [first, _] = build_tree([init(1, 2), ack(1, by="split"), ack(1, by="split")]).edges
    assert (first.state, first.ended_by) == (OPEN, None)


def test_an_edge_that_was_acked_before_it_was_made_is_acked() -> None:
    tree = build_tree([ack(2), ack(1, 2, 3), init(1)])
    assert states(tree) == {1: (None, ACKED), 2: (1, ACKED), 3: (1, OPEN)}
    assert tree.is_whole


def test_an_ack_that_came_twice_leaves_its_edge_open() -> None:
    assert states(build_tree([init(1, 2), ack(1), ack(1)]))[1] == (None, OPEN)
    assert states(build_tree([init(1, 2), ack(1), ack(1), ack(1)]))[1] == (None, ACKED)


@pytest.mark.parametrize(("outcome", "state"), [(Outcome.FAILED, FAILED), (Outcome.TIMED_OUT, OPEN)])
def test_edges_that_were_open_at_a_fail_are_failed(outcome: Outcome, state: EdgeState) -> None:
    assert states(build_tree([init(1, 2), ack(1), end(outcome)])) == {1: (None, ACKED), 2: (None, state)}


def test_the_missing_one_of_unnamed_edges_is_found_by_the_xor() -> None:
    tree = build_tree([init(1), ack(1, 2, 4, 8, named=False, by="split"), ack(2), ack(8)])
    assert states(tree) == {1: (None, ACKED), 2: (1, ACKED), 4: (1, OPEN), 8: (1, ACKED)}
    assert tree.is_whole


def test_where_two_operations_may_have_made_it_its_parent_is_unknown() -> None:
    tree = build_tree([init(1, 2, named=False), ack(1, 3, 4, named=False), ack(2), ack(3)])
    assert states(tree)[4] == (None, OPEN)
    assert not tree.is_whole


def test_two_missing_edges_are_not_guessed() -> None:
    tree = build_tree([init(1, 2, 4, named=False), ack(1)])
    assert states(tree) == {1: (None, ACKED)}
    assert not tree.is_whole


def test_an_ack_without_edge_id_acks_the_one_edge_of_its_ack_val() -> None:
    assert build_tree([init(1, 2), folded(1)]).is_whole
    assert states(build_tree([init(1, 2), folded(1)]))[1] == (None, ACKED)


def test_a_folded_ack_makes_the_tree_incomplete() -> None:
    assert not build_tree([init(1, 2), folded(1, 2)]).is_whole


def test_a_trace_that_began_late_is_incomplete() -> None:
    assert not build_tree([init(1, late=True)]).is_whole


def test_an_edge_that_nothing_made_is_shown_and_the_tree_is_incomplete() -> None:
    tree = build_tree([init(1), ack(7)])
    assert states(tree)[7] == (None, ACKED)
    assert not tree.is_whole


def test_edges_that_lead_only_to_each_other_are_shown_at_the_end() -> None:
    assert [edge.edge_id for edge in build_tree([ack(5, 6), ack(6, 5), init(1)]).edges] == [1, 5, 6]


def test_outstanding_edges_are_unknown_if_an_operation_leaves_them_out() -> None:
    assert outstanding_of([init(1, 2), ack(1)]) == 1
    assert outstanding_of([TraceEntry(kind=EntryKind.ACK, at_ms=0, outstanding=None)]) is None


@pytest.mark.parametrize("named", [True, False])
def test_the_one_open_edge_of_a_thousand_is_found_in_any_order(*, named: bool) -> None:
    """Unnamed: each operation has one child, of which the XOR gives the name."""
    rng = random.Random(1)
    children = rng.sample(range(1, 2**63), 1_000)
    entries = [init(children[0]), *(ack(edge, child, named=named) for edge, child in pairwise(children))]
    rng.shuffle(entries)
    tree = build_tree(entries)
    assert [edge.edge_id for edge in tree.edges if edge.state is OPEN] == [children[-1]]
    assert tree.is_whole
    assert len(tree.edges) == 1_000
