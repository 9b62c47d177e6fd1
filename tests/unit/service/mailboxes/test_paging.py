"""A page is gathered from all shards: in order, each completion once, and it reads about as much as it gives."""

from bisect import bisect_right
from itertools import count

import pytest
from acker_protocol.operations import CompletionRecord, Outcome
from acker_service.mailboxes.paging import (
    OVERFETCH,
    PAGE_BYTES,
    ItemRun,
    PageBuilder,
    ShardItems,
    Share,
    fair_shares,
    take_fairly,
)
from acker_service.topologies.cursors import Cursor, ListKind, Position, SpoutList
from hypothesis import given
from hypothesis import strategies as st

Entry = tuple[Position, CompletionRecord]
OF = SpoutList(kind=ListKind.COMPLETIONS, incarnation="0123456789abcdef", spout_task="orders", spout_index=3)
START = Cursor(of=OF)

limits = st.integers(1, 60)

# Gathering a page -----------------------------------------------------------------------------------------------------

Stored = list[tuple[Position, int]]
"""The completions of one shard: the position behind each, and its size."""

stores = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([50, 3_000, 90_000, 1_500_000])), max_size=25),
    min_size=1,
    max_size=9,
)
"""Shards of completions, each with the size of its entry and its own, in bytes."""


def stored(shape: list[tuple[int, int]]) -> Stored:
    """Lay completions out in entries of these lengths."""
    found: Stored = []
    for ms, (length, size) in enumerate(shape, start=1):
        found += [(Position(ms=ms, seq=0, offset=offset), size) for offset in range(1, length + 1)]
    return found


def give(shard: Stored, share: Share) -> ShardItems[ItemRun[int]]:
    """Read a shard as the store does: at least one, until there are enough or so many bytes."""
    behind = 0 if share.position is None else bisect_right([at for at, _ in shard], share.position)
    items: Stored = []
    for item in shard[behind : behind + share.max_completions]:
        items.append(item)
        if sum(size for _, size in items) >= share.max_bytes:
            break
    return ShardItems(items=ItemRun(items), size=sum(size for _, size in items), more=behind + len(items) < len(shard))


def read_page(shards: list[Stored], cursor: Cursor, limit: int) -> tuple[PageBuilder[ItemRun[int]], int, int]:
    """Gather a page, and return it, how many rounds it took, and how many bytes were read for it."""
    page: PageBuilder[ItemRun[int]] = PageBuilder(cursor, range(len(shards)), limit)
    rounds = size = 0
    while shares := page.shares():
        rounds += 1
        for shard, share in shares.items():
            given_items = give(shards[shard], share)
            size += given_items.size
            page.add(shard, given_items)
    return page, rounds, size


@given(shapes=stores, limit=limits)
def test_page_by_page_every_completion_comes_once_and_in_order(shapes: list[list[tuple[int, int]]], limit: int) -> None:
    shards = [stored(shape) for shape in shapes]
    read: list[Stored] = [[] for _ in shards]
    cursor = START
    for _ in range(sum(map(len, shards)) + 1):
        page, _, _ = read_page(shards, cursor, limit)
        taken = page.take()
        for shard, items in taken.items():
            read[shard] += items.items
        cursor = cursor.behind({shard: items.end for shard, items in taken.items()})
        if not taken:
            break
    assert read == shards


@given(shapes=stores, limit=limits)
def test_a_page_is_full_or_large_or_the_last(shapes: list[list[tuple[int, int]]], limit: int) -> None:
    """Clients rely on it: a page of fewer completions and less than a megabyte was the last when it was read."""
    shards = [stored(shape) for shape in shapes]
    page, rounds, size = read_page(shards, START, limit)
    items = [item for shard in page.take().values() for item in shard.items]
    everything = sum(map(len, shards))
    assert len(items) == min(limit, everything) or sum(size for _, size in items) >= PAGE_BYTES
    assert page.more or len(items) == everything
    assert rounds <= len(shards)
    most = max((size for shard in shards for _, size in shard), default=0)
    assert size <= PAGE_BYTES + len(shards) * most


@pytest.mark.parametrize(("shards", "limit", "asked"), [(4, 1_000, 516), (32, 10, 10), (32, 1_000, 80), (1, 7, 7)])
def test_a_shard_is_asked_for_twice_its_share_and_some_more(shards: int, limit: int, asked: int) -> None:
    shares = PageBuilder(START, range(shards), limit).shares()
    assert {share.max_completions for share in shares.values()} == {asked}
    assert {share.max_bytes for share in shares.values()} == {PAGE_BYTES // shards}
    assert asked == min(limit, -(-limit // shards) * 2 + OVERFETCH)


def test_few_completions_take_one_round() -> None:
    shards = [stored([(1, 50)] * length) for length in (3, 0, 16, 1)]
    assert read_page(shards, START, 1_000)[1] == 1


def test_a_shard_that_has_all_of_a_page_gives_the_rest_in_a_second_round() -> None:
    shards = [stored([(1, 50)] * 500), *[list[tuple[Position, int]]() for _ in range(31)]]
    page, rounds, _ = read_page(shards, START, 400)
    assert ({shard: len(items) for shard, items in page.take().items()}, rounds) == ({0: 400}, 2)


def test_a_page_of_some_shards_asks_no_others() -> None:
    page: PageBuilder[ItemRun[int]] = PageBuilder(START, [5, 2], 10)
    assert list(page.shares()) == [2, 5]
    page.add(5, ShardItems(items=ItemRun([(Position(ms=1, seq=0, offset=1), 50)]), size=50, more=False))
    assert list(page.shares()) == [2]
    page.add(2, ShardItems(items=ItemRun([]), size=0, more=False))
    assert (page.shares(), list(page.take()), page.more) == ({}, [5], False)


def test_a_shard_is_read_on_behind_what_it_gave() -> None:
    at, behind = Position(ms=4, seq=0, offset=2), Position(ms=9, seq=0, offset=1)
    page: PageBuilder[ItemRun[int]] = PageBuilder(START.behind({0: at}), [0], 1_000)
    assert (page.shares()[0].entry, page.shares()[0].offset) == ("4-0", 2)
    page.add(0, ShardItems(items=ItemRun([(behind, 50)]), size=50, more=True))
    assert (page.shares()[0].entry, page.shares()[0].offset) == ("9-0", 1)
    assert (PageBuilder(START, [0], 1).shares()[0].entry, PageBuilder(START, [0], 1).shares()[0].offset) == ("", 0)


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
    taken = take_fairly([*map(ItemRun, found)], limit)
    assert sum(map(len, taken.values())) == min(limit, sum(map(len, found)))
    for shard, entries in taken.items():
        assert entries
        assert entries.items == found[shard][: len(entries)]


def test_what_cannot_be_divided_goes_to_the_shard_where_the_oldest_waits() -> None:
    found = [[entry(30, 1), entry(31, 2)], [], [entry(10, 3), entry(40, 4)], [entry(20, 5)]]
    assert {shard: len(entries) for shard, entries in take_fairly([*map(ItemRun, found)], 1).items()} == {2: 1}
    assert {shard: len(entries) for shard, entries in take_fairly([*map(ItemRun, found)], 4).items()} == {
        0: 1,
        2: 2,
        3: 1,
    }


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_shard_waits_behind_one_that_never_empties_even_if_the_limit_is_small(limit: int) -> None:
    clock = count(100)
    found = [[entry(next(clock), 1) for _ in range(5)], [entry(50, 2)], [entry(60, 3)], [entry(70, 4)]]
    met = set[int]()
    for _ in range(12):
        found = _without(found, taken := take_fairly([*map(ItemRun, found)], limit))
        met |= {done.root_id for entries in taken.values() for _, done in entries.items}
        found[0].extend(entry(next(clock), 1) for _ in range(limit))
    assert met == {1, 2, 3, 4}


def _without(found: list[list[Entry]], taken: dict[int, ItemRun[CompletionRecord]]) -> list[list[Entry]]:
    return [entries[len(taken.get(shard, ())) :] for shard, entries in enumerate(found)]


def test_a_page_goes_on_behind_what_it_has_passed_over_where_it_gives_all_that_it_found():
    """A shard may pass over what is not asked for: behind what is given, and where nothing is given at all."""
    at = [Position(ms=ms, seq=0, offset=1) for ms in range(1, 7)]
    builder: PageBuilder[ItemRun[int]] = PageBuilder(START, range(3), 4)
    for shard, items, passed in ((0, at[:2], at[4]), (1, [], at[5]), (2, at[:3], at[3])):
        run = ItemRun([(each, 1) for each in items])
        builder.add(shard, ShardItems(items=run, size=len(items), more=True, passed=passed))
    taken = builder.take()
    assert {shard: len(run) for shard, run in taken.items()} == {0: 2, 2: 2}
    assert builder.behind(taken) == {0: at[4], 1: at[5], 2: at[1]}
    assert builder.behind({}) == {1: at[5]}
