"""Tests the acker in memory that users use in their own tests."""

import httpx
import pytest
from acker_client import Acker, Completion, OperationState, Outcome
from acker_client.testing import Clock, MemoryAcker, lost_reply
from acker_protocol.errors import UnknownRoot, UnknownTopology


def bill(acker: Acker) -> None:
    """A program of a user's: an order goes out and is billed."""
    with acker.shared_spout("orders").emit(message_id="42") as root:
        headers = root.headers("bill")
    with acker.receive(headers, component="bill"):
        pass


def outcomes(acker: Acker) -> list[tuple[str | None, Outcome]]:
    return [(done.message_id, done.outcome) for done in acker.shared_spout("orders").completions(until=0)]


def test_a_program_runs_against_it_and_its_roots_complete():
    memory = MemoryAcker("shop")
    with memory.acker() as acker:
        bill(acker)
        acker.flush()
        assert memory.completions("orders") == ["42"]
        assert outcomes(acker) == [("42", Outcome.ACKED)]
    assert memory.completions("orders") == []


def test_time_is_driven_by_the_test():
    memory = MemoryAcker()
    with memory.acker() as acker:
        with acker.shared_spout("orders").emit(message_id="42") as root:
            root.anchor("bill")
        memory.clock.advance(29)
        assert outcomes(acker) == []
        memory.clock.advance(2)
        assert outcomes(acker) == [("42", Outcome.TIMED_OUT)]


def test_a_root_is_failed_by_hand_as_in_the_acker():
    memory = MemoryAcker()
    with memory.acker() as acker:
        with acker.shared_spout("orders").emit(message_id="42") as root:
            root.anchor("bill")
        assert acker.roots.fail(root.root_id, "stuck") is OperationState.FAILED
        assert acker.roots.fail(root.root_id) is OperationState.FINISHED
        (done,) = acker.shared_spout("orders").completions(until=0)
        assert (done.outcome, done.reason) == (Outcome.FAILED, "forced: stuck")
        with pytest.raises(UnknownRoot):
            acker.roots.fail("00000000000000ff")


@pytest.mark.parametrize(
    ("dedupe_window", "outcome", "says"), [(0, Outcome.TIMED_OUT, "dedupe_window_ms is 0"), (60, Outcome.ACKED, None)]
)
def test_a_message_that_came_twice_ends_as_it_does_in_the_acker(dedupe_window, outcome, says):
    memory = MemoryAcker(dedupe_window=dedupe_window)
    with memory.acker() as acker:
        with acker.shared_spout("orders").emit(message_id="42") as root:
            deliveries = [root.headers("bill"), root.headers("ship")]
        for headers in (deliveries[0], *deliveries):
            with acker.receive(headers, component="bill"):
                pass
            acker.flush()
        memory.clock.advance(31)
        (done,) = acker.shared_spout("orders").completions(until=0)
        assert done.outcome is outcome
        assert (says in done.reason) if says else done.reason is None


def test_a_message_that_came_twice_while_the_store_was_full_ends_as_it_does_in_the_acker():
    memory = MemoryAcker()
    with memory.acker() as acker:
        with acker.shared_spout("orders").emit(message_id="42") as root:
            deliveries = [root.headers("bill"), root.headers("ship")]
        memory.store.is_full = True
        for headers in (deliveries[0], *deliveries):
            with acker.receive(headers, component="bill"):
                pass
            acker.flush()
        memory.clock.advance(31)
        (done,) = acker.shared_spout("orders").completions(until=0)
        assert done.outcome is Outcome.TIMED_OUT
        assert "in a full store" in done.reason


def test_two_programs_see_one_acker():
    memory = MemoryAcker(clock=Clock())
    with memory.acker() as one, memory.acker(linger=0) as other:
        bill(one)
        one.flush()
        assert [done.message_id for done in other.shared_spout("orders").completions(until=0)] == ["42"]


def test_a_lost_reply_can_be_played():
    memory = MemoryAcker()
    with memory.acker(linger=0) as acker:
        memory.faults += [None, lost_reply(httpx.ReadTimeout("lost"))]
        bill(acker)
    assert [type(message).__name__ for message in memory.applied] == ["Init", "Ack"]
    assert len(memory.writes("init")) == 2


def test_another_topology_is_not_there():
    memory = MemoryAcker("shop")
    acker = Acker("http://acker.test", topology="other", transport=memory.transport())
    with acker, pytest.raises(UnknownTopology, match="other"):
        bill(acker)


def test_the_completions_have_the_fields_of_the_contract():
    memory = MemoryAcker()
    with memory.acker(linger=0) as acker:
        bill(acker)
        [done] = acker.shared_spout("orders").completions(until=0)
    assert isinstance(done, Completion)
    assert (done.acked, len(done.id), done.at) == (True, 32, memory.clock.now)
