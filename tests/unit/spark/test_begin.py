"""Tests how roots are begun, on an acker in memory."""

from dataclasses import replace

import httpx
import pytest
from acker_client import RetriesExhausted
from acker_client.testing import MemoryAcker
from acker_client.testing.memory import URL
from acker_protocol.operations import Ack, Fail, OperationState
from acker_spark._batch.begin import begin
from acker_spark._batch.edges import BatchEdge, BatchId
from acker_spark._batch.sender import OperationSender
from acker_spark.errors import ConcurrentQuery, PendingLimit
from acker_spark.options import SparkAckerOptions

OPTIONS = SparkAckerOptions(url=URL, topology="orders", spout_task="reader")
FIRST, OTHER = BatchId(query_id="first", batch_id=3), BatchId(query_id="other", batch_id=3)


@pytest.fixture
def memory() -> MemoryAcker:
    return MemoryAcker("orders", dedupe_window=3600, retention=3600)


@pytest.fixture
def sender(memory: MemoryAcker) -> OperationSender:
    return OperationSender(
        OPTIONS, retry_timeout=30, startup_timeout=None, transport=memory.transport(), clock=memory.clock
    )


def batch(batch_id: BatchId, *roots: int) -> list[BatchEdge]:
    """What a batch takes on itself; its edges are its own."""
    own = 0xF1000 if batch_id.query_id == FIRST.query_id else 0x0E000
    own += batch_id.batch_id
    return [BatchEdge(root_id=root, edge_id=root ^ own, message_id=str(root), ack_val=root ^ own) for root in roots]


def finish(sender: OperationSender, taken: list[BatchEdge]) -> None:
    """Ship the deltas of a batch that has done nothing."""
    sender.send([Ack(root_id=one.root_id, ack_val=one.edge_id, edge_id=one.edge_id) for one in taken])


def test_a_batch_begins_its_roots_and_ends_them_with_their_own_edges(
    memory: MemoryAcker, sender: OperationSender
) -> None:
    taken = batch(FIRST, 10, 20, 30)
    assert begin(sender, OPTIONS, FIRST, taken) == 3
    assert memory.completions("reader") == []
    finish(sender, taken)
    assert sorted(memory.completions("reader")) == ["10", "20", "30"]


def test_an_empty_batch_says_nothing(memory: MemoryAcker, sender: OperationSender) -> None:
    assert begin(sender, OPTIONS, FIRST, []) == 0
    assert memory.requests == []


def test_a_batch_that_is_run_again_knows_its_own_work_however_far_it_came(
    memory: MemoryAcker, sender: OperationSender
) -> None:
    taken = batch(FIRST, 10, 20, 30)
    begin(sender, OPTIONS, FIRST, taken[:2])
    assert begin(sender, OPTIONS, FIRST, taken) == 1
    finish(sender, taken[:1])
    assert begin(sender, OPTIONS, FIRST, taken) == 0
    finish(sender, taken)
    assert sorted(memory.completions("reader")) == ["10", "20", "30"]


def test_another_query_is_refused_each_time_and_changes_nothing(memory: MemoryAcker, sender: OperationSender) -> None:
    begin(sender, OPTIONS, FIRST, taken := batch(FIRST, 10, 20))
    for _ in range(3):
        with pytest.raises(ConcurrentQuery, match="message id '10'"):
            begin(sender, OPTIONS, OTHER, batch(OTHER, 10, 20))
    assert begin(sender, OPTIONS, FIRST, taken) == 0
    finish(sender, taken)
    assert sorted(memory.completions("reader")) == ["10", "20"]


def test_another_query_that_is_refused_behind_its_leader_lets_go_what_it_has_begun(
    memory: MemoryAcker, sender: OperationSender
) -> None:
    begin(sender, OPTIONS, FIRST, taken := batch(FIRST, 20))
    for _ in range(2):
        with pytest.raises(ConcurrentQuery):
            begin(sender, OPTIONS, OTHER, batch(OTHER, 10, 20, 30))
    assert sorted(memory.completions("reader")) == ["10", "30"]
    finish(sender, taken)
    assert sorted(memory.completions("reader")) == ["10", "20", "30"]


def test_a_batch_that_is_cut_off_while_it_is_refused_is_refused_again(
    memory: MemoryAcker, sender: OperationSender
) -> None:
    """Its flag is planted before anything that it had begun is failed."""
    begin(sender, OPTIONS, FIRST, batch(FIRST, 20))
    leader, others, planted = None, None, None
    memory.faults.extend([leader, others, planted, *[httpx.ConnectError("cut off")] * 1_000])
    with pytest.raises(RetriesExhausted):
        begin(sender, OPTIONS, OTHER, batch(OTHER, 10, 20, 30))
    assert not any(isinstance(message, Fail) for message in memory.applied)
    memory.faults.clear()
    with pytest.raises(ConcurrentQuery, match="message id '10'"):
        begin(sender, OPTIONS, OTHER, batch(OTHER, 10, 20, 30))


def test_another_batch_of_the_same_query_is_another(memory: MemoryAcker, sender: OperationSender) -> None:
    begin(sender, OPTIONS, FIRST, batch(FIRST, 10))
    with pytest.raises(ConcurrentQuery, match="give its attempt to root"):
        begin(sender, OPTIONS, BatchId(query_id="first", batch_id=4), batch(FIRST, 10))


def test_a_root_that_another_spout_task_has_begun_is_refused_and_stays_as_it_is(
    memory: MemoryAcker, sender: OperationSender
) -> None:
    begin(sender, replace(OPTIONS, spout_task="other"), OTHER, taken := batch(OTHER, 10))
    for _ in range(2):
        with pytest.raises(ConcurrentQuery, match="message id '10'"):
            begin(sender, OPTIONS, FIRST, batch(FIRST, 10))
    finish(sender, taken)
    assert (memory.completions("other"), memory.completions("reader")) == (["10"], [])


@pytest.mark.parametrize("roots", [(10, 20), (10, 20, 30)])
def test_a_root_that_is_not_the_first_and_another_spout_task_has_begun_is_refused_in_the_same_words(
    sender: OperationSender, roots: tuple[int, ...]
) -> None:
    begin(sender, replace(OPTIONS, spout_task="other"), OTHER, batch(OTHER, 20))
    for _ in range(2):
        with pytest.raises(ConcurrentQuery, match="message id '20'"):
            begin(sender, OPTIONS, FIRST, batch(FIRST, *roots))


def test_roots_that_find_no_place_end_the_batch_in_words_and_not_never(
    memory: MemoryAcker, sender: OperationSender
) -> None:
    memory.refusals.extend([OperationState.MAX_SPOUT_PENDING] * 1_000)
    with pytest.raises(PendingLimit, match="max_spout_pending"):
        begin(sender, OPTIONS, FIRST, batch(FIRST, 10, 20, 30))


def test_a_batch_whose_program_gives_another_leader_when_it_is_run_again_is_refused_with_what_to_do(
    memory: MemoryAcker, sender: OperationSender
) -> None:
    """What it had begun stays as it is; when that has ended, the batch runs."""
    begin(sender, OPTIONS, FIRST, taken := batch(FIRST, 20))
    changed = batch(FIRST, 10, 20)
    with pytest.raises(ConcurrentQuery, match="start it again when that root is done or has timed out"):
        begin(sender, OPTIONS, FIRST, changed)
    assert memory.completions("reader") == ["10"]
    finish(sender, taken)
    assert sorted(memory.completions("reader")) == ["10", "20"]
    assert begin(sender, OPTIONS, FIRST, batch(FIRST, 5, 20)) == 1
