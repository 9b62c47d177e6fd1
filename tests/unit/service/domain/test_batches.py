"""What is delivered together, and what becomes of it after a try."""

import pytest
from acker_service.domain.batches import Entry, Piece, Word, choose, settle, succeeded
from acker_service.domain.schedule import Schedule
from acker_service.domain.verdicts import Fate, Verdict

SCHEDULE = Schedule(delays_s=(1, 10))


def entry(ms: int, *ids: str, shard: int = 0, tried: int = 0) -> Entry:
    pieces = [Piece(told={"id": name}, packed=name.encode()) for name in ids]
    return Entry(shard=shard, stamp=(ms, 0), tried=tried, pieces=pieces)


def test_the_oldest_of_all_shards_go_first_in_an_order_that_is_always_the_same() -> None:
    found = [entry(3, "c"), entry(5, "e"), entry(1, "a", shard=1), entry(3, "d", shard=1), entry(2, "b", shard=2)]
    assert [it.pieces[0].id for it in choose(found, 10)] == ["a", "b", "c", "d", "e"]
    assert [it.name for it in choose(found, 10)] == ["1-0", "2-0", "3-0", "3-0", "5-0"]
    assert choose(found[::-1], 10) == choose(found, 10)


@pytest.mark.parametrize(("most", "taken"), [(1, 1), (3, 1), (4, 2), (6, 3), (100, 3)])
def test_no_more_go_together_than_may_but_for_a_first_entry_that_is_larger(most: int, taken: int) -> None:
    assert len(choose([entry(1, "a", "b"), entry(2, "c", "d"), entry(3, "e", "f")], most)) == taken


def test_what_failed_together_is_tried_again_together() -> None:
    entries = [entry(1, "a"), entry(2, "b", shard=1)]
    verdict = Verdict(fate=Fate.RETRY, again=("a", "b"), error="answered 500")
    for draw in (0.0, 0.5, 1.0):
        found = list(settle(entries, verdict, SCHEDULE, now_ms=1_000, draw=draw))
        assert {(it.word, len(it.left)) for it in found} == {(Word.RETRY, 0)}
        assert {it.at_ms for it in found} == {1_000 + round(1_000 * (0.8 + 0.4 * draw))}


def test_of_an_entry_that_was_taken_in_part_the_rest_is_left() -> None:
    verdict = Verdict(fate=Fate.PART, again=("b",), error="asked")
    first, second = settle([entry(1, "a", "b"), entry(2, "c")], verdict, SCHEDULE, now_ms=0, draw=0.5)
    assert (first.word, [piece.id for piece in first.left], second.word) == (Word.RETRY, ["b"], Word.DONE)


def test_after_the_last_try_what_is_left_is_dead() -> None:
    verdict = Verdict(fate=Fate.RETRY, again=("a",), error="answered 500")
    [last] = settle([entry(1, "a", tried=2)], verdict, SCHEDULE, now_ms=0, draw=0.5)
    assert (last.word, [piece.id for piece in last.left]) == (Word.DEAD, ["a"])


def test_a_receiver_that_asks_to_wait_longer_than_the_schedule_says_is_obeyed() -> None:
    verdict = Verdict(fate=Fate.WAIT, again=("a",), wait_s=60, error="answered 503")
    [it] = settle([entry(1, "a")], verdict, SCHEDULE, now_ms=0, draw=0.5)
    assert it.at_ms == 60_000


@pytest.mark.parametrize(
    ("fate", "again", "took"),
    [(Fate.DONE, (), True), (Fate.PART, ("a",), True), (Fate.PART, ("a", "b"), False), (Fate.RETRY, ("a", "b"), False)],
)
def test_a_receiver_succeeded_if_it_took_anything(fate: Fate, again: tuple[str, ...], took: bool) -> None:  # noqa: FBT001
    assert succeeded(Verdict(fate=fate, again=again), 2) is took
