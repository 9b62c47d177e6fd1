"""Tests a tuple: its edges, its children and its operations."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import pytest
from acker_client import Anchors, DuplicateKey, TooManyAnchors, TupleClosed, UsageError
from acker_client._core.hot_path import FoldedOperations, TupleContext
from acker_client._core.tuple_base import BaseTuple, anchor_child
from acker_protocol.operations import Ack, Fail, Operation, ResetTimeout
from acker_protocol.tracing import is_marked

ROOT, EDGE = 0x1122334455667788, 0x99AABBCCDDEEFF00


def a_tuple(*anchors: tuple[int, int], component: str = "split") -> BaseTuple:
    ids = tuple(id_ for anchor in anchors or [(ROOT, EDGE)] for id_ in anchor)
    return BaseTuple(context=context("default"), ids=ids, component=component)


def context(topology: str) -> TupleContext:
    """The context of tuples that are never sent."""
    unused: Any = None
    return TupleContext(
        topology=topology,
        prefix=f"00 {topology} ",
        submitter=unused,
        session=unused,
        buffer=unused,
        driver=unused,
        tuple_class=BaseTuple,
    )


def acks(tup: BaseTuple, *, is_traced: Callable[[int], bool] = is_marked) -> list[Operation]:
    """Close a tuple, and give its acks as operations."""
    gathered = FoldedOperations()
    gathered.add_acks(tup.take_acks(), tup.component, fold=False, is_traced=is_traced)
    return list(gathered.operations())


def edges(child: Anchors) -> list[int]:
    return [anchor.edge_id for anchor in child.anchors]


def test_the_edge_of_a_child_with_a_key_is_derived_from_root_parent_component_and_key():
    digest = hmac.digest(ROOT.to_bytes(8, "big"), EDGE.to_bytes(8, "big") + b"split\0line-7", hashlib.sha256)
    assert edges(a_tuple().anchor("line-7")) == [int.from_bytes(digest[:8], "big")]


def test_a_run_again_gives_the_same_edges():
    assert a_tuple().anchor("7") == a_tuple().anchor("7")


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (a_tuple((ROOT + 1, EDGE)), "7"),
        (a_tuple((ROOT, EDGE + 1)), "7"),
        (a_tuple(component="join"), "7"),
        (a_tuple(), "8"),
    ],
)
def test_another_root_parent_component_or_key_gives_another_edge(other, name):
    assert edges(other.anchor(name)) != edges(a_tuple().anchor("7"))


def test_children_without_a_key_get_random_edges():
    tup = a_tuple()
    assert len({*edges(tup.anchor()), *edges(tup.anchor()), *edges(a_tuple().anchor())}) == 3


def test_the_ack_holds_the_own_edge_and_all_children():
    tup = a_tuple()
    [one], [two] = edges(tup.anchor("1")), edges(tup.anchor())
    assert acks(tup) == [Ack(root_id=ROOT, ack_val=EDGE ^ one ^ two, outstanding=1, edge_id=EDGE, component="split")]


def test_a_leafs_ack_is_its_edge():
    assert acks(a_tuple()) == [Ack(root_id=ROOT, ack_val=EDGE, outstanding=-1, edge_id=EDGE, component="split")]


def test_the_ack_of_a_traced_root_names_its_children():
    leaf, parent = a_tuple((1, 10)), a_tuple((1, 10), (2, 20))
    one, two = edges(parent.anchor("x"))
    assert [ack.children for ack in acks(leaf, is_traced=lambda root: root == 1)] == [()]
    named, other = acks(parent, is_traced=lambda root: root == 1)
    assert named == Ack(root_id=1, ack_val=10 ^ one, outstanding=0, edge_id=10, component="split")
    assert other == Ack(root_id=2, ack_val=20 ^ two, outstanding=0, edge_id=20, component="split")
    assert [named.children, other.children] == [(one,), None]


def test_a_tuple_of_two_roots_acks_each_with_that_roots_children():
    tup = a_tuple((1, 10), (2, 20))
    one, two = edges(tup.anchor("x"))
    assert [(ack.root_id, ack.ack_val) for ack in acks(tup)] == [(1, 10 ^ one), (2, 20 ^ two)]


def test_a_root_carried_twice_is_acked_twice_with_children_of_either_edge():
    tup = a_tuple((1, 10), (1, 11))
    one, two = edges(tup.anchor("x"))
    assert one != two
    assert [(ack.edge_id, ack.ack_val) for ack in acks(tup)] == [(10, 10 ^ one), (11, 11 ^ two)]


def test_a_root_carried_twice_fails_by_either_edge_and_is_reset_once():
    assert a_tuple((1, 10), (1, 11)).fail_operations("no") == [a_fail(10, edge_id=10), a_fail(11, edge_id=11)]
    assert a_tuple((1, 10), (1, 11)).reset_operations() == [ResetTimeout(root_id=1, component="split")]


def a_fail(ack_val: int, *, outstanding: int = -1, edge_id: int) -> Fail:
    return Fail(root_id=1, reason="no", component="split", ack_val=ack_val, outstanding=outstanding, edge_id=edge_id)


def test_a_fail_holds_the_own_edge_and_the_children_so_far():
    tup = a_tuple((1, 10))
    [one], [two] = edges(tup.anchor("x")), edges(tup.anchor())
    [fail] = tup.fail_operations("no")
    assert fail == a_fail(10 ^ one ^ two, outstanding=1, edge_id=10)
    assert isinstance(fail, Fail)
    assert fail.children is None


def test_the_fail_of_a_traced_root_names_its_children():
    leaf, parent = a_tuple((1, 10)), a_tuple((1, 10), (2, 20))
    one, _ = edges(parent.anchor("x"))
    assert [fail.children for fail in leaf.fail_operations("no", lambda root: root == 1)] == [()]
    assert [fail.children for fail in parent.fail_operations("no", lambda root: root == 1)] == [(one,), None]


def test_a_reason_is_cut_to_what_the_contract_takes():
    [fail] = a_tuple().fail_operations("x" * 2_000)
    assert fail.reason == "x" * 1_024


def test_a_reason_that_is_no_unicode_is_mended():
    [fail] = a_tuple().fail_operations("bad \udc80 byte")
    assert fail.reason == "bad ? byte"


def test_a_key_used_twice_under_one_parent_is_refused():
    tup = a_tuple()
    tup.anchor("x")
    with pytest.raises(DuplicateKey, match="'x'"):
        tup.anchor("x")


def test_a_refused_key_leaves_no_child_behind():
    tup, other = a_tuple(), a_tuple((2, 20))
    [edge] = edges(tup.anchor("x"))
    with pytest.raises(DuplicateKey):
        anchor_child([other, tup], key="x")
    assert [acks(other)[0].ack_val, acks(tup)[0].ack_val] == [20, EDGE ^ edge]


def test_one_key_under_two_parents_is_two_children():
    one, two = a_tuple((1, 10)), a_tuple((1, 11))
    assert edges(one.anchor("x")) != edges(two.anchor("x"))


def test_a_join_anchors_one_child_to_every_tuple():
    one, two = a_tuple((1, 10)), a_tuple((2, 20), (3, 30))
    child = anchor_child([one, two], key="pair")
    assert [anchor.root_id for anchor in child.anchors] == [1, 2, 3]
    assert acks(one)[0].ack_val == 10 ^ child.anchors[0].edge_id
    assert acks(two)[1].ack_val == 30 ^ child.anchors[2].edge_id


def test_the_same_tuple_twice_as_an_anchor_gives_two_edges():
    tup = a_tuple()
    one, two = edges(anchor_child([tup, tup], key=None))
    assert acks(tup)[0].ack_val == EDGE ^ one ^ two


def test_the_same_tuple_twice_under_one_key_is_refused_since_the_edges_would_cancel():
    tup = a_tuple()
    with pytest.raises(DuplicateKey, match="same tuple twice"):
        anchor_child([tup, tup], key="x")


def test_a_join_of_more_than_64_anchors_is_refused_and_leaves_no_child_behind():
    tuples = [a_tuple((root, 7)) for root in range(1, 66)]
    with pytest.raises(TooManyAnchors):
        anchor_child(tuples, key="all")
    assert acks(tuples[0])[0].ack_val == 7


def test_a_child_of_no_tuple_is_refused():
    with pytest.raises(UsageError, match="one tuple or more"):
        anchor_child([], key="x")


def test_a_child_of_two_topologies_is_refused():
    other = BaseTuple(context=context("orders"), ids=(), component="split")
    with pytest.raises(UsageError, match="same topology"):
        anchor_child([a_tuple(), other], key="x")


def test_an_untracked_tuple_has_untracked_children_and_no_operations():
    tup = BaseTuple(context=context("default"), ids=(), component="split")
    assert tup.headers("x") == {}
    assert tup.reset_operations() == []
    assert acks(tup) == []


USES = {
    "acked": acks,
    "failed": lambda tup: tup.fail_operations(None),
    "anchored to": lambda tup: tup.anchor("x"),
    "given more time": lambda tup: tup.reset_operations(),
}


@pytest.mark.parametrize("end", ["acked", "failed"])
@pytest.mark.parametrize("use", USES)
def test_a_tuple_that_is_done_cannot_be_used_and_the_error_names_it(end, use):
    tup = a_tuple()
    USES[end](tup)
    with pytest.raises(TupleClosed, match=f"'split' .1122334455667788-99aabbccddeeff00. was {end} and cannot be {use}"):
        USES[use](tup)
