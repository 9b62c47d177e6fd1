"""What is remembered lies in two slices of time: each is kept to the end of the window after its own."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from acker_protocol.operations import Ack, Init, OperationState
from acker_service.redis.functions import RootState
from acker_service.topologies.config import TopologyConfig

from tests.support.driven_store import START_MS, DrivenStore

WINDOW_MS = 10_000
RETENTION_MS = 4_000
CONFIGURATION = TopologyConfig(ackers=1, buckets=1, retention_ms=RETENTION_MS)


@pytest.fixture
def store(driven_url: str) -> Iterator[DrivenStore]:
    """A store whose clock stands at the beginning of an even slice."""
    store = DrivenStore(driven_url, CONFIGURATION, window_ms=WINDOW_MS)
    store.advance(-START_MS % (2 * RETENTION_MS * WINDOW_MS))
    yield store
    store.close()


def end(store: DrivenStore, root_id: int, *, key: str | None = None) -> bool:
    """End a root at once; says whether the request was a repeat."""
    answers, repeated = store.apply([Init(root_id=root_id, spout_task="s", ack_val=0, outstanding=0)], key)
    assert len(answers) == 1
    return repeated


def expiry(store: DrivenStore, name: str) -> int:
    """When a slice goes, counted from the beginning of the present one."""
    return int(store.command("PEXPIRETIME", store.base + name)) - store.now_ms


def test_an_outcome_is_remembered_to_the_end_of_the_next_slice(store: DrivenStore) -> None:
    end(store, 1)
    assert expiry(store, "f0:0") == 2 * RETENTION_MS - 1
    store.advance(2 * RETENTION_MS - 1)
    assert store.root(1).state is RootState.FINISHED
    store.advance(1)
    assert store.root(1).state is RootState.UNKNOWN


def test_an_outcome_is_forgotten_though_others_follow(store: DrivenStore) -> None:
    for root in range(1, 6):
        end(store, root)
        store.advance(RETENTION_MS)
    assert [store.root(root).state.value for root in range(1, 6)] == ["N", "N", "N", "N", "F"]


@pytest.mark.parametrize("slices", [0, 1])
def test_a_repeat_is_known_for_a_window_whenever_it_came(store: DrivenStore, slices: int) -> None:
    store.advance(slices * WINDOW_MS)
    assert not end(store, 1, key="k")
    store.advance(WINDOW_MS)
    assert end(store, 1, key="k")


def test_a_request_is_forgotten_though_others_follow(store: DrivenStore) -> None:
    """So many of them that every set of remembered requests gets some in every slice."""
    for window in range(4):
        for root in range(1, 65):
            end(store, 64 * window + root, key=f"{window} {root}")
        store.advance(WINDOW_MS)
    assert not end(store, 1, key="0 1")
    assert end(store, 256, key="3 64")


def retention(store: DrivenStore, retention_ms: int) -> None:
    store.configure(replace(CONFIGURATION, retention_ms=retention_ms))


def test_a_slice_keeps_the_later_end_that_a_longer_window_gave_it(store: DrivenStore) -> None:
    retention(store, 10 * RETENTION_MS)
    end(store, 1)
    later = expiry(store, "f0:0")
    retention(store, RETENTION_MS)
    end(store, 2)
    assert expiry(store, "f0:0") == later > 2 * RETENTION_MS


def test_a_slice_gets_the_later_end_of_a_longer_window(store: DrivenStore) -> None:
    end(store, 1)
    retention(store, 10 * RETENTION_MS)
    end(store, 2)
    assert expiry(store, "f0:0") == 20 * RETENTION_MS - 1


def test_an_acked_edge_is_forgotten_though_others_follow(store: DrivenStore) -> None:
    """So many of them that every set of acked edges gets some in every slice."""
    store.configure(replace(CONFIGURATION, dedupe_window_ms=30_000))
    for window in range(4):
        store.apply([Ack(root_id=1, ack_val=2, edge_id=64 * window + n) for n in range(1, 65)], None)
        store.advance(30_000)
    again = [Ack(root_id=1, ack_val=2, edge_id=edge) for edge in (1, 2, 3, 4, 256)]
    states = [state for state, _ in store.apply(again, None)[0]]
    assert states == [OperationState.EARLY] * 4 + [OperationState.DUPLICATE]
