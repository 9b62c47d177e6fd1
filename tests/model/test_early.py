"""The number of early roots that each shard keeps: always that of the records, whatever becomes of them."""

from collections.abc import Callable, Iterator

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation
from acker_service.topologies.config import TopologyConfig

from tests.support.driven_store import DrivenStore

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
CONFIGURATION = TopologyConfig(ackers=1, buckets=1, message_timeout_ms=1_000)


@pytest.fixture
def make(driven_url: str) -> Iterator[Callable[..., DrivenStore]]:
    """Makes a store of one shard, whose roots lie in one bucket."""
    stores: list[DrivenStore] = []

    def made(configuration: TopologyConfig = CONFIGURATION, max_early: int = 2) -> DrivenStore:
        stores.append(DrivenStore(driven_url, configuration, window_ms=60_000, max_early=max_early))
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
    kept = store.command("GET", store.base + "early")
    return None if kept is None else int(kept)


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
