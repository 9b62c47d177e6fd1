"""A cursor is good for the one list that gave it."""

import base64
from dataclasses import replace

import pytest
from acker_protocol.errors import InvalidRequest
from acker_service.topologies.cursors import FailureList, ListKind, PendingRootList, SpoutList
from hypothesis import given
from hypothesis import strategies as st

INCARNATION, OTHER = "00000000000000a1", "00000000000000a2"
COMPLETIONS = SpoutList(kind=ListKind.COMPLETIONS, incarnation=INCARNATION, spout_task="orders", spout_index=7)
DEAD_LETTERS = replace(COMPLETIONS, kind=ListKind.DEAD_LETTERS)
ROOTS = PendingRootList(incarnation=INCARNATION)
FAILURES = FailureList(incarnation=INCARNATION)
AnyList = SpoutList | PendingRootList | FailureList

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
spout_rows = st.lists(st.tuples(st.integers(0, 255), U64, U64, U32), max_size=5)
root_rows = st.lists(st.tuples(st.integers(0, 255), U64, U32, U64, U64), max_size=5)


def cursor(number: int, body: bytes, incarnation: str = INCARNATION) -> str:
    """Write a cursor by hand."""
    return base64.urlsafe_b64encode(bytes([number]) + bytes.fromhex(incarnation) + body).decode().rstrip("=")


@given(rows=spout_rows, kind=st.sampled_from(ListKind), spout_task=st.text(max_size=20), index=U32)
def test_what_a_spout_task_s_list_gives_it_takes(
    rows: list[tuple[int, ...]], kind: ListKind, spout_task: str, index: int
) -> None:
    of = SpoutList(kind=kind, incarnation=INCARNATION, spout_task=spout_task, spout_index=index)
    assert of.decode(of.encode(rows)) == rows


@given(rows=root_rows)
def test_what_the_list_of_pending_roots_gives_it_takes(rows: list[tuple[int, ...]]) -> None:
    assert ROOTS.decode(ROOTS.encode(rows)) == rows


@given(rows=st.lists(st.tuples(st.integers(0, 255), U64), max_size=5))
def test_what_the_list_of_failures_gives_it_takes(rows: list[tuple[int, ...]]) -> None:
    assert FAILURES.decode(FAILURES.encode(rows)) == rows
    assert replace(FAILURES, incarnation=OTHER).decode(FAILURES.encode(rows)) is None


OTHERS: list[tuple[AnyList, AnyList, str]] = [
    (replace(COMPLETIONS, spout_task="order"), COMPLETIONS, "the completions of spout task orders"),
    (replace(COMPLETIONS, spout_task="order", incarnation=OTHER), COMPLETIONS, "the completions of spout task orders"),
    (DEAD_LETTERS, COMPLETIONS, "the completions of spout task orders"),
    (ROOTS, COMPLETIONS, "the completions of spout task orders"),
    (COMPLETIONS, DEAD_LETTERS, "the dead letters of spout task orders"),
    (replace(DEAD_LETTERS, spout_task="order"), DEAD_LETTERS, "the dead letters of spout task orders"),
    (ROOTS, DEAD_LETTERS, "the dead letters of spout task orders"),
    (COMPLETIONS, ROOTS, "the pending roots"),
    (DEAD_LETTERS, ROOTS, "the pending roots"),
    (FAILURES, ROOTS, "the pending roots"),
    (FAILURES, COMPLETIONS, "the completions of spout task orders"),
    (ROOTS, FAILURES, "the failures"),
    (COMPLETIONS, FAILURES, "the failures"),
]


@pytest.mark.parametrize("rows", [0, 1, 21, 29])
@pytest.mark.parametrize(("given_by", "taken_by", "named"), OTHERS)
def test_the_cursor_of_another_list_is_refused(given_by: AnyList, taken_by: AnyList, named: str, rows: int) -> None:
    """Whatever its length: 21 rows of 29 bytes are 29 rows of 21."""
    text = given_by.encode([(0,) * (len(given_by.row.unpack(bytes(given_by.row.size))))] * rows)
    with pytest.raises(InvalidRequest) as refused:
        taken_by.decode(text)
    assert (
        refused.value.detail == f"cursor was given by another list than {named}; send the cursor of a page of that list"
    )


def test_a_cursor_of_another_incarnation_is_the_beginning() -> None:
    rows = [(0, 7, 0, 1)]
    assert replace(COMPLETIONS, incarnation=OTHER).decode(COMPLETIONS.encode(rows)) is None
    assert PendingRootList(incarnation=OTHER).decode(ROOTS.encode([(0, 7, 0, 1, 2)])) is None


def test_a_cursor_of_a_spout_task_that_was_made_again_is_the_beginning() -> None:
    assert replace(COMPLETIONS, spout_index=8).decode(COMPLETIONS.encode([(0, 7, 0, 1)])) is None


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_cursor_of_a_later_format_is_the_beginning(rows: int) -> None:
    """Nobody here knows whose it is, so nothing may be passed over or forgotten by it."""
    lists: list[AnyList] = [COMPLETIONS, DEAD_LETTERS, ROOTS, FAILURES]
    assert [some.decode(cursor(9, bytes(some.row.size) * rows)) for some in lists] == [None] * 4


@pytest.mark.parametrize("of", [COMPLETIONS, DEAD_LETTERS, ROOTS])
@pytest.mark.parametrize("text", ["", "A", "!", "é", cursor(3, b"")[:-2], cursor(9, bytes(20)), cursor(9, bytes(30))])
def test_any_other_text_is_invalid(of: AnyList, text: str) -> None:
    with pytest.raises(InvalidRequest, match="not one that was given here"):
        of.decode(text)


def test_half_a_row_is_invalid() -> None:
    with pytest.raises(InvalidRequest, match="not one that was given here"):
        COMPLETIONS.decode(cursor(3, b""))
    with pytest.raises(InvalidRequest, match="not one that was given here"):
        COMPLETIONS.decode(COMPLETIONS.encode([(0, 7, 0, 1)])[:-4])
    with pytest.raises(InvalidRequest, match="not one that was given here"):
        ROOTS.decode(ROOTS.encode([(0, 7, 0, 1, 2)])[:-4])
