"""What is remembered lies in two slices of time: each is kept to the end of the window after its own."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from acker_protocol.operations import Ack, Init, Operation, OperationState
from acker_service.redis import codec
from acker_service.redis.functions.apply import ApplyLimits, FreeSlots, encode_free_slots
from acker_service.redis.functions.roots import RootState
from acker_service.topologies.config import TopologyConfig, merge

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


def is_remembered_for(store: DrivenStore, root_id: int, ms: int) -> bool:
    """Whether an outcome is remembered for so long from now, and no longer; lets that time pass."""
    store.advance(ms)
    is_remembered = store.root(root_id).state is RootState.FINISHED
    store.advance(1)
    return is_remembered and store.root(root_id).state is RootState.UNKNOWN


def next_scan_ms(store: DrivenStore) -> int | None:
    """How long from now the bucket of all roots is scanned; None if it is not."""
    score = store.command("ZSCORE", store.base + "due", bytes(4))
    return None if score is None else int(score) - store.now_ms


def entries(store: DrivenStore) -> int:
    """The number of records and outcomes in the bucket of all roots."""
    return int(store.command("HLEN", store.base + "r\0\0\0\0"))


def test_an_outcome_is_remembered_to_the_end_of_the_next_slice(store: DrivenStore) -> None:
    end(store, 1)
    assert next_scan_ms(store) == 2 * RETENTION_MS - 1
    store.advance(2 * RETENTION_MS - 1)
    assert store.root(1).state is RootState.FINISHED
    store.advance(1)
    assert store.root(1).state is RootState.UNKNOWN


def test_the_tick_removes_outcomes_that_have_expired_and_no_others(store: DrivenStore) -> None:
    end(store, 1)
    store.advance(RETENTION_MS)
    end(store, 2)
    store.advance(RETENTION_MS - 1)
    store.tick()
    assert (entries(store), next_scan_ms(store)) == (2, 0)
    store.advance(1)
    store.tick()
    assert (entries(store), next_scan_ms(store)) == (1, RETENTION_MS - 1)
    store.advance(RETENTION_MS)
    store.tick()
    assert (entries(store), next_scan_ms(store)) == (0, None)


def test_the_tick_removes_the_outcomes_of_an_overfull_bucket(store: DrivenStore) -> None:
    store.apply([Init(root_id=root, spout_task="s", ack_val=0, outstanding=0) for root in range(1, 2_500)], None)
    store.apply([Init(root_id=2_500, spout_task="s", ack_val=1, message_timeout_ms=5 * RETENTION_MS)], None)
    store.advance(2 * RETENTION_MS)
    store.tick()
    assert entries(store) == 1
    assert 0 < (next_scan_ms(store) or 0) <= 3 * RETENTION_MS


def test_the_outcome_of_a_root_that_timed_out_is_forgotten_too(store: DrivenStore) -> None:
    store.apply([Init(root_id=1, spout_task="s", ack_val=1, message_timeout_ms=100)], None)
    store.advance(101)
    store.tick()
    assert (entries(store), next_scan_ms(store)) == (1, 2 * RETENTION_MS - 1 - 101)
    store.advance(2 * RETENTION_MS - 101)
    store.tick()
    assert (entries(store), next_scan_ms(store)) == (0, None)


def test_a_root_whose_outcome_expired_can_begin_again_before_the_tick_removes_it(store: DrivenStore) -> None:
    end(store, 1)
    store.advance(2 * RETENTION_MS)
    begun = Init(root_id=1, spout_task="s", ack_val=1, outstanding=1)
    assert store.apply([begun], None)[0] == [(OperationState.PENDING, None)]
    store.tick()
    assert store.root(1).state is RootState.PENDING


def test_an_outcome_that_was_not_removed_yet_is_not_remembered_again_by_a_later_slice(store: DrivenStore) -> None:
    """Nobody ticks. There are 42 numbers of slices; the first is not used again before its outcomes are removed."""
    end(store, 1)
    for root in range(2, 90):
        store.advance(RETENTION_MS)
        end(store, root)
        assert (store.root(1).state is RootState.FINISHED) == (root == 2)
        assert [store.root(late).state for late in (root - 1, root)] == [RootState.FINISHED] * 2


def test_numbers_of_slices_are_used_again_once_the_tick_has_removed_their_outcomes(store: DrivenStore) -> None:
    for root in range(1, 90):
        end(store, root)
        assert next_scan_ms(store) == (RETENTION_MS - 1 if root > 1 else 2 * RETENTION_MS - 1)
        store.advance(RETENTION_MS)
        store.tick()
    assert [store.root(root).state.value for root in range(86, 90)] == ["N", "N", "N", "F"]


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


def test_what_was_refused_is_known_as_long_as_its_request_though_the_window_becomes_longer(store: DrivenStore) -> None:
    """A request of a replica with a longer window moves the end of the slice in which both lie."""

    def codes(*operations: Operation, number: int, window_ms: int, slots: int) -> bytes:
        """Apply a request of one set, as a replica with this idempotency window does."""
        settings = store.settings[:16] + window_ms.to_bytes(4, "big") + store.settings[20:]
        free_slots = encode_free_slots([FreeSlots(spout_index=0, slots=slots)])
        layout = codec.Layout(shards=1, buckets=1)
        packed = b"".join(codec.encode_operation(operation, layout, lambda _: 0) for operation in operations)
        request = ("0", number, number + 1, b"", packed)
        [_, given] = store.ask("acker_apply_v2", settings, free_slots, ApplyLimits().packed, *request)
        return bytes(given)

    over = Init(root_id=1, spout_task="s", ack_val=0, outstanding=0)
    refused = Init(root_id=2, spout_task="s", ack_val=1, outstanding=1)
    assert codes(over, refused, number=2, window_ms=WINDOW_MS, slots=0) == b"+am"
    assert codes(Ack(root_id=3, ack_val=1), number=4, window_ms=6 * WINDOW_MS, slots=0) == b"+e"
    store.advance(3 * WINDOW_MS)
    assert codes(over, refused, number=2, window_ms=6 * WINDOW_MS, slots=1) == b"=dm"


def retention(store: DrivenStore, retention_ms: int) -> None:
    store.configure(replace(CONFIGURATION, retention_ms=retention_ms))


def test_an_outcome_keeps_its_expiry_when_the_retention_becomes_shorter(store: DrivenStore) -> None:
    retention(store, 10 * RETENTION_MS)
    end(store, 1)
    retention(store, RETENTION_MS)
    end(store, 2)
    assert is_remembered_for(store, 2, 2 * RETENTION_MS - 1)
    assert is_remembered_for(store, 1, 18 * RETENTION_MS - 1)


def test_an_outcome_keeps_its_expiry_when_the_retention_becomes_longer(store: DrivenStore) -> None:
    end(store, 1)
    retention(store, 10 * RETENTION_MS)
    end(store, 2)
    assert is_remembered_for(store, 1, 2 * RETENTION_MS - 1)
    assert is_remembered_for(store, 2, 18 * RETENTION_MS - 1)


@pytest.mark.parametrize(("first", "second"), [(60_000, 30_000), (30_000, 60_000)], ids=["shorter", "longer"])
def test_a_slice_of_acked_edges_keeps_the_later_end(store: DrivenStore, first: int, second: int) -> None:
    """The window changes within a slice that both windows share: its set goes at the later end of the two."""
    for window, edge in ((first, 1), (second, 2)):
        store.configure(replace(CONFIGURATION, message_timeout_ms=30_000, dedupe_window_ms=window))
        store.apply([Ack(root_id=1, ack_val=2, edge_id=edge)], None)
    [key] = {key for key in _pair_sets(store) if int(store.command("SCARD", key)) == 2}
    assert int(store.command("PEXPIRETIME", key)) - store.now_ms == 2 * 60_000 - 1


def _pair_sets(store: DrivenStore) -> list[str]:
    names = (f"{store.base}p{part}:\0\0\0\0{half}" for part in (0, 1) for half in (0, 1))
    return [name for name in names if int(store.command("EXISTS", name))]


def test_an_acked_edge_is_forgotten_though_others_follow(store: DrivenStore) -> None:
    """So many of them that every set of acked edges gets some in every slice."""
    store.configure(replace(CONFIGURATION, dedupe_window_ms=30_000))
    for window in range(4):
        store.apply([Ack(root_id=1, ack_val=2, edge_id=64 * window + n) for n in range(1, 65)], None)
        store.advance(30_000)
    again = [Ack(root_id=1, ack_val=2, edge_id=edge) for edge in (1, 2, 3, 4, 256)]
    states = [state for state, _ in store.apply(again, None)[0]]
    assert states == [OperationState.EARLY] * 4 + [OperationState.DUPLICATE]


def test_an_edge_of_a_root_that_lasts_longer_than_the_window_is_forgotten_with_the_window(store: DrivenStore) -> None:
    automatic = merge(CONFIGURATION, {"dedupe_window_ms": None}, buckets=1)
    store.configure(automatic)
    window_ms = automatic.message_timeout_ms
    store.apply([Init(root_id=1, spout_task="s", ack_val=6, outstanding=2, message_timeout_ms=10 * window_ms)], None)
    again = [Ack(root_id=1, ack_val=2, outstanding=-1, edge_id=2)]
    assert [store.apply(again, None)[0][0][0] for _ in range(2)] == [OperationState.PENDING, OperationState.DUPLICATE]
    store.advance(2 * window_ms)
    assert store.apply(again, None)[0][0][0] is OperationState.PENDING
