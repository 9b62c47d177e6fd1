"""Tests a spout that sends again what failed."""

from itertools import pairwise

import pytest
from acker_client import BatchError, OperationsLost, OperationState, Outcome, ReplayPolicy, UsageError
from acker_protocol.errors import Unauthorized

TIMES = {"until": 30, "poll_timeout": 1}


class Queue:
    """Somebody who sends, and fails or acks the tuples of each attempt."""

    def __init__(self, acker, *, fails: int = 0, breaks: int = 0) -> None:
        self.acker = acker
        self.fails = fails
        self.breaks = breaks
        self.sent: list[tuple[str, int]] = []
        self.roots: list[str] = []

    def send(self, root, payload) -> None:
        if self.breaks:
            self.breaks -= 1
            raise ConnectionError("the queue is down")
        self.sent.append((payload, root.attempt))
        self.roots.append(root.root_id)
        tup = self.acker.receive(root.headers("bill"), component="bill")
        if self.fails:
            self.fails -= 1
            self.acker.fail(tup, reason="no")
        else:
            self.acker.ack(tup)


@pytest.fixture
def spout(acker):
    return acker.spout("orders")


def test_a_message_that_fails_is_sent_again_as_a_new_root_with_the_same_message_id(acker, spout, service):
    queue, acked = Queue(acker, fails=2), []
    replay = spout.replay(queue.send)
    replay.emit("42", "body")
    replay.run(on_ack=acked.append, **TIMES)
    assert queue.sent == [("body", 1), ("body", 2), ("body", 3)]
    assert len(set(queue.roots)) == 3
    assert [body["message_id"] for body in service.bodies("init")] == ["42"] * 3
    assert acked == ["42"]
    assert replay.pending == 0


def test_a_message_that_times_out_is_sent_again(acker, spout, time):
    sent = []

    def send(root, _):
        sent.append(root.attempt)
        root.anchor("bill")

    replay = spout.replay(send)
    replay.emit("42", message_timeout=1)
    replay.run(until=3, poll_timeout=1)
    assert sent[:2] == [1, 2]


def test_the_waits_double_up_to_the_longest(time):
    time.jitter_value = 1.0
    policy = ReplayPolicy(max_attempts=6, wait_initial=1, wait_max=5)
    waits = [policy.wait_s(attempt, time) for attempt in range(1, 6)]
    assert waits == [1, 2, 4, 5, 5]


def test_no_attempt_is_sent_before_its_time(connect, time):
    time.jitter_value = 1.0
    with connect() as acker:
        at: list[float] = []
        queue = Queue(acker, fails=3)
        policy = ReplayPolicy(wait_initial=2)
        replay = acker.spout("orders").replay(lambda *given: [at.append(time.now), queue.send(*given)], policy)
        replay.emit("42")
        replay.run(**TIMES)
    gaps = [later - earlier for earlier, later in pairwise(at)]
    assert [gap >= wait for gap, wait in zip(gaps, (2, 4, 8), strict=True)] == [True] * 3
    assert sum(gaps) < 20


def test_after_all_attempts_the_message_goes_to_the_dead_letter_function(acker, spout, service):
    queue, given_up, acked = Queue(acker, fails=99), [], []
    replay = spout.replay(queue.send, ReplayPolicy(max_attempts=3, wait_initial=0.1), on_exhausted=given_up.append)
    replay.emit("42", "body")
    replay.run(on_ack=acked.append, **TIMES)
    assert [attempt for _, attempt in queue.sent] == [1, 2, 3]
    [dead] = given_up
    assert (dead.message_id, dead.message.payload, dead.message.attempt) == ("42", "body", 3)
    assert (dead.completion.outcome, dead.completion.reason) == (Outcome.FAILED, "no")
    assert (acked, replay.pending, service.completions(spout.name)) == ([], 0, [])


def test_an_attempt_that_could_not_be_sent_has_failed_like_any_other(acker, spout):
    queue, acked, given_up = Queue(acker, fails=1), [], []
    policy = ReplayPolicy(max_attempts=3, wait_initial=0.1)
    replay = spout.replay(queue.send, policy, on_exhausted=given_up.append)
    replay.emit("42", "body")
    queue.breaks = 1
    replay.run(on_ack=acked.append, **TIMES)
    assert ([attempt for _, attempt in queue.sent], acked, given_up) == ([1, 3], ["42"], [])
    queue.fails, queue.breaks = 1, 0
    replay.emit("43", "body")
    queue.breaks = 9
    replay.run(**TIMES)
    assert (given_up[0].message_id, str(given_up[0].error)) == ("43", "the queue is down")


def test_a_first_attempt_that_cannot_be_sent_is_the_callers(acker, spout, service):
    queue = Queue(acker, breaks=1)
    replay = spout.replay(queue.send)
    with pytest.raises(ConnectionError):
        replay.emit("42")
    assert (replay.pending, service.writes()) == (0, [])


@pytest.mark.parametrize("shared", [False, True])
def test_a_first_attempt_that_a_batch_may_not_begin_is_the_callers(acker, service, *, shared):
    spout = acker.shared_spout("orders") if shared else acker.spout("orders")
    queue, acked = Queue(acker), []
    replay = spout.replay(queue.send)
    with acker.batch():
        replay.emit("41")
    service.refusals += [OperationState.MAILBOX_FULL] * 1_000
    with pytest.raises(BatchError), acker.batch():
        replay.emit("42")
    assert replay.pending == 1
    service.refusals.clear()
    replay.run(on_ack=acked.append, **TIMES)
    assert (acked, replay.pending) == (["41"], 0)


def test_a_later_attempt_that_a_batch_may_not_begin_is_made_again(acker, spout, service):
    queue, acked = Queue(acker, fails=1), []
    replay = spout.replay(queue.send, ReplayPolicy(wait_initial=0.1))
    replay.emit("42")
    service.refusals += [OperationState.MAILBOX_FULL] * 1_000
    with pytest.raises(BatchError), acker.batch():
        replay.run(**TIMES)
    assert replay.pending == 1
    service.refusals.clear()
    replay.run(on_ack=acked.append, **TIMES)
    assert ([attempt for _, attempt in queue.sent], acked, replay.pending) == ([1, 2, 2], ["42"], 0)


def test_a_message_whose_batch_does_not_get_through_times_out_and_is_emitted_again(acker, service):
    queue, acked = Queue(acker), []
    replay = acker.shared_spout("orders").replay(queue.send)
    with acker.batch():
        replay.emit("41")
    service.faults += [Unauthorized("no key")]
    with pytest.raises(Unauthorized), acker.batch():
        replay.emit("42", message_timeout=1)
    replay.run(on_ack=acked.append, until=200, poll_timeout=1)  # its init may be on its way for as long
    assert ([attempt for _, attempt in queue.sent], acked, replay.pending) == ([1, 1, 2], ["41", "42"], 0)


def test_what_an_earlier_ack_came_to_does_not_cost_the_message(acker, spout):
    queue, acked = Queue(acker, fails=1), []
    replay = spout.replay(queue.send, ReplayPolicy(wait_initial=0.1))
    replay.emit("42")
    outbox = acker._submitter.flusher.buffer
    outbox.failures.append((1, ConnectionError("lost")))
    with pytest.raises(OperationsLost):
        replay.run(**TIMES)
    replay.run(on_ack=acked.append, **TIMES)
    assert acked == ["42"]


def test_a_message_that_nobody_here_has_is_given_up_at_once(acker, spout):
    given_up = []
    with spout.emit(message_id="42") as root:
        acker.fail(acker.receive(root.headers("bill"), component="bill"))
    spout.replay(pytest.fail, on_exhausted=given_up.append).run(**TIMES)
    assert [(dead.message_id, dead.message) for dead in given_up] == [("42", None)]


def test_a_failure_that_is_sequence_twice_is_sent_again_once(acker, spout, service):
    queue, acked = Queue(acker, fails=1), []
    replay = spout.replay(queue.send, ReplayPolicy(wait_initial=5))
    replay.emit("42")
    mailbox = service.store.mailboxes[spout.name]
    mailbox.append((mailbox[-1][0] + 1, mailbox[-1][1]))
    service.store._sequence += 1
    replay.run(on_ack=acked.append, **TIMES)
    assert (len(queue.sent), acked) == (2, ["42"])


def test_a_dead_letter_function_that_raises_is_asked_again(acker, spout):
    queue, asked = Queue(acker, fails=1), []
    policy = ReplayPolicy(max_attempts=1)
    replay = spout.replay(queue.send, policy, on_exhausted=lambda dead: asked.append(dead) or 1 / (len(asked) - 1))
    replay.emit("42")
    with pytest.raises(ZeroDivisionError):
        replay.run(**TIMES)
    replay.run(**TIMES)
    assert len(asked) == 2


@pytest.mark.parametrize("policy", [{"max_attempts": 0}, {"wait_initial": -1}, {"wait_max": -1}])
def test_a_policy_that_cannot_be_is_refused(policy):
    with pytest.raises(UsageError):
        ReplayPolicy(**policy)
