"""Tests how roots are begun, on an acker in memory that keeps the law."""

from dataclasses import replace

import httpx
import pytest
from acker_client import RetriesExhausted
from acker_client.testing import MemoryAcker
from acker_client.testing.memory import URL
from acker_protocol.operations import Ack, Fail, OperationState
from acker_protocol.states import TopologyRules
from acker_spark.beginning import begin
from acker_spark.deliveries import Claim, Delivery
from acker_spark.errors import AnotherQuery, NoRoom
from acker_spark.line import Line, World
from acker_spark.options import Options

OPTIONS = Options(url=URL, topology="orders", spout_task="reader")
FIRST, OTHER = Claim(query_id="first", batch_id=3), Claim(query_id="other", batch_id=3)


@pytest.fixture
def memory() -> MemoryAcker:
    return MemoryAcker("orders", rules=TopologyRules(dedupe_window_ms=3_600_000, retention_ms=3_600_000))


@pytest.fixture
def line(memory: MemoryAcker) -> Line:
    world = World(transport=memory.transport(), clock=memory.clock.monotonic, sleep=memory.clock.sleep)
    return Line(OPTIONS, retry_for=30, world=world)


def batch(claim: Claim, *roots: int) -> list[Delivery]:
    """What a batch takes on itself; its edges are its own."""
    own = 0xF1000 if claim.query_id == FIRST.query_id else 0x0E000
    own += claim.batch_id
    return [Delivery(root_id=root, edge_id=root ^ own, message_id=str(root), ack_val=root ^ own) for root in roots]


def finish(line: Line, taken: list[Delivery]) -> None:
    """Ship the deltas of a batch that has done nothing."""
    line.send([Ack(root_id=one.root_id, ack_val=one.edge_id, edge_id=one.edge_id) for one in taken])


def test_a_batch_begins_its_roots_and_ends_them_with_their_own_edges(memory: MemoryAcker, line: Line) -> None:
    taken = batch(FIRST, 10, 20, 30)
    assert begin(line, OPTIONS, FIRST, taken) == 3
    assert memory.completions("reader") == []
    finish(line, taken)
    assert sorted(memory.completions("reader")) == ["10", "20", "30"]


def test_an_empty_batch_says_nothing(memory: MemoryAcker, line: Line) -> None:
    assert begin(line, OPTIONS, FIRST, []) == 0
    assert memory.requests == []


def test_a_batch_that_is_run_again_knows_its_own_work_however_far_it_came(memory: MemoryAcker, line: Line) -> None:
    taken = batch(FIRST, 10, 20, 30)
    begin(line, OPTIONS, FIRST, taken[:2])
    assert begin(line, OPTIONS, FIRST, taken) == 1
    finish(line, taken[:1])
    assert begin(line, OPTIONS, FIRST, taken) == 0
    finish(line, taken)
    assert sorted(memory.completions("reader")) == ["10", "20", "30"]


def test_another_query_is_refused_each_time_and_changes_nothing(memory: MemoryAcker, line: Line) -> None:
    begin(line, OPTIONS, FIRST, taken := batch(FIRST, 10, 20))
    for _ in range(3):
        with pytest.raises(AnotherQuery, match="message id '10'"):
            begin(line, OPTIONS, OTHER, batch(OTHER, 10, 20))
    assert begin(line, OPTIONS, FIRST, taken) == 0
    finish(line, taken)
    assert sorted(memory.completions("reader")) == ["10", "20"]


def test_another_query_that_is_refused_behind_its_leader_lets_go_what_it_has_begun(
    memory: MemoryAcker, line: Line
) -> None:
    begin(line, OPTIONS, FIRST, taken := batch(FIRST, 20))
    for _ in range(2):
        with pytest.raises(AnotherQuery):
            begin(line, OPTIONS, OTHER, batch(OTHER, 10, 20, 30))
    assert sorted(memory.completions("reader")) == ["10", "30"]
    finish(line, taken)
    assert sorted(memory.completions("reader")) == ["10", "20", "30"]


def test_a_batch_that_is_cut_off_while_it_is_refused_is_refused_again(memory: MemoryAcker, line: Line) -> None:
    """Its flag is planted before anything that it had begun is failed."""
    begin(line, OPTIONS, FIRST, batch(FIRST, 20))
    leader, others, planted = None, None, None
    memory.faults.extend([leader, others, planted, *[httpx.ConnectError("cut off")] * 1_000])
    with pytest.raises(RetriesExhausted):
        begin(line, OPTIONS, OTHER, batch(OTHER, 10, 20, 30))
    assert not any(isinstance(message, Fail) for message in memory.applied)
    memory.faults.clear()
    with pytest.raises(AnotherQuery, match="message id '10'"):
        begin(line, OPTIONS, OTHER, batch(OTHER, 10, 20, 30))


def test_another_batch_of_the_same_query_is_another(memory: MemoryAcker, line: Line) -> None:
    begin(line, OPTIONS, FIRST, batch(FIRST, 10))
    with pytest.raises(AnotherQuery, match="give its attempt to root"):
        begin(line, OPTIONS, Claim(query_id="first", batch_id=4), batch(FIRST, 10))


def test_a_root_that_another_spout_task_has_begun_is_refused_and_stays_as_it_is(
    memory: MemoryAcker, line: Line
) -> None:
    begin(line, replace(OPTIONS, spout_task="other"), OTHER, taken := batch(OTHER, 10))
    for _ in range(2):
        with pytest.raises(AnotherQuery, match="message id '10'"):
            begin(line, OPTIONS, FIRST, batch(FIRST, 10))
    finish(line, taken)
    assert (memory.completions("other"), memory.completions("reader")) == (["10"], [])


@pytest.mark.parametrize("roots", [(10, 20), (10, 20, 30)])
def test_a_root_that_is_not_the_first_and_another_spout_task_has_begun_is_refused_in_the_same_words(
    line: Line, roots: tuple[int, ...]
) -> None:
    begin(line, replace(OPTIONS, spout_task="other"), OTHER, batch(OTHER, 20))
    for _ in range(2):
        with pytest.raises(AnotherQuery, match="message id '20'"):
            begin(line, OPTIONS, FIRST, batch(FIRST, *roots))


def test_roots_that_find_no_place_end_the_batch_in_words_and_not_never(memory: MemoryAcker, line: Line) -> None:
    memory.refusals.extend([OperationState.MAX_SPOUT_PENDING] * 1_000)
    with pytest.raises(NoRoom, match="max_spout_pending"):
        begin(line, OPTIONS, FIRST, batch(FIRST, 10, 20, 30))


def test_a_batch_whose_program_gives_another_leader_when_it_is_run_again_is_refused_and_told_what_to_do(
    memory: MemoryAcker, line: Line
) -> None:
    """What it had begun stays as it is; when that has ended, the batch runs."""
    begin(line, OPTIONS, FIRST, taken := batch(FIRST, 20))
    changed = batch(FIRST, 10, 20)
    with pytest.raises(AnotherQuery, match="start it again when that root is done or has timed out"):
        begin(line, OPTIONS, FIRST, changed)
    assert memory.completions("reader") == ["10"]
    finish(line, taken)
    assert sorted(memory.completions("reader")) == ["10", "20"]
    assert begin(line, OPTIONS, FIRST, batch(FIRST, 5, 20)) == 1
