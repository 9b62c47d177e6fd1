"""One tick ends all that is overdue, however it is spread."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from acker_protocol.operations import Ack, Init, OperationState, Outcome
from acker_protocol.tree import ACKED_TOO_OFTEN_WITHOUT_WINDOW
from acker_service.redis import library
from acker_service.topologies.config import TopologyConfig

from tests.support.driven_store import DrivenStore

ROOTS = 1_500
FINISHED = OperationState.FINISHED
FIRST_BUCKET = bytes(4)
RETENTION_MS = TopologyConfig().retention_ms


@pytest.fixture(params=[1, 16, 4_096], ids=lambda buckets: f"{buckets} buckets")
def spread(driven_url: str, request: pytest.FixtureRequest) -> Iterator[DrivenStore]:
    """A store whose roots lie in one overfull bucket, in a few, or each in its own."""
    store = DrivenStore(driven_url, TopologyConfig(ackers=1, buckets=request.param), window_ms=60_000)
    yield store
    store.close()


def test_one_tick_ends_all_that_is_overdue(spread: DrivenStore) -> None:
    inits = [
        Init(root_id=root, spout_task="s", ack_val=1, outstanding=1, message_timeout_ms=100 if root % 2 else 5_000)
        for root in range(1, ROOTS + 1)
    ]
    spread.apply(inits, None)
    spread.advance(101)
    spread.tick()
    assert {done.root_id % 2 for done in spread.mailbox()} == {1}
    assert spread.counts()[2]["timed_out"] == ROOTS // 2
    spread.advance(5_000)
    spread.tick()
    assert spread.counts()[2]["timed_out"] == ROOTS


def emit(store: DrivenStore, roots: Iterable[int], *, message_timeout_ms: int) -> None:
    """Begin trees that nobody ends."""
    inits = [
        Init(root_id=root, spout_task="s", ack_val=1, outstanding=1, message_timeout_ms=message_timeout_ms)
        for root in roots
    ]
    store.apply(inits, None)


@pytest.fixture
def one(driven_url: str) -> Iterator[DrivenStore]:
    """A store whose roots lie in one bucket."""
    store = DrivenStore(driven_url, TopologyConfig(ackers=1, buckets=1), window_ms=60_000)
    yield store
    store.close()


@pytest.fixture
def many(driven_url: str) -> Iterator[DrivenStore]:
    """A store whose roots lie each in its own bucket."""
    store = DrivenStore(driven_url, TopologyConfig(ackers=1, buckets=4_096), window_ms=60_000)
    yield store
    store.close()


def completed(store: DrivenStore) -> set[int]:
    return {done.root_id for done in store.mailbox()}


FAST = "local FAST_PATH = true"
RECORDS = {
    "bare": Init(root_id=1, spout_task="s", ack_val=1, outstanding=1),
    "of unknown outstanding": Init(root_id=1, spout_task="s", ack_val=1),
    "with a short message id": Init(root_id=1, spout_task="s", ack_val=1, outstanding=1, message_id="order 1"),
    "with an empty message id": Init(root_id=1, spout_task="s", ack_val=1, message_id=""),
    "with a long message id": Init(root_id=1, spout_task="s", ack_val=1, outstanding=1, message_id="m" * 100),
    "with many edges": Init(root_id=1, spout_task="s", ack_val=1, outstanding=40_000, message_id="order 1"),
    "with a progress timeout": Init(root_id=1, spout_task="s", ack_val=1, outstanding=1, progress_timeout_ms=100),
    "with more acks than edges": Init(root_id=1, spout_task="s", ack_val=1, outstanding=-1, message_id="order 1"),
    "with a zero of edges": Init(root_id=1, spout_task="s", ack_val=2**63, outstanding=0),
    "with many more acks than edges": Init(root_id=1, spout_task="s", ack_val=1, outstanding=-40_000),
}


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast path", "state machine"])
@pytest.mark.parametrize("own_timeout", [True, False], ids=["own timeout", "timeout of the topology"])
@pytest.mark.parametrize("record", RECORDS)
def test_a_root_times_out_once_whatever_its_record_holds(
    driven_url: str, record: str, *, own_timeout: bool, is_fast: bool
) -> None:
    text = library.source() if is_fast else library.source().replace(FAST, "local FAST_PATH = false")
    assert library.source().count(FAST) == 1
    configuration = TopologyConfig(ackers=1, buckets=1, message_timeout_ms=100)
    store = DrivenStore(driven_url, configuration, window_ms=60_000, text=text)
    init = replace(RECORDS[record], message_timeout_ms=100 if own_timeout else None)
    began_ms = store.now_ms
    store.apply([init], None)
    store.advance(100)
    store.tick()
    assert (completed(store), store.counts()[0]) == (set(), {"s": 1})
    store.advance(6)
    store.tick()
    store.tick()
    [done] = store.mailbox()
    seen = (done.root_id, done.outcome, done.message_id, done.started_ms, done.at_ms)
    assert seen == (1, Outcome.TIMED_OUT, init.message_id, began_ms, began_ms + 106)
    assert done.reason == (ACKED_TOO_OFTEN_WITHOUT_WINDOW if " of edges" in record or "more acks" in record else None)
    pending, unread, totals = store.counts()
    assert (pending, unread, totals["timed_out"]) == ({"s": 0}, {"s": 1}, 1)
    latency = store.latencies()["timed_out"]
    assert (sum(latency.counts.values()), latency.sum_ms) == (1, 106)
    assert store.apply([Ack(root_id=1, ack_val=1, outstanding=-1)], None)[0] == [(FINISHED, Outcome.TIMED_OUT)]
    assert score(store) == (store.now_ms // RETENTION_MS + 2) * RETENTION_MS - 1
    store.close()


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast path", "state machine"])
def test_a_root_that_times_out_tells_where_it_hung(driven_url: str, *, is_fast: bool) -> None:
    text = library.source() if is_fast else library.source().replace(FAST, "local FAST_PATH = false")
    store = DrivenStore(driven_url, TopologyConfig(ackers=1, buckets=1), window_ms=60_000, text=text)
    store.apply([replace(RECORDS["with a short message id"], message_timeout_ms=100)], None)
    store.advance(10)
    store.apply([Ack(root_id=1, ack_val=3, outstanding=2, component="split")], None)
    acked_ms = store.now_ms
    store.advance(100)
    store.tick()
    [done] = store.mailbox()
    assert (done.message_id, done.last_component, done.outstanding) == ("order 1", "split", 3)
    assert done.last_ack_ms == acked_ms
    store.close()


def test_a_tick_says_how_many_roots_ended_by_either_path(one: DrivenStore) -> None:
    for number, record in enumerate(RECORDS.values(), start=1):
        one.apply([replace(record, root_id=number, message_timeout_ms=100)], None)
    one.advance(101)
    assert one.ask("acker_tick_v1", one.settings, 1_000, 0) == [len(RECORDS), 0]


def test_a_root_that_makes_no_progress_times_out_before_its_message_timeout(one: DrivenStore) -> None:
    one.apply([replace(RECORDS["with a progress timeout"], message_timeout_ms=10_000)], None)
    emit(one, [2], message_timeout_ms=50)
    one.advance(51)
    one.tick()
    assert completed(one) == {2}
    one.advance(50)
    one.tick()
    assert completed(one) == {1, 2}


def test_plain_roots_time_out_by_the_fast_path(driven_url: str) -> None:
    """Without the state machine nothing else ends them."""
    head = "  local function expire(call, root, bucket, root_id, raw)\n"
    text = library.source().replace(head, f"{head}    if true then return call.now end\n")
    assert text != library.source()
    for record in [*RECORDS][:4]:
        store = DrivenStore(driven_url, TopologyConfig(ackers=1, buckets=1), window_ms=60_000, text=text)
        store.apply([replace(RECORDS[record], message_timeout_ms=100)], None)
        store.advance(101)
        store.tick()
        assert completed(store) == {1}, record
        store.close()


def score(store: DrivenStore) -> int | None:
    """When the one bucket is looked at next."""
    found = store.command("ZSCORE", store.base + "due", FIRST_BUCKET)
    return None if found is None else int(found)


def test_a_root_is_overdue_a_millisecond_behind_its_deadline(one: DrivenStore) -> None:
    emit(one, [1], message_timeout_ms=100)
    one.advance(100)
    one.tick()
    assert completed(one) == set()
    one.advance(1)
    one.tick()
    assert completed(one) == {1}


def test_each_root_of_a_bucket_ends_in_its_own_time(one: DrivenStore) -> None:
    for root in (1, 2, 3):
        emit(one, [root], message_timeout_ms=100 * root)
    for root in (1, 2, 3):
        one.advance(100 if root > 1 else 101)
        one.tick()
        assert completed(one) == set(range(1, root + 1))


def test_a_shard_is_looked_at_until_the_outcomes_of_its_roots_are_forgotten(one: DrivenStore) -> None:
    emit(one, [1, 2], message_timeout_ms=100)
    one.advance(101)
    one.tick()
    assert score(one) == (one.now_ms // RETENTION_MS + 2) * RETENTION_MS - 1
    one.advance(2 * RETENTION_MS)
    one.tick()
    assert score(one) is None


def test_a_tick_leaves_buckets_that_are_not_due_alone(many: DrivenStore) -> None:
    emit(many, range(1, 4), message_timeout_ms=100)
    emit(many, range(4, 300), message_timeout_ms=200)
    many.advance(101)
    assert many.ask("acker_tick_v1", many.settings, 7, 0) == [3, 0]


def test_a_tick_reads_so_many_records_a_call(many: DrivenStore) -> None:
    """Looking at a bucket costs one, and one for each record in it."""
    emit(many, range(1, 101), message_timeout_ms=100)
    many.advance(101)
    assert [many.ask("acker_tick_v1", many.settings, 100, 0) for _ in range(3)] == [[50, 1], [50, 1], [0, 0]]


def test_a_tick_leaves_an_overfull_bucket_to_be_walked(one: DrivenStore) -> None:
    emit(one, range(1, 1_002), message_timeout_ms=100)
    one.advance(101)
    assert one.ask("acker_tick_v1", one.settings, 2_000, 0) == [0, 0, b"0"]
    assert completed(one) == set()


def test_a_tick_asks_for_no_more_when_all_that_is_due_has_to_be_walked(driven_url: str) -> None:
    """It would be called again and again, and never get past the overfull buckets."""
    text = library.source().replace("local OVERFULL = 1000", "local OVERFULL = 2")
    store = DrivenStore(driven_url, TopologyConfig(ackers=1, buckets=256), window_ms=60_000, text=text)
    emit(store, range(3 * 256), message_timeout_ms=100)
    store.advance(101)
    ended, more, *overfull = store.ask("acker_tick_v1", store.settings, 2_000, 0)
    store.close()
    assert (ended, more, len(overfull)) == (0, 0, 256)


def test_a_bucket_that_is_walked_is_not_due_but_comes_due_again_if_its_walker_dies(one: DrivenStore) -> None:
    emit(one, range(1, 3_001), message_timeout_ms=100)
    one.advance(101)
    ended, cursor, _ = one.ask("acker_walk_v1", one.settings, 0, 0, "", 0)
    assert 0 < ended < 3_000
    assert cursor != b"0"
    assert one.ask("acker_tick_v1", one.settings, 2_000, 0) == [0, 0]
    one.advance(5_001)
    one.tick()
    assert len(completed(one)) == 3_000


def test_a_root_that_arrives_during_a_walk_is_looked_at_in_time(one: DrivenStore) -> None:
    """The scan is past its position and does not find it; the new root scored the bucket itself."""
    emit(one, range(1, 3_001), message_timeout_ms=9_000)
    cursor, earliest, pieces = b"0", b"", 0
    while pieces == 0 or cursor != b"0":
        _, cursor, earliest = one.ask("acker_walk_v1", one.settings, 0, cursor, earliest, 0)
        if pieces == 0:
            one.command("ZADD", one.base + "due", "LT", one.now_ms + 100, FIRST_BUCKET)
        pieces += 1
    assert pieces > 1
    assert score(one) == one.now_ms + 100


def test_a_walk_scores_its_bucket_by_the_earliest_of_all_pieces(one: DrivenStore) -> None:
    emit(one, range(1, 3_001), message_timeout_ms=4_000)
    cursor, earliest, pieces = b"0", b"", 0
    while pieces == 0 or cursor != b"0":
        _, cursor, earliest = one.ask("acker_walk_v1", one.settings, 0, cursor, earliest, 0)
        if pieces == 0:
            earliest = str(int(earliest) - 1_000).encode()
        pieces += 1
    assert pieces > 1
    assert score(one) == one.now_ms + 3_000


def test_more_buckets_than_a_command_takes_are_scored(many: DrivenStore) -> None:
    emit(many, range(1, 4_097), message_timeout_ms=100)
    assert int(many.command("ZCARD", many.base + "due")) == 4_096
    assert left(many, 1) == left(many, 4_095) == 21 * 86_400_000


def left(store: DrivenStore, bucket: int) -> int:
    """How long a bucket lives on in a store that nobody serves."""
    name = store.base + "r" + bucket.to_bytes(4, "big").decode(errors="surrogateescape")
    return int(store.command("PEXPIRETIME", name)) - store.now_ms
