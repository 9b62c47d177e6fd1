"""The tick removes expired outcomes by sweeps of all buckets, once as many have expired as the shard has to keep."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from acker_protocol.operations import Init
from acker_service.redis import library
from acker_service.redis.functions.roots import RootState
from acker_service.topologies.config import TopologyConfig

from tests.support.driven_store import START_MS, DrivenStore

RETENTION_MS = 4_000
WEEK_MS = 7 * 86_400_000
SWEEP = b"\xff\xff\xff\xff"
CONFIGURATION = TopologyConfig(ackers=1, buckets=4_096, retention_ms=RETENTION_MS, message_timeout_ms=WEEK_MS)
BY_SINGLE_VALUES = library.source().replace("local STEP_RECORDS = 8000", "local STEP_RECORDS = 2")


def make(url: str, text: str | None = None) -> DrivenStore:
    """A store whose clock stands at the beginning of a slice."""
    store = DrivenStore(url, CONFIGURATION, window_ms=10_000, text=text)
    store.advance(-START_MS % RETENTION_MS)
    return store


@pytest.fixture
def store(driven_url: str) -> Iterator[DrivenStore]:
    """A store of many buckets, with long timeouts: no deadline brings the tick to a bucket."""
    store = make(driven_url)
    yield store
    store.close()


def emit(store: DrivenStore, roots: Iterable[int]) -> None:
    store.apply([Init(root_id=root, spout_task="s", ack_val=1, outstanding=1) for root in roots], None)


def end(store: DrivenStore, roots: Iterable[int]) -> None:
    """Emit roots and end them in a later call, as acks do; each has a latency, which is counted too."""
    emit(store, roots)
    store.advance(1)
    for root in roots:
        store.ask("acker_force_fail_v1", store.settings, root % 4_096, root.to_bytes(8, "big"), "over")


def kept(store: DrivenStore, roots: Iterable[int]) -> set[int]:
    """The roots of which a bucket has a record or an outcome."""
    found = set()
    for root in roots:
        name = (store.base.encode() + b"r" + (root % 4_096).to_bytes(4, "big")).decode(errors="surrogateescape")
        if int(store.command("HEXISTS", name, root.to_bytes(8, "big"))):
            found.add(root)
    return found


def next_look_ms(store: DrivenStore) -> int | None:
    """How long from now it is decided whether to sweep; None if there is nothing to sweep."""
    score = store.command("ZSCORE", store.base + "due", SWEEP)
    return None if score is None else int(score) - store.now_ms


def swept(store: DrivenStore, field: str) -> int | None:
    found = store.command("HGET", store.base + "sweep", field)
    return None if found is None else int(found)


def test_expired_outcomes_are_removed_once_they_are_as_many_as_what_is_kept(store: DrivenStore) -> None:
    emit(store, range(1, 6))
    end(store, range(11, 15))
    store.advance(2 * RETENTION_MS)
    store.tick()
    assert kept(store, range(1, 20)) == {*range(1, 6), *range(11, 15)}
    assert store.root(11).state is RootState.UNKNOWN
    end(store, [15])
    store.advance(2 * RETENTION_MS)
    store.tick()
    assert kept(store, range(1, 20)) == {*range(1, 6)}
    assert next_look_ms(store) is None


def test_outcomes_that_have_to_be_kept_count_like_roots(store: DrivenStore) -> None:
    end(store, range(1, 5))
    store.advance(RETENTION_MS)
    end(store, range(11, 16))
    store.advance(RETENTION_MS)
    store.tick()
    assert kept(store, range(1, 20)) == {*range(1, 5), *range(11, 16)}
    store.advance(RETENTION_MS)
    store.tick()
    assert kept(store, range(1, 20)) == set()


def test_it_is_looked_again_as_long_as_expired_outcomes_are_left(store: DrivenStore) -> None:
    emit(store, range(1, 6))
    end(store, range(11, 15))
    store.advance(2 * RETENTION_MS)
    store.tick()
    assert next_look_ms(store) == RETENTION_MS
    store.ask("acker_force_fail_v1", store.settings, 1, (1).to_bytes(8, "big"), "over")
    store.advance(2 * RETENTION_MS + 1)
    store.tick()
    assert kept(store, range(1, 20)) == {*range(2, 6)}


def test_a_sweep_of_many_buckets_takes_several_calls_and_moves_no_deadline(store: DrivenStore) -> None:
    emit(store, range(1, 301))
    end(store, range(301, 801))
    store.advance(2 * RETENTION_MS)
    scores = store.command("ZRANGE", store.base + "due", 0, -1, "WITHSCORES")
    steps = 0
    while store.ask("acker_tick_v1", store.settings, 2_000, 0) == [0, 1]:
        steps += 1
    assert steps > 3
    assert kept(store, range(1, 1_000)) == {*range(1, 301)}
    left = dict(store.command("ZRANGE", store.base + "due", 0, -1, "WITHSCORES"))
    assert left.items() <= dict(scores).items()
    assert len(left) == 300
    assert swept(store, "removed") == 500


def test_a_sweep_that_nobody_goes_on_with_begins_anew(store: DrivenStore) -> None:
    emit(store, range(1, 301))
    end(store, range(301, 801))
    store.advance(2 * RETENTION_MS)
    store.ask("acker_tick_v1", store.settings, 2_000, 0)
    began = swept(store, "began")
    store.advance(5_000)
    store.ask("acker_tick_v1", store.settings, 2_000, 0)
    assert swept(store, "began") == began
    store.advance(5_001)
    store.ask("acker_tick_v1", store.settings, 2_000, 0)
    assert swept(store, "began") == store.now_ms
    store.tick()
    assert kept(store, range(1, 1_000)) == {*range(1, 301)}
    assert swept(store, "began") is None


def test_a_step_leaves_buckets_beyond_its_bound_to_the_tick(driven_url: str) -> None:
    store = make(driven_url, BY_SINGLE_VALUES)
    emit(store, range(1, 11))
    end(store, range(4_097, 4_117))
    store.advance(2 * RETENTION_MS)
    store.ask("acker_tick_v1", store.settings, 2_000, 0)
    assert len(kept(store, range(4_097, 4_117))) == 19
    store.advance(1)
    store.tick()
    assert kept(store, range(1, 5_000)) == {*range(1, 11)}
    store.close()


def test_a_slice_number_that_is_needed_again_makes_a_sweep_come_early(store: DrivenStore) -> None:
    """Few roots end, many are pending: only the 42 numbers of slices ask for a sweep."""
    emit(store, range(1, 201))
    for root in range(1_000, 1_090):
        end(store, [root])
        store.advance(RETENTION_MS)
        store.tick()
    assert len(kept(store, range(1_000, 1_090))) <= 50
    assert [store.root(root).state.value for root in range(1_086, 1_090)] == ["N", "N", "N", "F"]


def test_what_the_tick_removes_for_a_deadline_calls_for_no_sweep(store: DrivenStore) -> None:
    store.apply([Init(root_id=root, spout_task="s", ack_val=1, message_timeout_ms=100) for root in range(1, 4)], None)
    emit(store, [10])
    store.advance(101)
    store.tick()
    store.advance(2 * RETENTION_MS)
    store.tick()
    assert kept(store, range(1, 11)) == {10}
    assert (swept(store, "removed"), swept(store, "until"), next_look_ms(store)) == (3, None, None)


def test_a_bucket_of_outcomes_is_removed_with_the_last_of_them(store: DrivenStore) -> None:
    """The tick comes for the deadlines, and scores the bucket by the last expiry: then Redis removes it as one key."""
    timeouts = {1: 100, 4_097: RETENTION_MS + 100}
    inits = [Init(root_id=root, spout_task="s", ack_val=1, message_timeout_ms=ms) for root, ms in timeouts.items()]
    store.apply(inits, None)
    for ms in (101, RETENTION_MS):
        store.advance(ms)
        store.tick()
    last = store.command("ZSCORE", store.base + "due", b"\0\0\0\1")
    assert int(last) - store.now_ms == 2 * RETENTION_MS - 1 - 101


def test_a_sweep_leaves_outcomes_that_have_not_expired(store: DrivenStore) -> None:
    end(store, range(1, 9))
    store.advance(RETENTION_MS)
    end(store, [10, 4_097])
    store.advance(RETENTION_MS)
    store.tick()
    assert kept(store, range(1, 5_000)) == {10, 4_097}


def test_an_overfull_bucket_is_left_to_be_scanned_in_parts(driven_url: str) -> None:
    """One bucket has all roots: the sweep reads none of it, and the tick removes its outcomes part by part."""
    store = DrivenStore(driven_url, replace(CONFIGURATION, buckets=1), window_ms=10_000)
    emit(store, range(1, 1_001))
    inits = [Init(root_id=root, spout_task="s", ack_val=0, outstanding=0) for root in range(2_000, 4_000)]
    store.apply(inits, None)
    store.advance(2 * RETENTION_MS)
    size = int(store.command("HLEN", store.base + "r\0\0\0\0"))
    assert store.ask("acker_tick_v1", store.settings, 2_000, 0)[2:] == [b"0"]
    assert int(store.command("HLEN", store.base + "r\0\0\0\0")) == size == 3_000
    cursor, sizes = b"0", [size]
    while len(sizes) == 1 or cursor != b"0":
        _, cursor, _ = store.ask("acker_walk_v1", store.settings, 0, cursor, "", 0)
        sizes.append(int(store.command("HLEN", store.base + "r\0\0\0\0")))
    assert sizes[-1] == 1_000
    assert len(sizes) > 3
    assert all(before - after <= 1_500 for before, after in pairwise(sizes))
    store.close()


def test_a_topology_with_a_huge_bucket_is_failed_part_by_part(driven_url: str) -> None:
    store = DrivenStore(driven_url, replace(CONFIGURATION, buckets=1), window_ms=10_000)
    emit(store, range(1, 4_001))
    sizes, more = [4_000], 1
    while more:
        [more] = store.ask("acker_fail_all_v1", store.settings, 1)
        sizes.append(int(store.counts()[0]["s"]))
    assert sizes[-1] == 0
    assert len(sizes) > 4
    assert all(before - after <= 1_500 for before, after in pairwise(sizes))
    assert len(store.mailbox()) == 4_000
    store.close()
