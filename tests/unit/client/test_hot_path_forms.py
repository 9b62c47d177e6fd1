"""Holds the compiled hot path to the interpreted one: the same headers, keys and acks give the same, or the same error.

The interpreted one is loaded a second time beside the compiled one. Run by ``make test-compiled``.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from acker_client._core import hot_path, hot_path_form
from acker_protocol.operations import Ack, Fail, Operation, ResetTimeout
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.header_forms import FORMS, ONE
from tests.support.hot_path_forms import both, context, outcome, received

if hot_path_form.form_of(hot_path) != "compiled":
    pytest.skip("the hot path is not compiled here, or not to be used: make test-compiled", allow_module_level=True)

IDS = st.sampled_from([1, 2, 3, 0xFFFF, 0x10000, 2**63 - 1, 2**63, 2**64 - 1]) | st.integers(1, 2**64 - 1)
COUNTS = st.sampled_from([-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1]) | st.integers(-5, 5)
NAMES = st.none() | st.sampled_from(["count", "split", "zählen", ""])

PIECES = st.sampled_from(
    ["00 default ", "0" * 15 + "a", "f" * 16, "A" * 16, "1" * 16, "0" * 16, "-", ",", " ", "\0", "é", "\u0660"]
)
VALUES = (
    st.lists(PIECES, max_size=12).map("".join)
    | st.builds("00 default {:016x}-{:016x}".format, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
    | st.lists(st.builds("{:016x}-{:016x}".format, IDS, IDS), min_size=1, max_size=4).map(
        lambda listed: "00 default " + ",".join(listed)
    )
    | st.text(max_size=60)
)
HEADER_NAMES = st.sampled_from(
    [
        "Acker-Anchors",
        "acker-anchors",
        b"ACKER-ANCHORS",
        "HTTP_ACKER_ANCHORS",
        "trace",
        "x" * 13,
        "x" * 18,
        b"y",
        5,
        None,
    ]
)


@given(
    pairs=st.lists(
        st.tuples(HEADER_NAMES, VALUES | VALUES.map(lambda text: text.encode(errors="replace")) | st.none())
    ),
    kind=st.sampled_from([dict, list, tuple]),
)
@example(pairs=[("Acker-Anchors", ONE)], kind=dict)
@example(pairs=[("Acker-Anchors", ONE[:-1] + "\udc80")], kind=dict)
@example(pairs=[("Acker-Anchors", ONE[:-1] + "\xb2")], kind=dict)
@example(pairs=[("Acker-Anchors", ONE.replace("-", "\0"))], kind=dict)
def test_any_headers_give_the_same_tuple_or_the_same_error(pairs: list[tuple[Any, Any]], kind: type) -> None:
    compiled, source = both(received(kind(pairs)))
    assert compiled == source


@given(at=st.integers(0, len(ONE) - 1), change=st.characters())
def test_any_changed_character_of_a_header_gives_the_same(at: int, change: str) -> None:
    compiled, source = both(received({"Acker-Anchors": ONE[:at] + change + ONE[at + 1 :]}))
    assert compiled == source


@pytest.mark.parametrize("headers", FORMS.values(), ids=FORMS)
def test_the_forms_that_libraries_give_are_read_alike(headers: Any) -> None:
    compiled, source = both(received(headers))
    assert compiled == source


@given(root=IDS, edge=IDS, component=st.text(max_size=20), keys=st.lists(st.text(max_size=80), max_size=5))
def test_keys_give_the_same_children_or_the_same_error(root: int, edge: int, component: str, keys: list[str]) -> None:
    def children(module: ModuleType) -> Any:
        own = module.EdgeSet(root, edge, component)
        made = [outcome(lambda key=key: own.add_child(key)) for key in keys]  # type: ignore[misc]
        return made, own.ack_val, own.outstanding, own.children

    compiled, source = both(children)
    assert compiled == source


@given(
    count=st.integers(1, 3), ids=st.lists(IDS, min_size=6, max_size=6), keys=st.lists(st.text(max_size=9), max_size=4)
)
def test_a_tuple_writes_the_same_headers_of_its_children(count: int, ids: list[int], keys: list[str]) -> None:
    value = "00 default " + ",".join(f"{ids[2 * at]:016x}-{ids[2 * at + 1]:016x}" for at in range(count))

    def headers(module: ModuleType) -> Any:
        tup = context(module).receive({"Acker-Anchors": value}, "count", "fail", True)  # noqa: FBT003
        return [outcome(lambda key=key: tup.headers(key)) for key in [None, *keys]]  # type: ignore[misc]

    compiled, source = both(headers)
    assert compiled == source


Step = tuple[str, tuple[Any, ...]]
ROOTS = st.sampled_from([1, 2, 3, 2**63, 2**64 - 1])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["fold_ack", "add_ack"]), st.tuples(ROOTS, IDS, IDS, COUNTS, NAMES)),
    st.tuples(
        st.just("add"),
        st.tuples(
            st.lists(
                st.builds(Fail, root_id=ROOTS)
                | st.builds(ResetTimeout, root_id=ROOTS)
                | st.builds(Ack, root_id=ROOTS, ack_val=IDS, outstanding=COUNTS, edge_id=IDS),
                max_size=2,
            )
        ),
    ),
)


@given(steps=st.lists(STEPS, max_size=60))
def test_any_operations_fold_and_pack_alike(steps: Sequence[Step]) -> None:
    def gathered(module: ModuleType) -> Any:
        operations = module.FoldedOperations()
        for name, arguments in steps:
            getattr(operations, name)(*arguments)
        listed: list[Operation] = list(operations.operations())
        held = [operations.holds_any({root}) for root in (1, 2, 3, 4, 2**63, 2**64 - 1)]
        return listed, operations.operations().packed(), held, len(operations)

    compiled, source = both(gathered)
    assert compiled == source


@pytest.mark.parametrize("per_root", [1, 7, 3_000])
def test_many_acks_fold_alike_however_the_tables_grow(per_root: int) -> None:
    def gathered(module: ModuleType) -> Any:
        operations = module.FoldedOperations()
        for number in range(6_000):
            edge = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
            operations.fold_ack(1 + number // per_root, edge, edge, -1, "count")
        for number in range(0, 6_000, 11):  # again, so they stay operations of their own
            edge = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
            operations.fold_ack(1 + number // per_root, edge, edge, -1, "count")
        return operations.operations().packed()

    compiled, source = both(gathered)
    assert compiled == source
    assert isinstance(compiled, bytes)
