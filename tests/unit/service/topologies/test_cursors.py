"""A cursor is good for the one list that gave it, and holds a position in each of its shards."""

import base64
from contextlib import suppress
from dataclasses import replace

import pytest
from acker_protocol.errors import InvalidRequest
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.cursors import (
    Cursor,
    FailureList,
    ListKind,
    PendingRootList,
    Position,
    SpoutList,
    completion_list,
    dead_letter_list,
    decode_cursor,
)
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import Topology
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


OWN = "0123456789abcdef"
TOPOLOGY = Topology(name="t", stamp=Stamp(OWN + "0000000001"), config=TopologyConfig(), window_ms=600_000)
LIST = completion_list(TOPOLOGY, Spout(name="orders", index=3))

# Written by hand: format 3, incarnation, kind 1, name by `b2sum -l 128`, index, then shard B, milliseconds Q, sequence
# number Q, taken I; base64 by `base64`.
START = "AwEjRWeJq83vAUTKAFmnxKCeZh7RDObGnlIAAAAD"
TWO_SHARDS = START + "AAAAAaDFK-QAAAAAAAAAAAAAAAABf___________AAAAAAAAAAf_____"
OTHER_INCARNATION = "AwEjRWeJq83uAUTKAFmnxKCeZh7RDObGnlIAAAADAAAAAaDFK-QAAAAAAAAAAAAAAAAB"
OTHER_FORMAT = "CQEjRWeJq83vAUTKAFmnxKCeZh7RDObGnlIAAAADAAAAAaDFK-QAAAAAAAAAAAAAAAAB"
FORMAT_1 = "AQEjRWeJq83vAAAAAaDFK-QAAAAAAAAAAAAAAAABf___________AAAAAAAAAAf_____"
POSITIONS = {
    0: Position(ms=0x1A0C52BE400, seq=0, offset=1),
    127: Position(ms=2**64 - 1, seq=7, offset=2**32 - 1),
}
NOT_CURSORS = [
    "",
    "A",
    "AQEj",
    "not a cursor",
    "AQEjRWeJq83vAA",
    "AwEjRWeJq83v",
    "CQEjRWeJq83vAA",
    START + "é",
    START + "\n",
    TWO_SHARDS[:-1],
    TWO_SHARDS + "AAAA",
    "\ud800",
]

positions = st.builds(
    Position, ms=st.integers(0, 2**64 - 1), seq=st.integers(0, 2**64 - 1), offset=st.integers(0, 2**32 - 1)
)


def test_a_position_names_its_entry_as_redis_does() -> None:
    assert Position(ms=1_790_000_000_000, seq=3, offset=2).entry == "1790000000000-3"


def test_each_list_of_a_spout_task_is_another() -> None:
    named = {"incarnation": OWN, "spout_task": "orders", "spout_index": 3}
    assert SpoutList(kind=ListKind.COMPLETIONS, **named) == LIST
    assert dead_letter_list(TOPOLOGY, Spout(name="orders", index=3)) == SpoutList(kind=ListKind.DEAD_LETTERS, **named)


@pytest.mark.parametrize(("positions", "text"), [({}, START), (POSITIONS, TWO_SHARDS)])
def test_a_cursor_is_the_test_vector(positions: dict[int, Position], text: str) -> None:
    cursor = Cursor(of=LIST, positions=positions)
    assert cursor.encode() == text
    assert decode_cursor(text, LIST) == cursor


def test_a_place_has_one_cursor() -> None:
    backwards = Cursor(of=LIST, positions=dict(reversed(POSITIONS.items())))
    assert backwards.encode() == TWO_SHARDS


def test_a_cursor_moves_on_in_the_shards_that_were_read() -> None:
    behind = Position(ms=1, seq=2, offset=3)
    assert Cursor(of=LIST, positions=POSITIONS).behind({0: behind, 5: behind}) == Cursor(
        of=LIST, positions=POSITIONS | {0: behind, 5: behind}
    )


@given(st.dictionaries(st.integers(0, 127), positions))
def test_a_cursor_that_is_written_is_read_back(positions: dict[int, Position]) -> None:
    cursor = Cursor(of=LIST, positions=positions)
    assert decode_cursor(cursor.encode(), LIST) == cursor
    assert cursor.incarnation == OWN
    assert cursor.encode().isascii()
    assert not set(cursor.encode()) & set("+/=&?# ")


@pytest.mark.parametrize("text", [None, OTHER_INCARNATION, OTHER_FORMAT, FORMAT_1])
def test_no_cursor_or_one_of_another_incarnation_or_format_is_the_beginning(text: str | None) -> None:
    assert decode_cursor(text, LIST) == Cursor(of=LIST)


@pytest.mark.parametrize("text", NOT_CURSORS, ids=ascii)
def test_a_text_that_is_no_cursor_is_invalid(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^cursor is not one that was given here$"):
        decode_cursor(text, LIST)


@given(st.text(max_size=80))
def test_any_text_is_a_cursor_or_invalid(text: str) -> None:
    with suppress(InvalidRequest):
        assert decode_cursor(text, LIST).incarnation == OWN
