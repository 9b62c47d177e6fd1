"""Ages and delays that the metrics show, to the millisecond, on a clock that the test drives."""

from collections.abc import Iterator

import pytest
from acker_protocol.operations import Ack, Init
from acker_service.redis import library
from acker_service.topologies.config import TopologyConfig

from tests.support.driven_store import DrivenStore

TIMEOUT_MS = 30_000
RULES = {"ackers": 1, "message_timeout_ms": TIMEOUT_MS}


@pytest.fixture(params=[4, 4_096], ids=lambda buckets: f"{buckets} buckets")
def driven(driven_url: str, request: pytest.FixtureRequest) -> Iterator[DrivenStore]:
    store = DrivenStore(driven_url, TopologyConfig(**RULES, buckets=request.param), window_ms=600_000)
    yield store
    store.close()


def emit(store: DrivenStore, *roots: int, **fields: int) -> None:
    """Begin trees of one edge."""
    store.apply([Init(root_id=root, spout_task="s", ack_val=1, outstanding=1, **fields) for root in roots], None)


def end(store: DrivenStore, *roots: int) -> None:
    """Ack their edges."""
    store.apply([Ack(root_id=root, ack_val=1, outstanding=-1) for root in roots], None)


def oldest(store: DrivenStore) -> int | None:
    """Return the age of the oldest pending root."""
    now_ms, started_ms, *_ = store.ask("acker_ages_v1")
    return None if started_ms is None else now_ms - started_ms


def delays(store: DrivenStore) -> dict[str, int]:
    flat = store.ask("acker_ages_v1")[2]
    return {name.decode(): int(count) for name, count in zip(flat[::2], flat[1::2], strict=True)}


def release_all(store: DrivenStore) -> None:
    entry = store.command("HGET", f"{store.base}tips", "0")
    store.ask("acker_release_v1", 0, entry, 1_000, 100)


def test_the_oldest_pending_root_is_found_whatever_ends_before_it(driven: DrivenStore) -> None:
    assert oldest(driven) is None
    for root in range(1, 41):
        emit(driven, root)
        driven.advance(100)
    assert oldest(driven) == 4_000
    for root in range(1, 41):
        end(driven, root)
        assert oldest(driven) == ((40 - root) * 100 or None)


def test_a_root_with_a_long_timeout_of_its_own_is_found_behind_those_that_end_sooner(driven: DrivenStore) -> None:
    emit(driven, 1, message_timeout_ms=3_600_000)
    driven.advance(1_000)
    emit(driven, *range(2, 100))
    assert oldest(driven) == 1_000


def test_a_root_with_a_progress_timeout_and_an_early_one(driven: DrivenStore) -> None:
    driven.apply([Ack(root_id=9, ack_val=1, outstanding=1)], None)
    driven.advance(50)
    emit(driven, 1, progress_timeout_ms=500)
    driven.advance(200)
    assert oldest(driven) == 200


def test_searches_get_past_buckets_whose_roots_have_ended(driven_url: str) -> None:
    """Each search reads a few buckets and corrects their scores, so that the next one reads others."""
    text = library.source().replace("local BUDGET, PAGE = 4000, 128", "local BUDGET, PAGE = 40, 16")
    store = DrivenStore(driven_url, TopologyConfig(**RULES, buckets=256), window_ms=600_000, text=text)
    emit(store, *range(2, 2_000))
    store.advance(1_000)
    end(store, *range(2, 2_000))
    hidden = next(root for root in range(10_000, 10_010) if is_hidden(store, root))
    assert any(oldest(store) == 0 for _ in range(100))
    end(store, hidden)
    store.close()


def is_hidden(store: DrivenStore, root: int) -> bool:
    """Begin a root, and end it if the next search finds it."""
    emit(store, root)
    found = oldest(store) is not None
    if found:
        end(store, root)
    return not found


def test_a_bucket_that_searches_keep_out_of_the_ticks_way_lives_as_long_as_its_roots(driven_url: str) -> None:
    store = DrivenStore(driven_url, TopologyConfig(**RULES, buckets=1), window_ms=600_000)
    for day in range(1, 40):
        emit(store, day, message_timeout_ms=600_000_000)
        end(store, day - 1)
        assert oldest(store) == 0
        store.tick()
        store.advance(86_400_000)
    assert oldest(store) == 86_400_000
    store.advance(600_000_000)
    store.tick()
    assert store.counts()[2]["timed_out"] == 1
    store.close()


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast path", "state machine"])
def test_how_late_a_root_timed_out_is_counted(driven_url: str, *, is_fast: bool) -> None:
    on = "local FAST_PATH = true"
    text = library.source() if is_fast else library.source().replace(on, "local FAST_PATH = false")
    store = DrivenStore(driven_url, TopologyConfig(**RULES), window_ms=600_000, text=text)
    emit(store, 1, 2)
    emit(store, 3, message_timeout_ms=TIMEOUT_MS + 100)
    emit(store, 4, progress_timeout_ms=1_000)
    store.advance(1_003)
    store.tick()
    assert delays(store) == {"late:2": 1, "late_ms": 3}
    store.advance(TIMEOUT_MS - 1_003 + 600)
    store.tick()
    assert delays(store) == {"late:2": 1, "late:10": 2, "late:9": 1, "late_ms": 3 + 600 + 600 + 500}
    store.close()


def test_what_is_acked_or_dropped_is_not_late(driven: DrivenStore) -> None:
    emit(driven, 1)
    end(driven, 1)
    driven.apply([Ack(root_id=9, ack_val=1, outstanding=1)], None)
    driven.advance(10 * TIMEOUT_MS)
    driven.tick()
    assert delays(driven) == {}


def test_the_time_from_the_end_to_the_release_is_counted_once_for_each_completion(driven: DrivenStore) -> None:
    emit(driven, 1, 2, 3)
    end(driven, 1, 2)
    driven.advance(1_000)
    end(driven, 3)
    driven.advance(24)
    assert delays(driven) == {}
    release_all(driven)
    assert delays(driven) == {"release:10": 2, "release:5": 1, "release_ms": 2 * 1_024 + 24}
    release_all(driven)
    assert delays(driven)["release_ms"] == 2 * 1_024 + 24


def test_a_part_of_an_entry_is_counted_when_it_is_released(driven: DrivenStore) -> None:
    emit(driven, 1, 2, 3)
    end(driven, 1, 2, 3)
    entry = driven.command("HGET", f"{driven.base}tips", "0")
    driven.advance(4)
    driven.ask("acker_release_v1", 0, entry, 1, 100)
    driven.advance(4)
    driven.ask("acker_release_v1", 0, entry, 3, 100)
    assert delays(driven) == {"release:2": 1, "release:3": 2, "release_ms": 4 + 16}


def test_what_a_webhook_takes_is_counted_as_released_and_what_it_refuses_is_not(driven: DrivenStore) -> None:
    emit(driven, 1, 2)
    end(driven, 1, 2)
    entry = driven.command("HGET", f"{driven.base}tips", "0")
    driven.advance(8)
    driven.ask("acker_settle_v2", 0, 0, "0", "refused", entry, "retry", driven.now_ms, 1, b"")
    assert delays(driven) == {}
    driven.ask("acker_settle_v2", 0, 0, "1", "", entry, "retry", driven.now_ms, 2, bytes([0, 0, 0, 1]))
    assert delays(driven) == {"release:3": 1, "release_ms": 8}
    driven.advance(8)
    rest = driven.command("HGET", f"{driven.base}tips", "0")
    driven.ask("acker_settle_v2", 0, 0, "1", "", rest, "done", driven.now_ms, 2, b"")
    assert delays(driven) == {"release:3": 1, "release:4": 1, "release_ms": 24}
