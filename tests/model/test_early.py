"""The number of early roots that each shard keeps, and what they take: always that of their records."""

from collections.abc import Callable, Iterator

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation
from acker_service.topologies.config import TopologyConfig

from tests.support.driven_store import DrivenStore
from tests.support.model_acker import EARLY_BYTES, EDGE_BYTES, FAILURE_BYTES

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
CONFIGURATION = TopologyConfig(ackers=1, buckets=1, message_timeout_ms=1_000)
DEDUPES = TopologyConfig(ackers=1, buckets=1, message_timeout_ms=1_000, dedupe_window_ms=60_000)
UNBOUNDED = 1 << 40
SNOW = "\N{SNOWMAN}a"


@pytest.fixture
def make(driven_url: str) -> Iterator[Callable[..., DrivenStore]]:
    """Makes a store of one shard, whose roots lie in one bucket."""
    stores: list[DrivenStore] = []

    def made(
        configuration: TopologyConfig = CONFIGURATION, max_early: int = 2, early_max_bytes: int = UNBOUNDED
    ) -> DrivenStore:
        bounds = {"max_early": max_early, "early_max_bytes": early_max_bytes}
        stores.append(DrivenStore(driven_url, configuration, window_ms=60_000, **bounds))
        return stores[-1]

    yield made
    for store in stores:
        store.close()


@pytest.fixture
def store(make: Callable[..., DrivenStore]) -> DrivenStore:
    return make()


def ack(root_id: int, edge: int = 1) -> Ack:
    return Ack(root_id=root_id, ack_val=edge)


def init(root_id: int) -> Init:
    return Init(root_id=root_id, spout_task="s", ack_val=1)


def words(store: DrivenStore, *operations: Operation) -> list[str]:
    return [state.value for state, _ in store.apply(operations, None)[0]]


def number(store: DrivenStore) -> int | None:
    """The number that the shard keeps; None: no key."""
    return kept(store)[0]


def kept(store: DrivenStore) -> tuple[int | None, int]:
    """The number that the shard keeps and what they take; None: no key."""
    written = store.command("GET", store.base + "early")
    return (None, 0) if written is None else tuple(map(int, written.split()))


def edges(root_id: int, numbers: range) -> list[Operation]:
    """Acks of so many edges of a root."""
    return [Ack(root_id=root_id, ack_val=number, edge_id=number) for number in numbers]


def told(store: DrivenStore) -> dict[int, tuple[str | None, str | None]]:
    """The reason and the component of each completion, by its root."""
    return {done.root_id: (done.reason, done.component) for done in store.mailbox()}


def test_a_shard_without_early_roots_keeps_no_number(store: DrivenStore) -> None:
    words(store, init(1), ack(2), Fail(root_id=3))
    assert number(store) == 2
    words(store, init(2), init(3))
    assert number(store) is None


def test_early_roots_that_end_in_the_call_in_which_they_began_are_not_counted(store: DrivenStore) -> None:
    assert words(store, ack(1), init(1), Fail(root_id=2), init(2)) == ["early", "acked", "early", "failed"]
    assert number(store) is None


def test_a_root_that_begins_in_the_same_call_beside_an_early_one_is_counted(store: DrivenStore) -> None:
    words(store, ack(1))
    assert words(store, ack(1, 2), ack(2)) == ["early", "early"]
    assert number(store) == 2


def test_early_roots_that_are_dropped_are_counted_no_more(store: DrivenStore) -> None:
    words(store, ack(1), ack(2))
    store.advance(1_001)
    store.tick()
    assert number(store) is None


def test_an_overfull_bucket_drops_its_early_roots_and_counts_them_no_more(make: Callable[..., DrivenStore]) -> None:
    store = make(max_early=3_000)
    assert set(words(store, *map(ack, range(1, 3_002)))) == {"early", "store_full"}
    assert number(store) == 3_000
    store.advance(1_001)
    store.tick()
    assert number(store) is None


def test_a_topology_that_is_deleted_by_force_counts_its_early_roots_no_more(store: DrivenStore) -> None:
    words(store, ack(1), init(2), ack(3))
    assert number(store) == 2
    store.ask("acker_fail_all_v1", store.settings, 2_000)
    assert number(store) is None


def test_a_fail_by_hand_of_an_early_root_leaves_it_counted(store: DrivenStore) -> None:
    words(store, ack(1))
    assert store.ask("acker_force_fail_v1", store.settings, 0, (1).to_bytes(8, "big"), "by hand") == [b"e"]
    assert number(store) == 1


def test_the_number_outlives_the_last_early_root_and_the_bucket_that_holds_it(make: Callable[..., DrivenStore]) -> None:
    store = make(TopologyConfig(ackers=1, buckets=1, message_timeout_ms=WEEK_MS, retention_ms=DAY_MS))
    words(store, ack(1), Init(root_id=2, spout_task="s", ack_val=1, message_timeout_ms=1_000))
    store.advance(WEEK_MS)
    store.tick()
    ends = [int(store.command("PEXPIRETIME", store.base + name)) for name in ("r\0\0\0\0", "early")]
    assert ends == [store.now_ms + 3 * WEEK_MS] * 2


def test_a_number_that_is_wrong_never_goes_below_none(store: DrivenStore) -> None:
    words(store, ack(1), ack(2))
    store.command("DEL", store.base + "early")
    words(store, init(1))
    assert number(store) is None
    words(store, ack(3))
    assert number(store) == 1
    words(store, init(2))
    assert number(store) is None


def test_an_early_root_takes_a_record_its_edges_and_its_failure_until_its_init_comes(
    make: Callable[..., DrivenStore],
) -> None:
    store = make(DEDUPES)
    words(store, ack(1), *edges(2, range(1, 4)))
    assert kept(store) == (2, 2 * EARLY_BYTES + 3 * EDGE_BYTES)
    assert words(store, *edges(2, range(3, 5))) == ["duplicate", "early"]
    assert kept(store) == (2, 2 * EARLY_BYTES + 4 * EDGE_BYTES)
    words(store, Fail(root_id=1, reason="r" * 100), Fail(root_id=1, reason="r" * 1_000), Fail(root_id=2))
    assert kept(store) == (2, 2 * EARLY_BYTES + 4 * EDGE_BYTES + FAILURE_BYTES + 103 * 5 // 4)
    words(store, init(2))
    assert kept(store) == (1, EARLY_BYTES + FAILURE_BYTES + 103 * 5 // 4)
    words(store, init(1))
    assert kept(store) == (None, 0)


def test_a_failure_that_replaces_one_which_does_not_count_is_counted_in_its_place(
    make: Callable[..., DrivenStore],
) -> None:
    """In a later request, and without texts."""
    store = make(DEDUPES)
    ends = Fail(root_id=1, ack_val=1, edge_id=1, reason="r" * 100)
    assert words(store, *edges(1, range(1, 2)), ends) == ["early", "early"]
    assert kept(store) == (1, EARLY_BYTES + EDGE_BYTES + FAILURE_BYTES + 103 * 5 // 4)
    assert words(store, Fail(root_id=1, ack_val=2, edge_id=2, reason="s" * 20)) == ["early"]
    assert kept(store) == (1, EARLY_BYTES + 2 * EDGE_BYTES + FAILURE_BYTES + 23 * 5 // 4)
    words(store, ack(2), Fail(root_id=2, ack_val=5, edge_id=5, reason="r"), init(2), init(1))
    assert kept(store) == (None, 0)


def test_a_root_that_takes_more_than_its_record_holds_in_two_bytes_gives_all_of_it_back(
    make: Callable[..., DrivenStore],
) -> None:
    store = make(DEDUPES)
    words(store, ack(1), *edges(2, range(1, 400)))
    assert kept(store) == (2, 2 * EARLY_BYTES + 399 * EDGE_BYTES)
    words(store, init(2))
    assert kept(store) == (1, EARLY_BYTES)
    assert store.root(2).spout_task == "s"


def test_a_root_that_is_dropped_gives_back_what_it_took(store: DrivenStore) -> None:
    words(store, Fail(root_id=1, reason="r" * 100))
    store.advance(600)
    words(store, ack(2))
    store.advance(600)
    store.tick()
    assert kept(store) == (1, EARLY_BYTES)


def test_the_trace_of_an_early_root_is_part_of_what_it_takes(store: DrivenStore) -> None:
    marked = 1 << 16
    words(store, ack(1), ack(marked), Fail(root_id=marked, reason="r" * 1_000))
    of_traces = int(store.command("HGET", store.base + "traced", ""))
    assert of_traces > 2_000
    assert kept(store) == (2, 2 * EARLY_BYTES + of_traces + FAILURE_BYTES + 1_003 * 5 // 4)
    words(store, init(marked))
    assert kept(store) == (1, EARLY_BYTES)


def test_what_they_take_is_bounded_and_what_is_stored_goes_on(make: Callable[..., DrivenStore]) -> None:
    store = make(max_early=100, early_max_bytes=3 * EARLY_BYTES)
    assert words(store, *map(ack, range(1, 5))) == ["early", "early", "early", "store_full"]
    assert words(store, Fail(root_id=5), Fail(root_id=1, reason="broken"), ack(2, 2)) == [
        "store_full",
        "early",
        "early",
    ]
    assert words(store, init(3), init(2)) == ["acked", "pending"]
    assert words(store, init(1), ack(4), ack(5)) == ["failed", "early", "early"]


def test_an_early_root_takes_no_further_edge_beyond_the_bound(make: Callable[..., DrivenStore]) -> None:
    store = make(DEDUPES, max_early=100, early_max_bytes=EARLY_BYTES + 4 * EDGE_BYTES)
    assert words(store, *edges(1, range(1, 4))) == ["early"] * 3
    assert words(store, *edges(1, range(3, 7))) == ["duplicate", "early", "store_full", "store_full"]
    assert words(store, *edges(1, range(4, 6))) == ["duplicate", "store_full"]
    assert kept(store) == (1, EARLY_BYTES + 4 * EDGE_BYTES)
    assert words(store, ack(1, 64), ack(1, 64), Fail(root_id=1), Ack(root_id=1, ack_val=0, edge_id=5)) == ["early"] * 4
    assert kept(store) == (1, EARLY_BYTES + 4 * EDGE_BYTES)


def test_an_edge_that_an_early_root_refused_counts_after_the_init(make: Callable[..., DrivenStore]) -> None:
    store = make(DEDUPES, max_early=100, early_max_bytes=EARLY_BYTES + EDGE_BYTES)
    assert words(store, *edges(1, range(1, 3))) == ["early", "store_full"]
    assert words(store, Init(root_id=1, spout_task="s", ack_val=1 ^ 2), *edges(1, range(1, 3))) == [
        "pending",
        "duplicate",
        "acked",
    ]


def test_all_early_roots_together_take_no_further_edge_beyond_the_bound(make: Callable[..., DrivenStore]) -> None:
    store = make(DEDUPES, max_early=100, early_max_bytes=2 * EARLY_BYTES + 2 * EDGE_BYTES)
    assert words(store, *edges(1, range(1, 2))) == ["early"]
    assert words(store, *edges(2, range(1, 3))) == ["early", "store_full"]
    assert words(store, *edges(1, range(1, 3))) == ["duplicate", "store_full"]
    assert words(store, init(1), *edges(2, range(2, 3))) == ["acked", "early"]


def test_a_pending_root_takes_edges_whatever_early_roots_take(make: Callable[..., DrivenStore]) -> None:
    """On the fast path and, with a progress timeout, without it."""
    store = make(DEDUPES, max_early=100, early_max_bytes=EARLY_BYTES)
    slow = Init(root_id=2, spout_task="s", ack_val=1 << 9, progress_timeout_ms=500)
    words(store, ack(1), slow, Init(root_id=3, spout_task="s", ack_val=1 << 9))
    for root in (2, 3):
        assert words(store, *edges(root, range(4, 7)), *edges(root, range(4, 7))) == ["pending"] * 3 + ["duplicate"] * 3


MARKED = 1 << 16
"""A root that is traced from its first ack on."""


def has_trace(store: DrivenStore, name: str) -> bool:
    return bool(store.command("EXISTS", store.base + name + MARKED.to_bytes(8, "big").decode()))


def test_the_trace_of_an_early_root_ends_at_the_bound(make: Callable[..., DrivenStore]) -> None:
    most = 3_000
    store = make(max_early=100, early_max_bytes=most)
    for number in range(1, 301):
        assert words(store, ack(MARKED, number)) == ["early"]
    assert most <= kept(store)[1] <= most + 512
    assert has_trace(store, "cut:")
    words(store, init(MARKED))
    assert kept(store) == (None, 0)


def test_the_trace_of_a_root_that_begins_is_kept(make: Callable[..., DrivenStore]) -> None:
    store = make(max_early=100, early_max_bytes=EARLY_BYTES)
    words(store, ack(MARKED))
    assert has_trace(store, "trace:")


def test_the_trace_of_a_root_whose_init_comes_goes_on(make: Callable[..., DrivenStore]) -> None:
    store = make(max_early=100, early_max_bytes=EARLY_BYTES)
    words(store, ack(MARKED))
    words(store, Init(root_id=MARKED, spout_task="s", ack_val=2, trace=True))
    assert has_trace(store, "trace:")


def test_a_reason_is_cut_between_two_characters_above_half_of_what_they_may_take(
    make: Callable[..., DrivenStore],
) -> None:
    store = make(max_early=100, early_max_bytes=8 * EARLY_BYTES)
    words(store, *map(ack, range(1, 5)))
    words(store, Fail(root_id=1, reason=SNOW * 50, component="bolt"))
    words(store, Fail(root_id=2, reason=SNOW * 50, component="bolt"), Fail(root_id=3, reason="a" * 64), init(8))
    assert words(store, Fail(root_id=8, reason=SNOW * 50)) == ["failed"]
    words(store, *map(init, range(1, 4)))
    assert told(store) == {
        1: (SNOW * 50, "bolt"),
        2: (SNOW * 32, "bolt"),
        3: ("a" * 64, None),
        8: (SNOW * 50, None),
    }


def test_long_texts_take_no_more_than_three_quarters_of_what_redis_may_use(make: Callable[..., DrivenStore]) -> None:
    """There is room for fifty of a hundred reasons, each counted for a mailbox and for the list of failures."""
    store = make()
    words(store, *map(init, range(1, 101)))
    used = store.command("INFO", "memory")["used_memory"]
    store.command("CONFIG", "SET", "maxmemory", (used + 50 * 2 * 1_000) * 4 // 3)
    store.advance(1_000)
    try:
        for number in range(1, 101):
            words(store, Fail(root_id=number, reason="r" * 1_000))
    finally:
        store.command("CONFIG", "SET", "maxmemory", 0)
    assert {len(reason or "") for reason, _ in told(store).values()} == {1_000, 64}


def test_what_comes_with_the_same_request_counts(make: Callable[..., DrivenStore]) -> None:
    store = make(DEDUPES, max_early=100, early_max_bytes=8 * EARLY_BYTES)
    words(store, *edges(1, range(1, 8)), Fail(root_id=1, reason="r" * 100))
    words(store, init(1))
    assert told(store) == {1: ("r" * 64, None)}


def test_a_root_that_is_stored_counts_once(make: Callable[..., DrivenStore]) -> None:
    store = make(DEDUPES, max_early=100, early_max_bytes=8 * EARLY_BYTES)
    words(store, *edges(1, range(1, 4)))
    words(store, Fail(root_id=1, reason="r" * 100))
    words(store, init(1))
    assert told(store) == {1: ("r" * 100, None)}


def test_fails_of_stored_roots_add_a_quarter_and_no_more(make: Callable[..., DrivenStore]) -> None:
    store = make(max_early=100, early_max_bytes=20 * EARLY_BYTES)
    words(store, *map(ack, range(1, 21)))
    assert set(words(store, *(Fail(root_id=root, reason="r" * 100, component="bolt") for root in range(1, 21)))) == {
        "early"
    }
    _, taken = kept(store)
    assert 25 * EARLY_BYTES < taken <= 25 * EARLY_BYTES + FAILURE_BYTES + 100
    words(store, *map(init, range(1, 21)))
    reasons = list(told(store).values())
    assert reasons.count(("r" * 64, "bolt")) == 5
    assert reasons.count((None, None)) == 15
    assert kept(store) == (None, 0)


def test_a_fail_by_hand_keeps_its_reason_whatever_early_roots_take(make: Callable[..., DrivenStore]) -> None:
    store = make(early_max_bytes=1)
    words(store, ack(1))
    store.ask("acker_force_fail_v1", store.settings, 0, (1).to_bytes(8, "big"), "by hand" * 20)
    words(store, init(1))
    assert told(store) == {1: ("by hand" * 20, None)}


def test_a_number_without_what_they_take_is_read_as_nothing_and_never_goes_below_it(store: DrivenStore) -> None:
    words(store, ack(1), ack(2))
    store.command("SET", store.base + "early", "2")
    words(store, init(1))
    assert kept(store) == (1, 0)
