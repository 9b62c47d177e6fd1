"""Roots that were due while nobody ticked get grace, once; all others time out as ever."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from acker_protocol.operations import Ack, Init, Outcome
from acker_service.redis import library
from acker_service.topologies.config import TopologyConfig

from tests.support.driven_store import DrivenStore

GRACE_MS = 8_000
GRACED = TopologyConfig(ackers=1, buckets=1, message_timeout_ms=60_000, grace_ms=GRACE_MS)
HALF, QUARTER = 0x80 << 56, 0x40 << 56
"""Root ids that draw half of the grace, and a quarter."""
HALF_MS, QUARTER_MS = GRACE_MS // 2, GRACE_MS // 4
Make = Callable[..., DrivenStore]


@pytest.fixture
def make(driven_url: str) -> Iterator[Make]:
    """Make stores that have ticked once, each in place of the one before."""
    stores: list[DrivenStore] = []

    def made(configuration: TopologyConfig = GRACED, *, text: str | None = None) -> DrivenStore:
        stores.append(DrivenStore(driven_url, configuration, window_ms=60_000, text=text))
        stores[-1].tick()
        return stores[-1]

    yield made
    for store in stores:
        store.close()


def root(root_id: int, timeout_ms: int = 1_000) -> Init:
    return Init(root_id=root_id, spout_task="s", ack_val=1, outstanding=1, message_timeout_ms=timeout_ms)


def completed(store: DrivenStore) -> list[int]:
    return sorted(done.root_id for done in store.mailbox())


def outage(store: DrivenStore, ms: int = 10_000) -> None:
    """Let time pass without a tick."""
    store.advance(ms)
    store.tick()


def test_roots_that_were_due_in_an_outage_end_one_after_another(make: Make) -> None:
    store = make()
    store.apply([root(HALF), root(QUARTER)], None)
    outage(store)
    assert completed(store) == []
    assert store.root(HALF).due_ms == store.now_ms + HALF_MS
    store.advance(QUARTER_MS)
    store.tick()
    assert completed(store) == []
    store.advance(1)
    store.tick()
    assert completed(store) == [QUARTER]
    outage(store, HALF_MS - QUARTER_MS)
    assert completed(store) == [QUARTER, HALF]


def test_a_root_with_grace_may_still_be_acked(make: Make) -> None:
    store = make()
    store.apply([root(HALF)], None)
    outage(store)
    store.apply([Ack(root_id=HALF, ack_val=1, outstanding=-1)], None)
    assert [done.outcome for done in store.mailbox()] == [Outcome.ACKED]


@pytest.mark.parametrize(("apart_ms", "ended"), [(2_000, [HALF]), (2_001, [])])
def test_ticks_that_are_two_seconds_apart_leave_no_gap(make: Make, apart_ms: int, ended: list[int]) -> None:
    store = make()
    store.apply([root(HALF)], None)
    outage(store, apart_ms)
    assert completed(store) == ended


def test_without_grace_all_roots_end_after_an_outage_and_no_tick_is_noted(make: Make) -> None:
    store = make(replace(GRACED, grace_ms=0))
    store.apply([root(HALF), root(QUARTER)], None)
    outage(store)
    assert completed(store) == [QUARTER, HALF]
    assert store.command("EXISTS", store.base + "ticks") == 0


def test_a_topology_whose_grace_ends_forgets_its_last_tick(make: Make) -> None:
    store = make()
    store.configure(replace(GRACED, grace_ms=0))
    store.apply([root(QUARTER)], None)
    outage(store)
    store.configure(GRACED)
    store.apply([root(HALF)], None)
    outage(store)
    assert completed(store) == [QUARTER, HALF]


def test_a_shard_that_was_never_ticked_has_no_gap(driven_url: str) -> None:
    store = DrivenStore(driven_url, GRACED, window_ms=60_000)
    store.apply([root(HALF)], None)
    outage(store)
    assert completed(store) == [HALF]
    store.close()


def test_an_early_root_gets_no_grace(make: Make) -> None:
    store = make(replace(GRACED, message_timeout_ms=1_000))
    store.apply([Ack(root_id=HALF, ack_val=1)], None)
    outage(store)
    assert store.root(HALF).state.value == "N"


def test_a_deadline_that_is_due_after_the_outage_stays(make: Make) -> None:
    store = make()
    with_progress = replace(root(1, 10_000), progress_timeout_ms=30_000)
    store.apply([root(HALF, 10_000), root(QUARTER, 10_001), with_progress], None)
    outage(store, 10_000)
    outage(store, 2)
    assert completed(store) == [1, QUARTER, HALF]


def test_a_root_that_was_due_before_the_outage_ends(make: Make) -> None:
    """The tick before it came too late for this root, or read too few records."""
    store = make()
    idle = replace(root(1, 60_000), progress_timeout_ms=1_000)
    store.apply([root(HALF), root(QUARTER, 1_500), idle], None)
    store.advance(1_200)
    store.ask("acker_tick_v1", store.settings, 0, GRACE_MS)
    outage(store)
    assert completed(store) == [1, HALF]


@pytest.mark.parametrize("progress_timeout_ms", [1_000, 30_000])
@pytest.mark.parametrize("message_timeout_ms", [2_000, 60_000])
def test_each_deadline_in_the_gap_moves_and_no_other(
    make: Make, progress_timeout_ms: int, message_timeout_ms: int
) -> None:
    store = make()
    store.apply([replace(root(HALF, message_timeout_ms), progress_timeout_ms=progress_timeout_ms)], None)
    before = store.now_ms
    outage(store)
    due_ms = store.now_ms + HALF_MS
    moved = [due_ms if timeout < 10_000 else before + timeout for timeout in (progress_timeout_ms, message_timeout_ms)]
    assert store.root(HALF).due_ms == min(moved)
    assert completed(store) == []


def test_a_root_with_all_that_a_record_may_hold_keeps_it(make: Make) -> None:
    store = make(replace(GRACED, trace=1))
    fields = {"message_id": "m" * 100, "traceparent": f"00-{1:032x}-{2:016x}-01"}
    store.apply([replace(root(HALF), progress_timeout_ms=30_000, **fields)], None)
    store.apply([Ack(root_id=HALF, ack_val=2, outstanding=0, component="split")], None)
    acked_ms = store.now_ms
    outage(store)
    for _ in range(3):
        outage(store, 2_000)
    [done] = store.mailbox()
    assert (done.message_id, done.traceparent) == (fields["message_id"], fields["traceparent"])
    assert (done.last_component, done.last_ack_ms, done.outstanding) == ("split", acked_ms, 1)


def test_a_gap_is_worked_off_by_as_many_ticks_as_it_takes(make: Make) -> None:
    store = make(replace(GRACED, buckets=4_096))
    roots = [HALF + number for number in range(20)]
    store.apply([root(each) for each in roots], None)
    store.advance(10_000)
    while store.ask("acker_tick_v1", store.settings, 5, GRACE_MS)[1]:
        store.advance(100)
    assert completed(store) == []
    store.advance(1_000)
    store.tick()
    assert {store.root(each).due_ms > store.now_ms for each in roots} == {True}


def test_an_outage_while_a_gap_is_worked_off_gives_grace_to_the_roots_of_the_gap_alone(make: Make) -> None:
    store = make(replace(GRACED, buckets=4_096))
    later = QUARTER + 1
    store.apply([root(later, 11_000), *(root(HALF + number) for number in range(20))], None)
    store.advance(10_000)
    store.ask("acker_tick_v1", store.settings, 5, GRACE_MS)
    outage(store, 3_000)
    assert completed(store) == [later]


@pytest.mark.parametrize("apart_ms", [2_001, 3_000, 10_000, 60_000])
def test_roots_time_out_also_where_all_ticks_are_far_apart(make: Make, apart_ms: int) -> None:
    store = make(replace(GRACED, buckets=4_096))
    roots = sorted(number << 40 for number in range(0, 2**24, 2**24 // 50))
    store.apply([root(each, 3_000) for each in roots], None)
    for _ in range(10):
        outage(store, apart_ms)
    assert completed(store) == roots


def test_a_second_outage_is_a_gap_of_its_own(make: Make) -> None:
    store = make()
    store.apply([root(HALF)], None)
    outage(store)
    for _ in range(35):
        store.advance(2_000)
        store.tick()
    assert completed(store) == [HALF]
    store.apply([root(QUARTER)], None)
    outage(store)
    assert store.root(QUARTER).due_ms == store.now_ms + QUARTER_MS
    assert completed(store) == [HALF]


def test_a_root_with_grace_that_is_due_in_an_outage_gets_grace_again_once_the_gap_is_worked_off(make: Make) -> None:
    store = make(replace(GRACED, grace_ms=130_000))
    store.apply([root(HALF)], None)
    outage(store)
    assert store.root(HALF).due_ms == store.now_ms + 65_000
    for _ in range(31):
        store.advance(2_000)
        store.tick()
    outage(store)
    assert store.root(HALF).due_ms == store.now_ms + 65_000


def test_a_gap_is_forgotten_a_minute_after_it_is_worked_off(make: Make) -> None:
    store = make()
    outage(store)
    gap = store.command("GETRANGE", store.base + "ticks", 5, -1)
    for _ in range(30):
        store.advance(2_000)
        store.tick()
    assert store.command("GETRANGE", store.base + "ticks", 5, -1) == gap != bytes(10)
    store.advance(1)
    store.tick()
    assert store.command("GETRANGE", store.base + "ticks", 5, -1) == bytes(10)


def test_a_gap_with_something_due_in_it_is_kept(make: Make) -> None:
    store = make(replace(GRACED, buckets=4_096))
    store.apply([root(HALF + number) for number in range(20)], None)
    store.advance(10_000)
    for _ in range(35):
        store.ask("acker_tick_v1", store.settings, 0, GRACE_MS)
        store.advance(2_000)
    store.tick()
    assert completed(store) == []


def test_an_overfull_bucket_that_is_walked_gets_grace(make: Make) -> None:
    text = library.source().replace("local OVERFULL = 1000", "local OVERFULL = 2")
    store = make(text=text)
    store.apply([root(HALF + number) for number in range(300)], None)
    outage(store)
    assert completed(store) == []
    assert store.root(HALF).due_ms == store.now_ms + HALF_MS


def test_the_longest_grace_is_exact(make: Make) -> None:
    store = make(replace(GRACED, grace_ms=86_400_000))
    last = 2**64 - 1
    store.apply([root(last)], None)
    outage(store)
    assert store.root(last).due_ms == store.now_ms + ((2**24 - 1) * 86_400_000 >> 24)
