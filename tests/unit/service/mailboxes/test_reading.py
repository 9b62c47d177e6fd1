from collections.abc import Sequence
from contextlib import suppress
from itertools import count

import pytest
from acker_protocol.errors import InvalidRequest
from acker_protocol.operations import CompletionRecord, Outcome
from acker_service.mailboxes.reading import (
    Cursor,
    Entry,
    Position,
    decode_cursor,
    fair_shares,
    read_entries,
    take_fairly,
)
from acker_service.redis import mailbox_functions
from acker_service.redis.mailbox_functions import StoredEntry
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.registry import Topology
from hypothesis import given
from hypothesis import strategies as st

INCARNATION = "0123456789abcdef"
TOPOLOGY = Topology(name="t", stamp=Stamp(INCARNATION + "0000000001"), config=TopologyConfig(), window_ms=600_000)

# Written by hand: format 1, incarnation, then shard B, milliseconds Q, sequence Q, taken I; base64 by `base64`.
START = "AQEjRWeJq83v"
TWO_SHARDS = "AQEjRWeJq83vAAAAAaDFK-QAAAAAAAAAAAAAAAABf___________AAAAAAAAAAf_____"
OTHER_INCARNATION = "AQEjRWeJq83uAAAAAaDFK-QAAAAAAAAAAAAAAAAB"
OTHER_FORMAT = "AgEjRWeJq83v"
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
    START + "é",
    START + "\n",
    TWO_SHARDS[:-1],
    TWO_SHARDS + "AAAA",
    "\ud800",
]

positions = st.builds(
    Position, ms=st.integers(0, 2**64 - 1), seq=st.integers(0, 2**64 - 1), offset=st.integers(0, 2**32 - 1)
)
limits = st.integers(1, 60)


def test_a_position_names_its_entry_as_redis_does() -> None:
    assert Position(ms=1_790_000_000_000, seq=3, offset=2).entry == "1790000000000-3"


@pytest.mark.parametrize(("positions", "text"), [({}, START), (POSITIONS, TWO_SHARDS)])
def test_a_cursor_is_the_test_vector(positions: dict[int, Position], text: str) -> None:
    cursor = Cursor(incarnation=INCARNATION, positions=positions)
    assert cursor.encode() == text
    assert decode_cursor(text, TOPOLOGY) == cursor


def test_a_place_has_one_cursor() -> None:
    backwards = Cursor(incarnation=INCARNATION, positions=dict(reversed(POSITIONS.items())))
    assert backwards.encode() == TWO_SHARDS


@given(st.dictionaries(st.integers(0, 127), positions))
def test_a_cursor_that_is_written_is_read_back(positions: dict[int, Position]) -> None:
    cursor = Cursor(incarnation=INCARNATION, positions=positions)
    assert decode_cursor(cursor.encode(), TOPOLOGY) == cursor
    assert cursor.encode().isascii()
    assert not set(cursor.encode()) & set("+/=&?# ")


@pytest.mark.parametrize("text", [None, OTHER_INCARNATION, OTHER_FORMAT])
def test_no_cursor_or_one_of_another_incarnation_or_format_is_the_beginning(text: str | None) -> None:
    assert decode_cursor(text, TOPOLOGY) == Cursor(incarnation=INCARNATION)


@pytest.mark.parametrize("text", NOT_CURSORS, ids=ascii)
def test_a_text_that_is_no_cursor_is_invalid(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^cursor is not one that was given here$"):
        decode_cursor(text, TOPOLOGY)


@given(st.text(max_size=80))
def test_any_text_is_a_cursor_or_invalid(text: str) -> None:
    with suppress(InvalidRequest):
        assert decode_cursor(text, TOPOLOGY).incarnation == INCARNATION


# Entries --------------------------------------------------------------------------------------------------------------


def packed(*root_ids: int) -> bytes:
    """Completions without texts, as they lie in an entry: root id, start, end, flags."""
    return b"".join(root_id.to_bytes(8, "big") + bytes(11) for root_id in root_ids)


def decoded(reply: list[object]) -> list[StoredEntry]:
    """A shard's reply as the driver reads it."""
    return mailbox_functions.read(spout_index=0, entry="", offset=0, max_completions=10).decode(reply)


def test_each_completion_of_a_shard_comes_with_the_position_behind_it() -> None:
    reply = [b"1790000000000-0", 0, packed(1, 2), b"1790000000005-18446744073709551615", 0, packed(3)]
    found = list(read_entries(decoded(reply), "orders"))
    assert [(at, done.root_id) for at, done in found] == [
        (Position(ms=1_790_000_000_000, seq=0, offset=1), 1),
        (Position(ms=1_790_000_000_000, seq=0, offset=2), 2),
        (Position(ms=1_790_000_000_005, seq=2**64 - 1, offset=1), 3),
    ]
    assert {done.spout_task for _, done in found} == {"orders"}


def test_completions_already_taken_from_an_entry_are_skipped_and_counted() -> None:
    found = list(read_entries(decoded([b"5-0", 2, packed(1, 2, 3), b"6-0", 1, packed(4)]), "orders"))
    assert [(at.entry, at.offset, done.root_id) for at, done in found] == [("5-0", 3, 3)]


def test_an_empty_shard_has_no_entries() -> None:
    assert list(read_entries(decoded([]), "orders")) == []


# Dividing a limit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "limit", "divided"),
    [
        ([], 5, []),
        ([0, 0], 5, [0, 0]),
        ([3, 4], 10, [3, 4]),
        ([3, 4], 7, [3, 4]),
        ([9, 9, 9], 3, [1, 1, 1]),
        ([9, 9, 9], 4, [2, 1, 1]),
        ([9, 9, 9], 2, [1, 1, 0]),
        ([1, 9, 0, 9], 10, [1, 5, 0, 4]),
        ([1, 100, 100], 60, [1, 30, 29]),
    ],
)
def test_a_limit_is_divided_alike(found: list[int], limit: int, divided: list[int]) -> None:
    assert fair_shares(found, limit) == divided


@given(found=st.lists(st.integers(0, 30), max_size=8), limit=limits)
def test_shares_add_up_to_the_limit_or_to_all_there_is(found: list[int], limit: int) -> None:
    divided = fair_shares(found, limit)
    assert sum(divided) == min(limit, sum(found))
    assert all(0 <= share <= have for share, have in zip(divided, found, strict=True))


@given(found=st.lists(st.integers(0, 30), min_size=1, max_size=8), limit=limits)
def test_a_shard_that_has_more_left_got_no_less_than_any_other_but_for_the_remainder(
    found: list[int], limit: int
) -> None:
    divided = fair_shares(found, limit)
    for share, have in zip(divided, found, strict=True):
        assert share == have or share >= max(divided) - 1


def entry(ms: int, root_id: int) -> Entry:
    done = CompletionRecord(
        root_id=root_id,
        spout_task="orders",
        outcome=Outcome.ACKED,
        message_id=None,
        reason=None,
        component=None,
        started_ms=ms,
        at_ms=ms,
    )
    return Position(ms=ms, seq=0, offset=1), done


@given(
    ages=st.lists(st.lists(st.integers(0, 50), max_size=12).map(sorted), min_size=1, max_size=5),
    limit=limits,
)
def test_from_each_shard_its_oldest_are_taken(ages: list[list[int]], limit: int) -> None:
    found = [[entry(ms, 1) for ms in shard] for shard in ages]
    taken = take_fairly(found, limit)
    assert sum(map(len, taken.values())) == min(limit, sum(map(len, found)))
    for shard, entries in taken.items():
        assert entries
        assert entries == found[shard][: len(entries)]


def test_what_cannot_be_divided_goes_to_the_shard_where_the_oldest_waits() -> None:
    found = [[entry(30, 1), entry(31, 2)], [], [entry(10, 3), entry(40, 4)], [entry(20, 5)]]
    assert {shard: len(entries) for shard, entries in take_fairly(found, 1).items()} == {2: 1}
    assert {shard: len(entries) for shard, entries in take_fairly(found, 4).items()} == {0: 1, 2: 2, 3: 1}


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_shard_waits_behind_one_that_never_empties_even_if_the_limit_is_small(limit: int) -> None:
    clock = count(100)
    found = [[entry(next(clock), 1) for _ in range(5)], [entry(50, 2)], [entry(60, 3)], [entry(70, 4)]]
    met = set[int]()
    for _ in range(12):
        found = _without(found, taken := take_fairly(found, limit))
        met |= {done.root_id for entries in taken.values() for _, done in entries}
        found[0].extend(entry(next(clock), 1) for _ in range(limit))
    assert met == {1, 2, 3, 4}


def _without(found: list[list[Entry]], taken: dict[int, Sequence[Entry]]) -> list[list[Entry]]:
    return [entries[len(taken.get(shard, ())) :] for shard, entries in enumerate(found)]
