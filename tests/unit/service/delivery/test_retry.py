"""Tests which completions are delivered together, and when failed ones are retried or become dead letters."""

import pytest
from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.delivery.retry import (
    DEFAULT_SCHEDULE,
    DeliveryConfig,
    EntryResult,
    MailboxEntry,
    Schedule,
    backoff_s,
    plan_settlements,
    read_schedule,
    select_batch,
    succeeded,
)
from acker_service.redis.completion_codec import CompletionDocuments, PackedCompletions
from hypothesis import given
from hypothesis import strategies as st

SCHEDULE = Schedule(delays_s=(1, 10))


class Named(PackedCompletions):
    """Completions with these ids."""

    def __init__(self, *ids: str) -> None:
        super().__init__(bytes(19 * len(ids)))
        self.ids = ids

    def write(self, *_: object) -> CompletionDocuments:
        return CompletionDocuments(ids=[*self.ids])


def entry(ms: int, *ids: str, shard: int = 0, attempts: int = 0) -> MailboxEntry:
    return MailboxEntry(shard=shard, entry_id=(ms, 0), attempts=attempts, completions=Named(*ids), incarnation="1")


def test_the_oldest_of_all_shards_go_first_in_an_order_that_is_always_the_same() -> None:
    found = [entry(3, "c"), entry(5, "e"), entry(1, "a", shard=1), entry(3, "d", shard=1), entry(2, "b", shard=2)]
    assert [it.write().ids[0] for it in select_batch(found, 10)] == ["a", "b", "c", "d", "e"]
    assert [it.name for it in select_batch(found, 10)] == ["1-0", "2-0", "3-0", "3-0", "5-0"]
    assert select_batch(found[::-1], 10) == select_batch(found, 10)


@pytest.mark.parametrize(("max_completions", "selected"), [(1, 1), (3, 1), (4, 2), (6, 3), (100, 3)])
def test_no_more_go_together_than_may_but_for_a_first_entry_that_is_larger(max_completions: int, selected: int) -> None:
    assert len(select_batch([entry(1, "a", "b"), entry(2, "c", "d"), entry(3, "e", "f")], max_completions)) == selected


def test_what_failed_together_is_tried_again_together() -> None:
    entries = [entry(1, "a"), entry(2, "b", shard=1)]
    result = DeliveryResult(kind=ResultKind.RETRY, retry_ids=("a", "b"), error="answered 500")
    for draw in (0.0, 0.5, 1.0):
        found = list(plan_settlements(entries, result, SCHEDULE, now_ms=1_000, draw=draw))
        assert {(it.result, len(it.remaining)) for it in found} == {(EntryResult.RETRY, 0)}
        assert {it.at_ms for it in found} == {1_000 + round(1_000 * (0.8 + 0.4 * draw))}


def test_of_an_entry_that_was_taken_in_part_the_rest_is_left() -> None:
    result = DeliveryResult(kind=ResultKind.PART, retry_ids=("b",), error="asked")
    first, second = plan_settlements([entry(1, "a", "b"), entry(2, "c")], result, SCHEDULE, now_ms=0, draw=0.5)
    assert (first.result, [*first.remaining], second.result) == (
        EntryResult.RETRY,
        ["b"],
        EntryResult.DONE,
    )


def test_after_the_last_try_what_is_left_is_dead() -> None:
    result = DeliveryResult(kind=ResultKind.RETRY, retry_ids=("a",), error="answered 500")
    [last] = plan_settlements([entry(1, "a", attempts=2)], result, SCHEDULE, now_ms=0, draw=0.5)
    assert (last.result, [*last.remaining]) == (EntryResult.DEAD, ["a"])


def test_a_receiver_that_asks_to_wait_longer_than_the_schedule_says_is_obeyed() -> None:
    result = DeliveryResult(kind=ResultKind.WAIT, retry_ids=("a",), wait_s=60, error="answered 503")
    [it] = plan_settlements([entry(1, "a")], result, SCHEDULE, now_ms=0, draw=0.5)
    assert it.at_ms == 60_000


@pytest.mark.parametrize(
    ("kind", "retry_ids", "took"),
    [
        (ResultKind.DONE, (), True),
        (ResultKind.PART, ("a",), True),
        (ResultKind.PART, ("a", "b"), False),
        (ResultKind.RETRY, ("a", "b"), False),
    ],
)
def test_a_receiver_succeeded_if_it_took_anything(kind: ResultKind, retry_ids: tuple[str, ...], took: bool) -> None:  # noqa: FBT001
    assert succeeded(DeliveryResult(kind=kind, retry_ids=retry_ids), 2) is took


def test_the_schedule_is_by_default_as_the_contract_says():
    hours = 3_600
    assert DEFAULT_SCHEDULE.delays_s == (1, 5, 30, 120, 600, 1_800, 2 * hours, 5 * hours, 10 * hours, 10 * hours)
    assert DEFAULT_SCHEDULE.max_attempts == 11


def test_each_try_but_the_last_is_followed_by_its_delay():
    schedule = Schedule(delays_s=(1, 10))
    assert [schedule.delay_s(tried, draw=0.5) for tried in (1, 2, 3, 4)] == [1, 10, None, None]


@given(st.integers(1, 10), st.floats(0, 1))
def test_a_delay_is_longer_or_shorter_by_a_fifth_at_most(tried, draw):
    delay, exact = DEFAULT_SCHEDULE.delay_s(tried, draw=draw), DEFAULT_SCHEDULE.delays_s[tried - 1]
    assert delay == pytest.approx(exact, rel=0.2000001)


def test_a_draw_from_end_to_end_uses_the_whole_fifth_both_ways():
    assert [DEFAULT_SCHEDULE.delay_s(3, draw=draw) for draw in (0, 0.5, 1)] == pytest.approx([24, 30, 36])


def test_what_the_receiver_asks_for_lengthens_a_delay_and_never_shortens_it():
    assert DEFAULT_SCHEDULE.delay_s(2, draw=0.5, at_least_s=60) == 60
    assert DEFAULT_SCHEDULE.delay_s(2, draw=0.5, at_least_s=0) == 5
    assert DEFAULT_SCHEDULE.delay_s(11, draw=0.5, at_least_s=60) is None


@pytest.mark.parametrize(
    ("text", "delays"),
    [
        ("1", (1,)),
        ("1,5,30", (1, 5, 30)),
        (" 0.5 , 2.25 ", (0.5, 2.25)),
        ("604800", (604_800,)),
        (",".join(["1"] * 100), (1,) * 100),
        (",".join(str(delay) for delay in DEFAULT_SCHEDULE.delays_s), DEFAULT_SCHEDULE.delays_s),
    ],
)
def test_a_schedule_is_read_from_a_setting(text, delays):
    assert read_schedule(text) == Schedule(delays_s=delays)
    assert read_schedule(text).max_attempts == len(delays) + 1


@pytest.mark.parametrize(
    "text",
    ["", ",", "1,", "1,,2", "0", "0.000", "-1", "1e3", "nan", "inf", "1 2", "1;2", "٣", "604801", "1.0001", "1s"],
)
def test_another_text_is_no_schedule(text):
    with pytest.raises(ValueError, match=r"seconds above 0, up to 604800, and commas: 1,5,30"):
        read_schedule(text)


def test_a_schedule_without_end_is_refused():
    with pytest.raises(ValueError, match="at most 100"):
        read_schedule(",".join(["1"] * 101))


def test_completions_go_by_hundreds_and_a_lease_outlasts_a_post_unless_something_else_is_set() -> None:
    assert DeliveryConfig() == DeliveryConfig(
        max_batch=500, linger_s=0.02, lease_ms=35_000, pause_after_ms=86_400_000, schedule=DEFAULT_SCHEDULE
    )


@pytest.mark.parametrize(
    ("wait_s", "failures", "left_alone_s"), [(0.0, 0, 0.0), (0.0, 1, 0.0), (0.0, 2, 1.0), (7.0, 0, 7.0), (0.5, 9, 1.0)]
)
def test_a_receiver_is_left_alone_from_its_second_failure_on_and_for_as_long_as_it_asked(
    wait_s: float, failures: int, left_alone_s: float
) -> None:
    result = DeliveryResult(kind=ResultKind.RETRY, wait_s=wait_s)
    assert backoff_s(result, SCHEDULE, failures=failures) == left_alone_s
