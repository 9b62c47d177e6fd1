"""Tests the tracking of Dramatiq's messages, with a worker, a broker and an acker in this process."""

import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import dramatiq
import pytest
from acker_client import propagate
from acker_client.integrations.dramatiq import AckerMiddleware, NotTracked
from acker_client.testing import MemoryAcker
from dramatiq.broker import MessageProxy
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.errors import Retry
from dramatiq.middleware import AgeLimit, GroupCallbacks, Middleware, SkipMessage
from dramatiq.rate_limits.backends import StubBackend

from tests.support.waiting import eventually_true

WITHIN_S = 30.0
FOREIGN_NAMES = ("_private", "crm:sync_contact", "发送.邮件", "a" * 150, "\N{ROCKET}", "send mail", "...")


class Skips(Middleware):
    """Skips the messages of an actor."""

    def before_process_message(self, _broker: Any, message: Any) -> None:
        if message.actor_name == "skipped":
            raise SkipMessage("not today")


@pytest.fixture
def memory() -> MemoryAcker:
    return MemoryAcker(dedupe_window=600)


@pytest.fixture
def tasks(memory: MemoryAcker) -> Iterator[SimpleNamespace]:
    """The actors, and a worker."""
    broker = StubBroker()
    broker.add_middleware(GroupCallbacks(StubBackend()))
    broker.add_middleware(Skips())
    acker = memory.acker()
    middleware = AckerMiddleware(acker, strict=True)
    broker.add_middleware(middleware, before=AgeLimit)
    tasks = SimpleNamespace(broker=broker, acker=acker, middleware=middleware, done=[], tries={})
    _define(broker, tasks)
    dramatiq.set_broker(broker)  # pipelines ask for it
    worker = dramatiq.Worker(broker, worker_timeout=50, worker_threads=2)
    worker.start()
    yield tasks
    worker.stop()
    broker.close()
    acker.close()


def _define(broker: StubBroker, tasks: SimpleNamespace) -> None:  # noqa: C901 - one after the other
    """Define the tasks, which note in ``tasks`` what they have done."""
    actor = _actors(broker)

    @actor()
    def leaf(work: Any) -> None:
        tasks.done.append(work)

    @actor()
    def step(work: Any) -> Any:
        tasks.done.append(work)
        return work

    @actor()
    def last(*results: Any) -> None:
        tasks.done.append(("last", results))

    @actor()
    def fan(depth: int) -> None:
        for _ in range(2 if depth else 0):
            fan.send(depth - 1)
        tasks.done.append(depth)

    @actor()
    def skipped() -> None:
        tasks.done.append("skipped")

    @actor()
    def starts_threads() -> None:
        def send(work: str) -> None:
            try:
                leaf.send(work)
            except NotTracked as error:
                tasks.done.append(str(error))

        for target, arguments in ((send, ("alone",)), (contextvars.copy_context().run, (send, "in a copy"))):
            thread = threading.Thread(target=target, args=arguments)
            thread.start()
            thread.join()

    for name in FOREIGN_NAMES:
        actor(actor_name=name)(fan.fn)

    _hold(tasks, leaf, step, last, fan, skipped, starts_threads)
    _define_failing(broker, tasks)


def _define_failing(broker: StubBroker, tasks: SimpleNamespace) -> None:
    """Define the tasks that fail, in some tries or for good, and the one that is told of a failure."""
    actor = _actors(broker)

    @actor(max_retries=3)
    def retries(name: str, sends: bool, told: bool) -> None:  # noqa: FBT001
        tasks.tries[name] = tasks.tries.get(name, 0) + 1
        if sends:
            tasks.leaf.send(f"{name} {tasks.tries[name]}")
        if tasks.tries[name] < 3:
            raise Retry(delay=1)
        tasks.done.append(name)

    @actor()
    def failure(_message: Any, _error: Any) -> None:
        tasks.done.append("told")

    @actor()
    def fails() -> None:
        raise ValueError("for good")

    _hold(tasks, retries, failure, fails)


def _actors(broker: StubBroker) -> Callable[..., Any]:
    def actor(**options: Any) -> Any:
        return dramatiq.actor(broker=broker, **({"max_retries": 0} | options))

    return actor


def _hold(tasks: SimpleNamespace, *defined: Any) -> None:
    for each in defined:
        setattr(tasks, each.actor_name, each)


@pytest.fixture
def run(tasks: SimpleNamespace):
    """Emit a root, send in its block, and give its outcome and what was done by then."""
    spout = tasks.acker.shared_spout("orders")

    def emitted(send):
        ends = []
        with spout.emit("42"):
            send()

        def read():
            ends.extend((str(each.outcome), list(tasks.done), each.reason) for each in spout.completions(until=0))
            return ends

        eventually_true(read, within=WITHIN_S)
        return ends[0]

    return emitted


def test_a_tree_that_grows_while_it_runs_is_one_tree(tasks, run):
    outcome, done, _ = run(lambda: tasks.fan.send(3))
    assert (outcome, len(done)) == ("acked", 15)


@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("told", [False, True])
def test_a_retried_message_is_open_until_its_last_try(tasks, run, sends, told):
    options = {"on_failure": "failure"} if told else {}
    outcome, done, _ = run(lambda: tasks.retries.send_with_options(args=("retried", sends, told), **options))
    assert (outcome, "retried" in done, len(done)) == ("acked", True, 1 + 3 * sends + 2 * told)


@pytest.mark.parametrize("name", FOREIGN_NAMES)
def test_a_message_for_an_actor_of_any_name_belongs_to_the_tree(tasks, run, name):
    outcome, done, _ = run(lambda: tasks.broker.get_actor(name).send(1))
    assert (outcome, sorted(done)) == ("acked", [0, 0, 1])


@pytest.mark.parametrize("name", FOREIGN_NAMES)
def test_a_message_for_an_actor_of_any_name_that_no_worker_knows_fails_the_tree(tasks, run, name):
    assert run(lambda: tasks.broker.enqueue(tasks.leaf.message(1).copy(actor_name=f"{name}?")))[0] == "failed"


def test_a_message_that_fails_for_good_fails_the_tree(tasks, run):
    assert run(tasks.fails.send)[::2] == ("failed", "for good")


def test_a_message_that_a_middleware_skips_is_acked(tasks, run):
    assert run(tasks.skipped.send)[:2] == ("acked", [])


def test_a_message_that_is_too_old_fails_the_tree(tasks, run):
    def send():
        message = tasks.leaf.message_with_options(args=("late",), max_age=1)
        tasks.broker.enqueue(message.copy(), delay=20)

    assert run(send) == ("failed", [], "skipped")


def test_a_message_for_an_unknown_actor_fails_the_tree(tasks, run):
    outcome, _, reason = run(lambda: tasks.broker.enqueue(tasks.leaf.message(1).copy(actor_name="unknown")))
    assert (outcome, reason) == ("failed", "no such actor")


def test_a_pipeline_is_one_tree(tasks, run):
    line = tasks.step.message(1) | tasks.step.message() | tasks.last.message()
    outcome, done, _ = run(line.run)
    assert (outcome, done) == ("acked", [1, 1, ("last", (1,))])


def test_a_delayed_message_is_one_child(tasks, run):
    assert run(lambda: tasks.leaf.send_with_options(args=(1,), delay=30))[:2] == ("acked", [1])


def test_the_callback_of_a_group_is_anchored_to_what_runs_the_group(tasks, run, memory):
    def send():
        line = tasks.step.message(1) | tasks.leaf.message_with_options(args=(2,), pipe_ignore=True)
        made = dramatiq.group([line, tasks.leaf.message(3)], broker=tasks.broker)
        made.add_completion_callback(tasks.last.message())
        made.run()

    outcome, done, _ = run(send)
    assert (outcome, done[-1], len(done)) == ("acked", ("last", ()), 4)
    [init] = [each for each in memory.applied if type(each).__name__ == "Init"]
    assert init.outstanding == 3  # two messages and the callback


def test_one_message_object_that_is_sent_in_two_roots_is_a_child_of_each(tasks, run):
    message = tasks.leaf.message(1)
    assert run(lambda: tasks.broker.enqueue(message))[:2] == ("acked", [1])
    assert run(lambda: tasks.broker.enqueue(message))[:2] == ("acked", [1, 1])


def test_a_broker_that_sends_again_on_another_connection_keeps_the_edge(tasks, run):
    def send():
        message = tasks.leaf.message(1)
        tasks.broker.emit_before("enqueue", message, None)
        first = message.options["acker_anchors"]
        tasks.broker.emit_before("enqueue", message, None)
        assert message.options["acker_anchors"] == first
        with propagate.use(None):
            tasks.broker.enqueue(message)

    assert run(send)[:2] == ("acked", [1])


def test_a_thread_that_an_actor_starts_sends_children_in_a_copy_of_its_context_only(tasks, run):
    outcome, done, _ = run(tasks.starts_threads.send)
    assert outcome == "acked"
    refusal = "leaf was not sent: leaf is published where neither a tuple nor a root is current (strict=True)"
    assert sorted(done) == ["in a copy", refusal]


def test_a_worker_does_not_start_with_a_topology_without_a_dedupe_window():
    broker = StubBroker()
    with MemoryAcker(dedupe_window=0).acker() as acker:
        broker.add_middleware(AckerMiddleware(acker), before=AgeLimit)
        with pytest.raises(NotTracked, match="make the window longer"):
            dramatiq.Worker(broker).start()
    broker.close()


@pytest.mark.parametrize(
    ("broker", "worker_timeout", "expected_s"),
    [
        ({}, 1_000, 60 + 4_603 * 0.75),  # Dramatiq's defaults: one of 1,000 fetches, each after 0.75 s on average
        ({}, 100, 60 + 4_603 * 0.075),
        ({"maintenance_chance": 10_000}, 1_000, 60 + 458 * 0.75),
        ({"heartbeat_timeout": 5_000, "maintenance_chance": 500_000}, 1_000, 5 + 6.64 * 0.75),
        ({"maintenance_chance": 1_000_000}, 1_000, 60.75),
        ({"maintenance_chance": 0}, 1_000, float("inf")),
    ],
)
def test_a_dedupe_window_outlasts_the_maintenance_that_delivers_again(broker, worker_timeout, expected_s):
    redis = RedisBroker(**broker)
    with MemoryAcker(dedupe_window=1).acker() as acker:
        middleware = AckerMiddleware(acker)
        with pytest.raises(NotTracked, match="make the window longer"):
            middleware.before_worker_boot(redis, dramatiq.Worker(redis, worker_timeout=worker_timeout))
        assert middleware._redelivery_s() == pytest.approx(expected_s, rel=0.01)
    redis.close()


def test_a_sender_takes_the_timeout_of_workers_that_is_dramatiqs_default():
    redis = RedisBroker()
    with MemoryAcker(dedupe_window=600).acker() as acker:
        redis.add_middleware(AckerMiddleware(acker), before=AgeLimit)
        leaf = dramatiq.actor(broker=redis)(print)
        with acker.shared_spout("orders").emit("42"), pytest.raises(NotTracked, match=r"again after up to 351\d"):
            leaf.send()
    redis.close()


def test_a_message_that_cannot_be_anchored_is_not_sent(tasks):
    with tasks.acker.shared_spout("orders").emit("42") as root:
        pass
    with propagate.use(root), pytest.raises(NotTracked, match="has left its emit block"):
        tasks.leaf.send(1)
    assert tasks.broker.queues["default"].empty()


@pytest.mark.parametrize("flushes", [True, False])
def test_the_ack_is_delivered_before_the_queue_forgets_the_message(tasks, memory, flushes):
    with memory.acker(linger=1_000) as acker:
        middleware = AckerMiddleware(acker, flush_before_ack=flushes)
        with acker.shared_spout("flushed").emit("42") as root:
            anchors = root.headers()["Acker-Anchors"]
        message = MessageProxy(tasks.leaf.message_with_options(args=(1,), acker_anchors=anchors))
        middleware.before_process_message(tasks.broker, message)
        middleware.after_process_message(tasks.broker, message)
        assert memory.completions("flushed") == (["42"] if flushes else [])
        middleware.before_ack(tasks.broker, message)
        assert memory.completions("flushed") == (["42"] if flushes else [])


def test_a_worker_that_holds_a_message_keeps_its_roots_alive(tasks, memory):
    with tasks.acker.shared_spout("orders").emit("42") as root:
        anchors = root.headers()["Acker-Anchors"]
    for seconds in (5, 500):
        assert memory.writes("reset-timeout") == []
        eta = (time.time() + seconds) * 1_000
        message = tasks.leaf.message_with_options(args=(1,), acker_anchors=anchors, eta=eta)
        tasks.middleware.before_delay_message(tasks.broker, MessageProxy(message))
    eventually_true(lambda: memory.writes("reset-timeout"), within=WITHIN_S)


@pytest.mark.parametrize("ended", [True, False])
def test_a_message_whose_roots_have_ended_is_skipped_and_any_other_is_processed(
    memory: MemoryAcker, *, ended: bool
) -> None:
    broker, acker = StubBroker(), memory.acker()
    broker.add_middleware(AckerMiddleware(acker, skip_ended=True), before=AgeLimit)
    tasks = SimpleNamespace(broker=broker, acker=acker, done=[], tries={})
    _define(broker, tasks)
    with acker.shared_spout("orders").emit(message_id="42") as root:
        tasks.leaf.send("first")
        tasks.leaf.send("second")
        other = root.headers("other")
    if ended:
        with memory.acker() as elsewhere:
            elsewhere.receive(other, component="other").fail("no such page")
    writes = len(memory.writes())
    worker = dramatiq.Worker(broker, worker_timeout=50, worker_threads=2)
    worker.start()
    broker.join("default", timeout=WITHIN_S * 1_000)
    worker.join()
    worker.stop()
    assert sorted(tasks.done) == ([] if ended else ["first", "second"])
    assert acker.stats().skipped == (2 if ended else 0)
    assert (len(memory.writes()) == writes) == ended
    assert not broker.dead_letters
    acker.close()


def test_a_tree_that_times_out_tells_which_actor_was_done_last(tasks, memory):
    spout = tasks.acker.shared_spout("hangs")
    with spout.emit("42") as root:
        root.anchor()  # nobody processes this one
        tasks.step.send(1)
    acked_at = memory.clock.now
    eventually_true(lambda: memory.roots[int(root.root_id, 16)].last_component, within=WITHIN_S)
    memory.clock.advance(31)
    [done] = spout.completions(until=0)
    assert (done.outcome, done.component, done.last_component) == ("timed_out", None, "step")
    assert (done.last_ack_at, done.outstanding) == (acked_at, 1)
