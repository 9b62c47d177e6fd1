"""What edges and requests that are remembered take in a shard: counted from above, bounded, and given back."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_service.redis.codec import edge_hash
from acker_service.topologies.config import TopologyConfig
from redis import Redis

from tests.support.driven_store import DrivenStore

WINDOW_MS = 60_000
DEDUPES = TopologyConfig(ackers=1, buckets=1, message_timeout_ms=1_000, dedupe_window_ms=WINDOW_MS)
DEDUPES_LONG = TopologyConfig(
    ackers=1, buckets=1, message_timeout_ms=WINDOW_MS, dedupe_window_ms=WINDOW_MS, retention_ms=1_000
)
SLOW = TopologyConfig(
    ackers=1, buckets=1, message_timeout_ms=WINDOW_MS, progress_timeout_ms=WINDOW_MS, dedupe_window_ms=WINDOW_MS
)
"""One whose roots are all for the state machine: none of their acks takes the fast path."""

SHORT = TopologyConfig(ackers=1, buckets=1, message_timeout_ms=WINDOW_MS, dedupe_window_ms=WINDOW_MS // 6)
"""One whose edges are remembered for a sixth of the time of requests, and not as long as its roots last."""

AHEAD = 16_384
"""So many bytes a sum is written ahead where much may be remembered."""

SET_BYTES = 224
"""What a set takes with its first number (lua/remembered.lua)."""

BITS_BYTES = 224
"""What the bits take that say which operations of a request were refused (lua/remembered.lua)."""

EXACT = 500_000
"""A bound so low that a sum is written with few bytes ahead."""

SUMS, SUM_BYTES = 4, 13
"""So many sums a shard has of what is remembered, of so many bytes each."""

OPEN = 1 << 60
"""An edge of each root that nobody acks."""

BOTH = pytest.mark.parametrize("configuration", [DEDUPES_LONG, SLOW], ids=["the fast path", "the state machine"])


@pytest.fixture
def make(driven_url: str) -> Iterator[Callable[..., DrivenStore]]:
    """Makes a store of one shard, whose roots lie in one bucket."""
    stores: list[DrivenStore] = []

    def made(configuration: TopologyConfig = DEDUPES_LONG, **bounds: int) -> DrivenStore:
        stores.append(DrivenStore(driven_url, configuration, window_ms=WINDOW_MS, **bounds))
        return stores[-1]

    yield made
    for store in stores:
        store.close()


def states(store: DrivenStore, *operations: Operation, key: str | None = None) -> list[str]:
    return [state.value for state, _ in store.apply(operations, key)[0]]


def init(root_id: int) -> Init:
    return Init(root_id=root_id, spout_task="s", ack_val=OPEN, outstanding=1)


def edges(root_id: int, numbers: Iterable[int]) -> list[Operation]:
    """Acks of so many edges of a root: each names a child that nobody acks."""
    return [Ack(root_id=root_id, ack_val=number << 20, outstanding=0, edge_id=number) for number in numbers]


def of_two_sets(root_id: int) -> tuple[int, int, int]:
    """Return three edges of a root: the first in one of the two sets of its bucket, the others in the other."""
    low = [number for number in range(1, 100) if edge_hash(root_id, number) < 1 << 63]
    high = [number for number in range(1, 100) if edge_hash(root_id, number) >= 1 << 63]
    return low[0], high[0], high[1]


def counted(store: DrivenStore, name: str) -> list[int]:
    """What the slices of edges, or of requests, are counted to take (lua/remembered.lua)."""
    raw = store.command("GET", f"{store.base}remembered") or bytes(SUMS * SUM_BYTES)
    sums = [raw[at : at + SUM_BYTES] for at in range(0, SUMS * SUM_BYTES, SUM_BYTES)]
    sizes = [int.from_bytes(own[:6]) if int.from_bytes(own[6:12]) >= store.now_ms else 0 for own in sums]
    return sizes[:2] if name == "edges" else sizes[2:]


def used(url: str, store: DrivenStore, pattern: str) -> int:
    """What Redis uses for the keys of a pattern."""
    with Redis.from_url(url) as redis:
        return sum(redis.memory_usage(key, samples=0) or 0 for key in redis.keys(f"{store.base}{pattern}"))


@BOTH
def test_a_pending_root_takes_no_edge_beyond_the_bound_and_all_else(
    make: Callable[..., DrivenStore], configuration: TopologyConfig
) -> None:
    store = make(configuration, remembered_max_bytes=4_000)
    states(store, init(1), init(2))
    answers = [states(store, ack)[0] for ack in edges(1, range(1, 1_001))]
    taken = answers.count("pending")
    assert answers == ["pending"] * taken + ["store_full"] * (1_000 - taken)
    assert 300 < taken < 400
    assert 4_000 <= sum(counted(store, "edges")) < 4_000 + SET_BYTES
    assert states(store, *edges(1, range(1, taken + 2))) == ["duplicate"] * taken + ["store_full"]
    assert states(store, *edges(2, [7]), *edges(3, [7])) == ["store_full"] * 2
    assert states(store, Ack(root_id=1, ack_val=5), ResetTimeout(root_id=1), Fail(root_id=1)) == [
        "pending",
        "pending",
        "failed",
    ]
    assert states(store, *edges(1, [9_999]), Ack(root_id=2, ack_val=OPEN, outstanding=-1)) == ["finished", "acked"]


@BOTH
def test_an_edge_that_was_refused_counts_once_when_there_is_room_again(
    make: Callable[..., DrivenStore], configuration: TopologyConfig
) -> None:
    store = make(configuration, remembered_max_bytes=4_000)
    states(store, init(1), *edges(1, range(1, 1_001)))
    store.advance(2 * WINDOW_MS)
    assert counted(store, "edges") == [0, 0]
    done = Ack(root_id=2, ack_val=OPEN, outstanding=-1, edge_id=5)
    assert states(store, init(2), *edges(2, [6]), *edges(2, [6])) == ["pending", "pending", "duplicate"]
    assert states(store, replace(done, ack_val=OPEN ^ 6 << 20), done) == ["acked", "finished"]


def test_what_a_slice_takes_is_forgotten_with_it(make: Callable[..., DrivenStore]) -> None:
    """Also what was counted for roots that have ended, or were dropped."""
    store = make(DEDUPES, remembered_max_bytes=60_000)
    states(store, init(1), *edges(1, range(1, 11)), key="k")
    states(store, *edges(2, range(1, 11)))
    first = counted(store, "edges")
    assert min(first) == 0 < sum(first)
    store.advance(1_001)
    store.tick()
    assert counted(store, "edges") == first
    store.advance(WINDOW_MS)
    states(store, *edges(3, range(1, 6)), key="other")
    assert all(counted(store, "edges"))
    assert all(counted(store, "requests"))
    store.advance(WINDOW_MS)
    assert sum(counted(store, "edges")) < sum(first)
    store.advance(WINDOW_MS)
    assert counted(store, "edges") == counted(store, "requests") == [0, 0]


def test_a_longer_window_keeps_the_count_as_long_as_its_edges(make: Callable[..., DrivenStore]) -> None:
    store = make(DEDUPES_LONG)
    states(store, init(1), *edges(1, range(1, 50)))
    store.configure(replace(DEDUPES_LONG, dedupe_window_ms=10 * WINDOW_MS))
    states(store, *edges(1, range(50, 100)))
    store.advance(3 * WINDOW_MS)
    kept = [len(store.command("KEYS", f"{store.base}p{number}:*")) for number in (0, 1)]
    assert [bool(sets) for sets in kept] == [bool(size) for size in counted(store, "edges")]
    assert any(kept)


def test_a_window_that_changes_there_and_back_shortens_no_edge(make: Callable[..., DrivenStore]) -> None:
    store = make(DEDUPES_LONG)
    first, second, third = of_two_sets(1)
    states(store, init(1), *edges(1, [first]))
    store.configure(replace(DEDUPES_LONG, dedupe_window_ms=WINDOW_MS // 6))
    assert states(store, *edges(1, [second])) == ["pending"]
    store.configure(DEDUPES_LONG)
    assert states(store, *edges(1, [third])) == ["pending"]
    store.advance(WINDOW_MS // 2)
    assert states(store, *edges(1, [first, second, third])) == ["duplicate"] * 3
    assert sum(counted(store, "edges")) > 2 * SET_BYTES


def test_a_shorter_window_leaves_the_count_as_long_as_the_edges_before(make: Callable[..., DrivenStore]) -> None:
    store = make(DEDUPES_LONG)
    first, second, _ = of_two_sets(1)
    states(store, init(1), *edges(1, [first]))
    store.configure(replace(DEDUPES_LONG, dedupe_window_ms=WINDOW_MS // 6))
    states(store, *edges(1, [second]))
    store.advance(WINDOW_MS // 2)
    assert sum(counted(store, "edges")) > SET_BYTES
    store.configure(DEDUPES_LONG)
    assert states(store, *edges(1, [first])) == ["duplicate"]


def test_the_bits_of_what_was_refused_count(make: Callable[..., DrivenStore]) -> None:
    store = make(remembered_max_bytes=EXACT)
    states(store, init(1), replace(init(1), spout_task="other"), key="k")
    assert sum(counted(store, "requests")) >= SET_BYTES + BITS_BYTES


def test_a_slice_that_ended_counts_nothing_though_the_other_goes_on(make: Callable[..., DrivenStore]) -> None:
    """Here those of edges end, and those of requests, whose window is longer, go on."""
    store = make(SHORT, remembered_max_bytes=4_000)
    states(store, Init(root_id=1, spout_task="s", ack_val=OPEN, outstanding=1), key="k")
    assert states(store, *edges(1, range(1, 1_001)))[-1] == "store_full"
    store.advance(2 * SHORT.dedupe_window_ms)
    assert sum(counted(store, "requests")) == SET_BYTES
    assert states(store, *edges(1, [9_999])) == ["pending"]
    assert sum(counted(store, "edges")) == SET_BYTES
    assert sum(counted(store, "requests")) == SET_BYTES


def test_a_sum_is_written_ahead_and_never_too_low(make: Callable[..., DrivenStore], driven_url: str) -> None:
    store = make(DEDUPES_LONG)
    states(store, init(1), *edges(1, [1]))
    written = sum(counted(store, "edges"))
    for number in range(2, 20):
        states(store, *edges(1, [number]))
    assert sum(counted(store, "edges")) == written == SET_BYTES + AHEAD
    states(store, *edges(1, range(20, 5_000)))
    assert used(driven_url, store, "p*") <= sum(counted(store, "edges"))
    assert sum(counted(store, "edges")) <= 3 * used(driven_url, store, "p*") + SET_BYTES + AHEAD


def test_what_was_written_ahead_is_lost_if_another_process_wrote_the_key(make: Callable[..., DrivenStore]) -> None:
    """As after a failover there and back: what is left of it is not known here."""
    store = make(DEDUPES_LONG)
    first, second, _ = of_two_sets(1)
    states(store, init(1), *edges(1, [first]))
    key = f"{store.base}remembered"
    written = store.command("GET", key)
    store.command("SET", key, written[:-1] + bytes([written[-1] ^ 1]), "KEEPTTL")
    states(store, *edges(1, [second]))
    assert sum(counted(store, "edges")) == 2 * (SET_BYTES + AHEAD)


def test_what_was_written_ahead_is_forgotten_with_its_slice(make: Callable[..., DrivenStore]) -> None:
    store = make(SHORT)
    states(store, init(1), key="k")
    states(store, *edges(1, [1]))
    store.advance(2 * SHORT.dedupe_window_ms)
    assert sum(counted(store, "edges")) == 0
    states(store, *edges(1, [2]))
    assert sum(counted(store, "edges")) == SET_BYTES + AHEAD


@pytest.mark.parametrize("number", [1, 2, 500, 1_000, 1_100, 5_000])
def test_what_edges_take_is_counted_from_above(make: Callable[..., DrivenStore], driven_url: str, number: int) -> None:
    store = make(SLOW, remembered_max_bytes=EXACT)
    states(store, init(1), *edges(1, range(1, number + 1)))
    taken, counts = used(driven_url, store, "p*"), sum(counted(store, "edges"))
    assert taken <= counts
    assert counts <= 3 * taken + SET_BYTES


def test_what_requests_take_is_counted_from_above(make: Callable[..., DrivenStore], driven_url: str) -> None:
    store = make(SLOW, remembered_max_bytes=EXACT)
    operations = [init(1), *(Init(root_id=1, spout_task="other", ack_val=OPEN) for _ in range(2_000))]
    assert states(store, *operations, key="k") == ["pending"] + ["conflict"] * 2_000
    for number in range(1_100):
        states(store, ResetTimeout(root_id=1), key=f"key {number}")
    taken = used(driven_url, store, "s[01]:*") + used(driven_url, store, "n[01]:*")
    assert taken <= sum(counted(store, "requests")) <= 3 * taken + SET_BYTES


@BOTH
def test_a_request_that_there_is_no_room_to_remember_is_not_applied(
    make: Callable[..., DrivenStore], configuration: TopologyConfig
) -> None:
    store = make(configuration, remembered_max_bytes=1_000)
    states(store, init(1), init(2))
    resets = [states(store, ResetTimeout(root_id=1), key=f"key {number}")[0] for number in range(300)]
    taken = resets.count("pending")
    assert resets == ["pending"] * taken + ["store_full"] * (300 - taken)
    assert 1_000 <= sum(counted(store, "requests")) < 1_000 + SET_BYTES
    assert store.apply([ResetTimeout(root_id=1)], "key 0")[1]
    ops = [Fail(root_id=1), ResetTimeout(root_id=2), *edges(2, [5])]
    assert states(store, *ops, key="new") == ["store_full"] * 3
    assert states(store, *ops) == ["failed", "pending", "store_full"]
    assert states(store, *ops, key="new") == ["finished", "store_full", "store_full"]
    store.advance(2 * WINDOW_MS)
    assert states(store, init(3), Fail(root_id=3), key="new") == ["pending", "failed"]


@BOTH
def test_roots_begin_up_to_nine_tenths_of_the_bound(
    make: Callable[..., DrivenStore], configuration: TopologyConfig
) -> None:
    """So pending ones have their acks remembered, and end."""
    store = make(configuration, remembered_max_bytes=4_000)
    states(store, init(1))
    number = 0
    while states(store, init(1_000 + number)) == ["pending"]:
        number += 1
        assert states(store, *edges(1, [number])) == ["pending"]
    assert 3_600 <= sum(counted(store, "edges")) < 3_600 + SET_BYTES
    last = Ack(root_id=1_000, ack_val=OPEN, outstanding=-1, edge_id=1)
    assert states(store, init(1_000), last, init(1_000), init(999)) == ["duplicate", "acked", "finished", "store_full"]
    assert states(store, *edges(2, [1]), Init(root_id=2, spout_task="new", ack_val=1)) == ["early", "store_full"]
    assert store.counts()[0].keys() == {"s"}


@BOTH
def test_a_full_store_remembers_fewer_edges_and_lets_pending_roots_end(
    make: Callable[..., DrivenStore], configuration: TopologyConfig
) -> None:
    store = make(configuration, remembered_max_bytes=100_000, remembered_if_full=2_000)
    states(store, init(1), init(2))
    store.fill(is_full=True)
    assert states(store, *edges(1, range(1, 1_001))) == ["pending"] * 1_000
    again = states(store, *edges(1, range(1, 1_001)))
    known = again.count("duplicate")
    assert again == ["duplicate"] * known + ["pending"] * (1_000 - known)
    assert 100 < known < 200
    assert 2_000 <= sum(counted(store, "edges")) < 2_000 + SET_BYTES
    assert states(store, Ack(root_id=2, ack_val=OPEN, outstanding=-1, edge_id=1)) == ["acked"]


@BOTH
@pytest.mark.parametrize("is_spent", [False, True], ids=["with memory left", "with no memory left"])
def test_a_full_store_remembers_fewer_requests_where_redis_uses_all_that_it_may(
    make: Callable[..., DrivenStore], driven_url: str, configuration: TopologyConfig, *, is_spent: bool
) -> None:
    """What edges take does not count here: pending roots of a topology that remembers many have to end, too."""
    store = make(configuration, remembered_max_bytes=100_000, remembered_if_full=2_000)
    states(store, init(1), init(2), *edges(1, range(1, 1_001)))
    store.fill(is_full=True)
    with Redis.from_url(driven_url) as redis:
        redis.config_set("maxmemory", 1 if is_spent else 0)
        try:
            answers = [states(store, Ack(root_id=1, ack_val=1), key=f"key {number}")[0] for number in range(300)]
            last = Ack(root_id=2, ack_val=OPEN, outstanding=-1)
            assert states(store, last, key="new") == ["store_full" if is_spent else "acked"]
            assert states(store, last) == ["acked" if is_spent else "finished"]
        finally:
            redis.config_set("maxmemory", 0)
    taken = answers.count("pending")
    assert answers == ["pending"] * taken + ["store_full"] * (300 - taken)
    assert (taken < 300) == is_spent
    assert sum(counted(store, "requests")) >= 2_000
    assert (sum(counted(store, "requests")) < 2_000 + 2 * SET_BYTES) == is_spent


def test_without_edges_and_keys_nothing_is_counted(make: Callable[..., DrivenStore]) -> None:
    store = make(replace(DEDUPES, dedupe_window_ms=0))
    states(store, init(1), *edges(1, range(1, 11)), *edges(2, [1]), Fail(root_id=3))
    assert counted(store, "edges") == counted(store, "requests") == [0, 0]
