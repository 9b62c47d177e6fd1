"""Tests a spout task in one process: its registration, its free slots, and the check of its overdue roots."""

from collections.abc import Callable
from contextlib import nullcontext

import httpx
import pytest
from acker_client import MaxSpoutPending, OperationState, Outcome, UsageError
from acker_client._core.pending_roots import GRACE_S
from acker_client.testing import Clock, MemoryAcker
from acker_protocol.errors import StoreUnavailable, UnknownTopology
from acker_protocol.states import TopologyRules

TIMEOUT_S = TopologyRules().message_timeout_ms / 1000


@pytest.fixture
def shared(acker):
    return acker.shared_spout("orders")


@pytest.fixture
def own(acker):
    return acker.spout("orders")


def emit(spout, message_id: str = "42", **timeouts) -> str:
    with spout.emit(message_id=message_id, **timeouts) as root:
        root.anchor("bill")
    return root.root_id


def read(spout) -> list[tuple[str, str]]:
    return [(done.message_id, done.outcome.value) for done in spout.completions(until=0.5, poll_timeout=0.1)]


def told(service) -> list[str]:
    """What was asked, but for the operations."""
    return [
        f"{request.method} {request.url.path.removeprefix('/v1/topologies/default')}" for request in service.requests
    ]


def test_a_name_of_its_own_is_ephemeral_before_its_first_emit(own, service):
    with own.emit(message_id="42"):
        assert service.store.ephemeral == {own.name}
        assert service.writes() == []
    emit(own)
    assert [line for line in told(service) if line.startswith("PUT")] == [f"PUT /spouts/{own.name}"]


def test_a_shared_name_is_not_registered(shared, service):
    emit(shared)
    assert service.store.ephemeral == set()
    assert not any(line.startswith("PUT") for line in told(service))


def test_a_root_that_is_not_tracked_registers_nothing(own, service):
    with own.emit():
        pass
    assert service.requests == []


def test_a_spout_asked_for_twice_is_one(acker, service):
    emit(acker.spout("orders"))
    emit(acker.spout("orders"))
    assert len([line for line in told(service) if line.startswith("PUT")]) == 1


def test_an_emit_waits_before_its_block_until_there_is_a_free_place(acker, shared, service, time, monkeypatch):
    service.store.max_spout_pending = 1
    emit(shared, message_timeout=10)
    before = time.now
    with shared.emit(message_id="43"):
        assert 10 <= time.now - before <= 16
    assert OperationState.MAX_SPOUT_PENDING not in service.refusals


def test_an_emit_that_finds_no_place_raises_before_its_block(connect, service):
    service.store.max_spout_pending = 1
    with connect(emit_timeout=2) as acker:
        emit(acker.spout("orders"))
        with pytest.raises(MaxSpoutPending), acker.spout("orders").emit(message_id="43"):
            pytest.fail("the block was entered")
    assert len(service.writes("init")) == 1


def test_the_places_are_asked_for_once_for_as_many_as_are_free(shared, service):
    service.store.max_spout_pending = 10
    for number in range(10):
        emit(shared, str(number))
    assert told(service).count("GET /spouts/orders") == 1


def test_without_a_cap_nobody_asks_for_places(shared, service):
    for number in range(10):
        emit(shared, str(number))
    assert told(service).count("GET /spouts/orders") == 0


def test_an_exception_in_the_block_gives_the_place_back(shared, service):
    service.store.max_spout_pending = 1
    for _ in range(3):
        with pytest.raises(ValueError, match="no"), shared.emit(message_id="42"):
            raise ValueError("no")
    assert service.writes() == []
    emit(shared)


def test_a_place_that_somebody_else_has_taken_is_waited_for_on_leaving_the_block(shared, service):
    service.store.max_spout_pending = 2
    service.refusals += [OperationState.MAX_SPOUT_PENDING]
    emit(shared)
    assert len(service.writes("init")) == 2


def test_inits_of_a_batch_do_not_wait_before_their_blocks(acker, shared, service):
    service.store.max_spout_pending = 1
    with acker.batch():
        emit(shared, "1", message_timeout=1)
        emit(shared, "2", message_timeout=4)
    assert len(service.writes("init")) > 0


def test_a_root_that_the_store_has_lost_is_reported_as_timed_out_after_its_deadline_and_a_grace(own, service, time):
    emit(own)
    service.reset()
    time.advance(TIMEOUT_S + GRACE_S - 1)
    assert read(own) == []
    time.advance(2)
    assert read(own) == [("42", "timed_out")]
    assert read(own) == []


def test_a_root_of_a_topology_that_is_gone_is_reported_and_then_the_reading_ends(own, service, time):
    emit(own)
    service.exists = False
    assert read(own) == []
    time.advance(TIMEOUT_S + GRACE_S)
    completions = own.completions()
    assert next(completions).outcome is Outcome.TIMED_OUT
    with pytest.raises(UnknownTopology):
        next(completions)


def test_a_root_whose_init_the_store_has_lost_and_whose_acks_came_later_is_reported_as_timed_out(
    acker, own, service, time
):
    with own.emit(message_id="42") as root:
        tup = acker.receive(root.headers("bill"), component="bill")
    service.reset()
    time.advance(TIMEOUT_S + GRACE_S)
    acker.ack(tup)
    assert read(own) == [("42", "timed_out")]


def test_a_root_that_is_still_pending_is_asked_about_again_after_its_new_deadline(acker, own, service, time):
    with own.emit(message_id="42") as root:
        tup = acker.receive(root.headers("bill"), component="bill")
    time.advance(TIMEOUT_S - 1)
    acker.reset_timeout(tup)
    time.advance(GRACE_S + 2)
    assert read(own) == []
    assert told(service).count(f"GET /roots/{root.root_id}") == 1
    time.advance(TIMEOUT_S - GRACE_S - 2)
    assert read(own) == [("42", "timed_out")]
    assert told(service).count(f"GET /roots/{root.root_id}") == 1


def test_a_finished_root_whose_completion_was_lost_is_reported_with_its_outcome(acker, own, service, time):
    service.store.rules = TopologyRules(retention_ms=3_600_000)
    with own.emit(message_id="42") as root:
        tup = acker.receive(root.headers("bill"), component="bill")
    acker.ack(tup)
    service.store.mailboxes[own.name].clear()
    time.advance(TIMEOUT_S + GRACE_S)
    assert read(own) == [("42", "acked")]


def test_a_completion_that_is_still_in_the_mailbox_comes_from_it_and_once(own, service, time):
    root_id = emit(own)
    time.advance(TIMEOUT_S + GRACE_S + 1)
    [done] = own.completions(until=0.5, poll_timeout=0.1)
    assert (done.root_id, done.outcome, done.reason) == (root_id, Outcome.TIMED_OUT, None)
    assert read(own) == []


def test_a_root_reported_in_time_is_not_asked_about(acker, own, service, time):
    with own.emit(message_id="42") as root:
        pass
    assert read(own) == [("42", "acked")]
    time.advance(TIMEOUT_S + GRACE_S)
    assert read(own) == []
    assert f"GET /roots/{root.root_id}" not in told(service)


def test_an_unreachable_service_is_waited_for(own, service, time, connect):
    emit(own)
    service.reset()
    time.advance(TIMEOUT_S + GRACE_S)
    service.faults += [StoreUnavailable("down", retryable=False)]
    assert read(own) == []
    time.advance(GRACE_S)
    assert read(own) == [("42", "timed_out")]


def test_a_root_whose_report_was_interrupted_is_reported_again(own, service, time):
    emit(own)
    service.reset()
    time.advance(TIMEOUT_S + GRACE_S)
    with pytest.raises(ZeroDivisionError):
        own.listen(on_fail=lambda _: 1 / 0, until=0.5, poll_timeout=0.1)
    assert read(own) == [("42", "timed_out")]


class Outage(Clock):
    """Nobody answers until a time; then ``come_first`` is called, once, before the request that waits is sent again."""

    def __init__(self) -> None:
        super().__init__()
        self.service = MemoryAcker(clock=self)
        self.ends_at = 0.0
        self.come_first: Callable[[], object] | None = None

    def begin(self, seconds: float, come_first: Callable[[], object]) -> None:
        self.ends_at, self.come_first = self.now + seconds, come_first
        self.service.faults.append(httpx.ConnectError("refused"))

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.now < self.ends_at:
            self.service.faults.append(httpx.ConnectError("refused"))
        elif self.come_first is not None:
            come_first, self.come_first = self.come_first, None
            come_first()


@pytest.mark.parametrize("in_batch", [False, True])
@pytest.mark.parametrize("is_early", [False, True])
def test_a_root_whose_init_is_on_its_way_for_longer_than_its_timeout_is_not_reported(*, in_batch, is_early):
    """The service does not know it yet, or by an ack alone."""
    outage, reported = Outage(), []
    with outage.service.acker(linger=0) as acker, outage.service.acker(linger=0) as elsewhere:
        spout = acker.spout("orders")
        emit(spout, "41", message_timeout=300)

        def come_first():
            if is_early:
                one.ack()
            reported.extend(read(spout))

        with acker.batch() if in_batch else nullcontext(), spout.emit(message_id="42") as root:
            one, other = (elsewhere.receive(root.headers(key), component="bill") for key in ("bill", "ship"))
            outage.begin(TIMEOUT_S + GRACE_S + 1, come_first)
        assert (outage.come_first, reported) == (None, [])
        if not is_early:
            one.ack()
        other.ack()
        assert read(spout) == [("42", "acked")]


def test_a_root_whose_init_never_came_is_reported_when_it_can_come_no_more(connect, service, time):
    """As of a batch whose block was interrupted."""
    with connect(retry_timeout=100, emit_timeout=20) as acker:
        spout = acker.spout("orders")
        emit(spout, "41", message_timeout=3_600)
        with pytest.raises(KeyboardInterrupt), acker.batch():
            raise KeyboardInterrupt(emit(spout))
        time.advance(119)
        assert read(spout) == []
        time.advance(GRACE_S)
        assert read(spout) == [("42", "timed_out")]


def test_what_is_kept_of_roots_whose_completions_came_does_not_grow_with_their_timeout(acker, own):
    for _ in range(5):
        with acker.batch():
            for number in range(1_000):
                with own.emit(message_id=str(number), message_timeout=86_400):
                    pass
        assert sum(1 for _ in own.completions(until=0, page_size=1_000)) == 1_000
    assert len(own._task.pending) == 0
    assert len(own._task.pending._due) <= 3_000


def test_a_shared_name_that_is_only_emitted_under_holds_no_roots(shared):
    emit(shared)
    assert len(shared._task.pending) == 0


def test_a_shared_name_that_is_read_here_has_the_net_too(shared, service, time):
    read(shared)
    emit(shared)
    service.reset()
    time.advance(TIMEOUT_S + GRACE_S)
    assert read(shared) == [("42", "timed_out")]


def test_a_root_that_found_no_place_is_not_waited_for(acker, own, service):
    service.refusals += [OperationState.STORE_FULL] * 1_000
    with pytest.raises(Exception, match="'42'"):
        emit(own)
    with pytest.raises(Exception, match="store_full"), acker.batch():
        emit(own)
    assert len(own._task.pending) == 0


def test_a_root_of_unknown_outcome_is_not_waited_for(own, service):
    emit(own)
    service.faults += [httpx.ConnectError("refused")] * 1_000
    with pytest.raises(Exception, match="not known"):
        emit(own, "43")
    assert len(own._task.pending) == 1


def test_a_name_that_the_store_has_lost_is_registered_again(own, service):
    emit(own)
    service.reset()
    read(own)
    emit(own, "43")
    assert service.store.ephemeral == {own.name}


def test_roots_in_the_hand_take_places_too(shared, service):
    service.store.max_spout_pending = 2
    with shared.emit(message_id="1"):
        emit(shared, "2", message_timeout=4)
        assert service.store.pending("orders") == 1
        with shared.emit(message_id="3"):
            assert service.store.pending("orders") == 0


def test_a_deadline_is_never_further_away_than_the_timeout_whatever_the_clocks_say(service, time, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: time.now - 3_600)
    with service.acker(linger=0) as acker:
        spout = acker.spout("orders")
        with spout.emit(message_id="42") as root:
            tup = acker.receive(root.headers("bill"), component="bill")
        time.advance(TIMEOUT_S - 1)
        acker.reset_timeout(tup)
        time.advance(GRACE_S + 2)
        assert read(spout) == []
        service.reset()
        time.advance(TIMEOUT_S + GRACE_S)
        assert read(spout) == [("42", "timed_out")]


def test_a_forked_child_is_refused_its_parents_own_name_and_takes_another(acker, own, shared, service):
    emit(own)
    acker.after_fork_in_child()
    with pytest.raises(UsageError, match="forked"), own.emit(message_id="43"):
        pytest.fail("the block was entered")
    with pytest.raises(UsageError, match="forked"):
        read(own)
    emit(acker.spout("orders"), "43")


def test_a_forked_child_may_emit_under_a_shared_name_and_holds_none_of_its_parents_roots(acker, shared, service):
    read(shared)
    emit(shared)
    acker.after_fork_in_child()
    assert len(shared._task.pending) == 0
    emit(shared, "43")
    assert [body["message_id"] for body in service.bodies("init")] == ["42", "43"]
