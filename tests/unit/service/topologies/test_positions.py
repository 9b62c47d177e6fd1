from contextlib import suppress

import pytest
from acker_protocol.errors import InvalidRequest
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.cursors import (
    Cursor,
    ListKind,
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

INCARNATION = "0123456789abcdef"
TOPOLOGY = Topology(name="t", stamp=Stamp(INCARNATION + "0000000001"), config=TopologyConfig(), window_ms=600_000)
OF = completion_list(TOPOLOGY, Spout(name="orders", index=3))

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
    named = {"incarnation": INCARNATION, "spout_task": "orders", "spout_index": 3}
    assert SpoutList(kind=ListKind.COMPLETIONS, **named) == OF
    assert dead_letter_list(TOPOLOGY, Spout(name="orders", index=3)) == SpoutList(kind=ListKind.DEAD_LETTERS, **named)


@pytest.mark.parametrize(("positions", "text"), [({}, START), (POSITIONS, TWO_SHARDS)])
def test_a_cursor_is_the_test_vector(positions: dict[int, Position], text: str) -> None:
    cursor = Cursor(of=OF, positions=positions)
    assert cursor.encode() == text
    assert decode_cursor(text, OF) == cursor


def test_a_place_has_one_cursor() -> None:
    backwards = Cursor(of=OF, positions=dict(reversed(POSITIONS.items())))
    assert backwards.encode() == TWO_SHARDS


def test_a_cursor_moves_on_in_the_shards_that_were_read() -> None:
    behind = Position(ms=1, seq=2, offset=3)
    assert Cursor(of=OF, positions=POSITIONS).behind({0: behind, 5: behind}) == Cursor(
        of=OF, positions=POSITIONS | {0: behind, 5: behind}
    )


@given(st.dictionaries(st.integers(0, 127), positions))
def test_a_cursor_that_is_written_is_read_back(positions: dict[int, Position]) -> None:
    cursor = Cursor(of=OF, positions=positions)
    assert decode_cursor(cursor.encode(), OF) == cursor
    assert cursor.incarnation == INCARNATION
    assert cursor.encode().isascii()
    assert not set(cursor.encode()) & set("+/=&?# ")


@pytest.mark.parametrize("text", [None, OTHER_INCARNATION, OTHER_FORMAT, FORMAT_1])
def test_no_cursor_or_one_of_another_incarnation_or_format_is_the_beginning(text: str | None) -> None:
    assert decode_cursor(text, OF) == Cursor(of=OF)


@pytest.mark.parametrize("text", NOT_CURSORS, ids=ascii)
def test_a_text_that_is_no_cursor_is_invalid(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^cursor is not one that was given here$"):
        decode_cursor(text, OF)


@given(st.text(max_size=80))
def test_any_text_is_a_cursor_or_invalid(text: str) -> None:
    with suppress(InvalidRequest):
        assert decode_cursor(text, OF).incarnation == INCARNATION
