"""What is delivered together, and what becomes of it after a try."""

import pytest
from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.delivery.retry import EntryResult, MailboxEntry, PackedCompletion, select_batch, settle, succeeded
from acker_service.delivery.schedule import Schedule

SCHEDULE = Schedule(delays_s=(1, 10))


def entry(ms: int, *ids: str, shard: int = 0, tried: int = 0) -> MailboxEntry:
    pieces = [PackedCompletion(document={"id": name}, packed=name.encode()) for name in ids]
    return MailboxEntry(shard=shard, entry_id=(ms, 0), attempts=tried, completions=pieces)


def test_the_oldest_of_all_shards_go_first_in_an_order_that_is_always_the_same() -> None:
    found = [entry(3, "c"), entry(5, "e"), entry(1, "a", shard=1), entry(3, "d", shard=1), entry(2, "b", shard=2)]
    assert [it.completions[0].id for it in select_batch(found, 10)] == ["a", "b", "c", "d", "e"]
    assert [it.name for it in select_batch(found, 10)] == ["1-0", "2-0", "3-0", "3-0", "5-0"]
    assert select_batch(found[::-1], 10) == select_batch(found, 10)


@pytest.mark.parametrize(("most", "taken"), [(1, 1), (3, 1), (4, 2), (6, 3), (100, 3)])
def test_no_more_go_together_than_may_but_for_a_first_entry_that_is_larger(most: int, taken: int) -> None:
    assert len(select_batch([entry(1, "a", "b"), entry(2, "c", "d"), entry(3, "e", "f")], most)) == taken


def test_what_failed_together_is_tried_again_together() -> None:
    entries = [entry(1, "a"), entry(2, "b", shard=1)]
    verdict = DeliveryResult(kind=ResultKind.RETRY, retry_ids=("a", "b"), error="answered 500")
    for draw in (0.0, 0.5, 1.0):
        found = list(settle(entries, verdict, SCHEDULE, now_ms=1_000, draw=draw))
        assert {(it.result, len(it.remaining)) for it in found} == {(EntryResult.RETRY, 0)}
        assert {it.at_ms for it in found} == {1_000 + round(1_000 * (0.8 + 0.4 * draw))}


def test_of_an_entry_that_was_taken_in_part_the_rest_is_left() -> None:
    verdict = DeliveryResult(kind=ResultKind.PART, retry_ids=("b",), error="asked")
    first, second = settle([entry(1, "a", "b"), entry(2, "c")], verdict, SCHEDULE, now_ms=0, draw=0.5)
    assert (first.result, [piece.id for piece in first.remaining], second.result) == (
        EntryResult.RETRY,
        ["b"],
        EntryResult.DONE,
    )


def test_after_the_last_try_what_is_left_is_dead() -> None:
    verdict = DeliveryResult(kind=ResultKind.RETRY, retry_ids=("a",), error="answered 500")
    [last] = settle([entry(1, "a", tried=2)], verdict, SCHEDULE, now_ms=0, draw=0.5)
    assert (last.result, [piece.id for piece in last.remaining]) == (EntryResult.DEAD, ["a"])


def test_a_receiver_that_asks_to_wait_longer_than_the_schedule_says_is_obeyed() -> None:
    verdict = DeliveryResult(kind=ResultKind.WAIT, retry_ids=("a",), wait_s=60, error="answered 503")
    [it] = settle([entry(1, "a")], verdict, SCHEDULE, now_ms=0, draw=0.5)
    assert it.at_ms == 60_000


@pytest.mark.parametrize(
    ("fate", "again", "took"),
    [
        (ResultKind.DONE, (), True),
        (ResultKind.PART, ("a",), True),
        (ResultKind.PART, ("a", "b"), False),
        (ResultKind.RETRY, ("a", "b"), False),
    ],
)
def test_a_receiver_succeeded_if_it_took_anything(fate: ResultKind, again: tuple[str, ...], took: bool) -> None:  # noqa: FBT001
    assert succeeded(DeliveryResult(kind=fate, retry_ids=again), 2) is took
