"""Tests the tracking of Celery's tasks, with a worker, a broker and an acker in this process."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from acker_client import UsageError, propagate
from acker_client._core.names import valid_name
from acker_client.integrations._celery_reading import visibility_timeout_s
from acker_client.integrations.celery import _Tracker, track
from acker_client.testing import MemoryAcker
from celery import Celery, Task, chain, chord, group, signals
from celery.contrib.testing.worker import start_worker
from celery.exceptions import Ignore, Reject
from celery.utils.dispatch import Signal
from kombu import Exchange, Producer, Queue

from tests.support.waiting import eventually_true

WITHIN_S = 30.0
FOREIGN_NAMES = ("_private", "crm:sync_contact", "发送.邮件", "a" * 150, "\N{ROCKET}", "send mail", "...")


@pytest.fixture(scope="module")
def memory() -> MemoryAcker:
    return MemoryAcker(dedupe_window=600)


@pytest.fixture(scope="module")
def tasks(memory: MemoryAcker) -> Iterator[SimpleNamespace]:
    """The tasks, and a worker that runs one at a time."""
    app = Celery("tracked", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1)
    app.conf.broker_transport_options = {"polling_interval": 0.01}
    acker = memory.acker()
    receivers = {name: list(value.receivers or ()) for name, value in _signals()}
    signals.setup_logging.connect(_keep_logging, weak=False)
    track(app, acker)
    tasks = SimpleNamespace(app=app, acker=acker, done=[], tries={})
    _define(app, tasks)
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=WITHIN_S):
        yield tasks
    for name, value in _signals():
        value.receivers = receivers[name]
    acker.close()


def _keep_logging(**_: Any) -> None:
    """Let no worker set the level of the root logger, which is that of other tests too."""


def _signals() -> list[tuple[str, Signal]]:
    return [(name, value) for name, value in vars(signals).items() if isinstance(value, Signal)]


def _define(app: Celery, tasks: SimpleNamespace) -> None:
    """Define the tasks, which note in ``tasks`` what they have done."""

    @app.task
    def leaf(work: Any) -> Any:
        tasks.done.append(work)
        return work

    @app.task
    def fan(depth: int) -> None:
        for _ in range(2 if depth else 0):
            fan.delay(depth - 1)
        tasks.done.append(depth)

    @app.task
    def body(results: list[Any]) -> None:
        tasks.done.append(("body", sorted(map(str, results))))

    @app.task(bind=True)
    def replaces(self: Task, kind: str) -> None:
        by = leaf.si("replacement")
        leaf.delay("child")
        raise self.replace(by if kind == "task" else group(by, leaf.si("another")))

    for name in FOREIGN_NAMES:
        app.task(name=name)(fan.run)

    _hold(tasks, leaf, fan, body, replaces)
    _define_failing(app, tasks)


def _define_failing(app: Celery, tasks: SimpleNamespace) -> None:  # noqa: C901 - one after the other
    """Define the tasks that fail, in some tries or for good."""

    @app.task(bind=True, max_retries=3)
    def retries(self: Task, name: str, *, sends: bool = False) -> None:
        tasks.tries[name] = tasks.tries.get(name, 0) + 1
        if sends:
            tasks.leaf.delay(f"{name} {tasks.tries[name]}")
        if tasks.tries[name] < 3:
            raise self.retry(countdown=0)
        tasks.done.append(name)

    @app.task
    def fails() -> None:
        raise ValueError("for good")

    @app.task
    def ignores() -> None:
        raise Ignore

    @app.task(bind=True)
    def stores_a_failure(self: Task, own_way: str, end: str) -> None:
        self.update_state(state="FAILURE", meta={"exc_type": "ValueError", "exc_message": ["no such page"]})
        if own_way == "fails its tuple":
            propagate.current().fail("no such page")
        if end == "ignores":
            raise Ignore
        if end == "retries":
            raise self.retry(countdown=0)

    @app.task
    def rejects() -> None:
        raise Reject("never", requeue=False)

    _hold(tasks, retries, fails, ignores, stores_a_failure, rejects)


def _hold(tasks: SimpleNamespace, *defined: Task) -> None:
    for task in defined:
        setattr(tasks, task.name.rpartition(".")[2], task)


@pytest.fixture
def run(tasks: SimpleNamespace, memory: MemoryAcker, request: pytest.FixtureRequest):
    """Emit a root, publish in its block, and give its outcome and what was done by then."""

    def emitted(publish):
        tasks.done.clear()
        spout = tasks.acker.shared_spout(valid_name(request.node.name))
        with spout.emit("42"):
            publish()
        until = time.monotonic() + WITHIN_S
        while time.monotonic() < until:
            for completion in spout.completions(until=0):
                return str(completion.outcome), list(tasks.done), completion.reason
            time.sleep(0.01)
        raise AssertionError(f"no completion; done: {tasks.done}")

    return emitted


def test_a_tree_that_grows_while_it_runs_is_one_tree(tasks, run):
    outcome, done, _ = run(lambda: tasks.fan.delay(3))
    assert (outcome, len(done)) == ("acked", 15)


@pytest.mark.parametrize("sends", [False, True])
def test_a_retried_task_is_open_until_its_last_try(tasks, run, sends):
    name = f"retried {sends}"
    outcome, done, _ = run(lambda: tasks.retries.delay(name, sends=sends))
    assert (outcome, name in done, len(done)) == ("acked", True, 4 if sends else 1)


@pytest.mark.parametrize("name", FOREIGN_NAMES)
def test_a_task_of_any_name_belongs_to_the_tree(tasks, run, name):
    outcome, done, _ = run(lambda: tasks.app.send_task(name, (1,)))
    assert (outcome, sorted(done)) == ("acked", [0, 0, 1])


@pytest.mark.parametrize("name", FOREIGN_NAMES)
def test_a_task_of_any_name_fails_the_tree(tasks, run, name):
    assert run(lambda: tasks.app.send_task(name, ("no number",)))[0] == "failed"


def test_a_task_that_fails_fails_the_tree(tasks, run):
    assert run(tasks.fails.delay)[::2] == ("failed", "for good")


def test_a_task_that_the_worker_does_not_know_fails_the_tree(tasks, run):
    assert run(lambda: tasks.app.send_task("unknown", (1,))) == ("failed", [], "no such task")


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_step_of_a_chain_that_the_worker_does_not_know_fails_the_tree(tasks, run, before):
    steps = [tasks.leaf.si(number) for number in range(3)]
    steps.insert(before, tasks.app.signature("unknown", immutable=True))
    assert run(chain(*steps).delay) == ("failed", list(range(before)), "no such task")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"content_type": "application/x-python-serialize"}, "Refusing to deserialize"),
        ({"body": "[[1], {}, "}, "Expecting value"),
        ({"headers": {"compression": "gzip"}}, "decompressing"),
        ({"headers": {"eta": "at noon"}}, "at noon"),
        ({"headers": {"task": None}}, "no such task"),
    ],
    ids=["type", "body", "compression", "eta", "task"],
)
def test_a_message_that_the_worker_refuses_fails_the_tree(tasks, run, monkeypatch, change, reason):
    """Its body is not accepted, cannot be decoded, or is not one of a task."""
    publish = Producer._publish

    def published(self, body, priority, content_type, content_encoding, headers, *others):
        headers = headers | change.get("headers", {})
        content_type = change.get("content_type", content_type)
        return publish(self, change.get("body", body), priority, content_type, content_encoding, headers, *others)

    monkeypatch.setattr(Producer, "_publish", published)
    outcome, done, found = run(lambda: tasks.leaf.delay(1))
    assert (outcome, done) == ("failed", [])
    assert reason in found


def test_a_task_that_the_worker_does_not_know_fails_the_tree_once_though_it_comes_again(tasks):
    tasks.done.clear()
    spout = tasks.acker.shared_spout("comes-again")
    with spout.emit("42") as root:
        anchors = root.headers()["Acker-Anchors"]
    for _ in range(3):
        tasks.app.send_task("unknown", headers={"acker_anchors": anchors})
    tasks.leaf.delay("after them")
    eventually_true(lambda: tasks.done, within=WITHIN_S)
    assert [completion.outcome for completion in spout.completions(until=0)] == ["failed"]


def test_what_the_worker_does_not_know_and_is_not_tracked_sends_nothing(tasks, memory):
    tasks.done.clear()
    before = len(memory.writes())
    tasks.app.send_task("unknown")
    tasks.leaf.delay("after it")
    eventually_true(lambda: tasks.done, within=WITHIN_S)
    assert len(memory.writes()) == before


def test_a_task_that_is_rejected_for_good_fails_the_tree(tasks, run):
    assert run(tasks.rejects.delay)[0] == "failed"


def test_a_task_that_ignores_its_message_is_acked(tasks, run):
    assert run(tasks.ignores.delay)[0] == "acked"


@pytest.mark.parametrize("end", ["ignores", "returns"])
def test_a_failure_that_a_task_stores_is_acked_unless_it_fails_its_tuple_too(tasks, run, end):
    assert run(lambda: tasks.stores_a_failure.delay("", end))[0] == "acked"


@pytest.mark.parametrize("end", ["ignores", "returns", "retries"])
def test_a_task_that_fails_its_tuple_itself_fails_the_tree(tasks, run, end):
    assert run(lambda: tasks.stores_a_failure.delay("fails its tuple", end)) == ("failed", [], "no such page")


def test_a_chain_is_one_tree(tasks, run):
    outcome, done, _ = run(lambda: chain(tasks.leaf.s(1), tasks.leaf.si(2), tasks.leaf.si(3)).delay())
    assert (outcome, done) == ("acked", [1, 2, 3])


def test_a_group_and_a_link_are_one_tree(tasks, run):
    linked = tasks.leaf.signature((2,), link=tasks.leaf.si(3))
    outcome, done, _ = run(lambda: group(tasks.leaf.s(1), linked).delay())
    assert (outcome, sorted(done)) == ("acked", [1, 2, 3])


def test_the_body_of_a_chord_is_part_of_the_tree(tasks, run):
    outcome, done, _ = run(lambda: chord([tasks.leaf.s(1), tasks.leaf.s(2)], tasks.body.s()).delay())
    assert (outcome, done[-1]) == ("acked", ("body", ["1", "2"]))


def test_the_body_of_a_chord_is_anchored_to_what_makes_the_chord(tasks, run, memory):
    before = len(memory.applied)
    run(lambda: chord([tasks.leaf.s(1), tasks.leaf.s(2)], tasks.body.s()).delay())
    [init] = [each for each in memory.applied[before:] if type(each).__name__ == "Init"]
    assert init.outstanding == 3


def test_a_chord_within_a_chord_is_one_tree(tasks, run):
    def publish():
        inner = chord([tasks.leaf.s(1), tasks.leaf.s(2)], tasks.leaf.si("inner body"))
        chord([inner, chain(tasks.leaf.si(3), tasks.leaf.si(4)), tasks.leaf.s(5)], tasks.body.s()).delay()

    outcome, done, _ = run(publish)
    assert outcome == "acked"
    assert done[-1] == ("body", ["4", "5", "inner body"])


@pytest.mark.parametrize(("kind", "more"), [("task", set()), ("group", {"another"})])
def test_a_replaced_task_is_acked_when_its_replacement_is_done(tasks, run, kind, more):
    outcome, done, _ = run(lambda: tasks.replaces.delay(kind))
    assert (outcome, set(done)) == ("acked", {"child", "replacement"} | more)


def test_a_task_that_is_published_outside_is_not_tracked(tasks, memory):
    tasks.done.clear()
    before = len(memory.writes())
    tasks.leaf.delay("untracked")
    eventually_true(lambda: tasks.done, within=WITHIN_S)
    assert len(memory.writes()) == before


def test_strict_refuses_to_publish_where_nothing_is_current(memory):
    app = Celery("strict", broker="memory://", set_as_current=False)
    with memory.acker() as acker:
        track(app, acker, strict=True)
        with propagate.use(None), pytest.raises(UsageError, match="neither a tuple nor a root is current"):
            app.send_task("leaf")
        with pytest.raises(UsageError, match="tracked already"):
            track(app, acker)


@pytest.mark.parametrize("name", ["task_acks_on_failure_or_timeout", "task_acks_on_timeout"])
def test_strict_refuses_a_setting_by_which_tasks_are_requeued_at_their_time_limit(memory, name):
    app = Celery("requeues", broker="memory://", set_as_current=False)
    app.conf.update({name: False})
    with memory.acker() as acker:
        with pytest.raises(UsageError, match=rf"{name}=False: .* \(strict=True\)"):
            track(app, acker, strict=True)
        track(app, acker)


@pytest.mark.parametrize("acks_late", [True, False])
def test_the_ack_of_a_task_is_delivered_at_its_end_where_the_queue_hears_of_it_afterwards(acks_late):
    """A task whose message is gone already needs no request of its own."""
    memory = MemoryAcker(dedupe_window=600)
    app = Celery("late", broker="memory://", set_as_current=False)

    @app.task(name="late.leaf", shared=False, acks_late=acks_late)
    def leaf() -> None:
        pass

    with memory.acker(linger=86_400) as acker:
        tracker = _Tracker(app, acker, flush_before_ack=True, strict=False)
        with acker.shared_spout("orders").emit("42") as root:
            value = root.headers()["Acker-Anchors"]
        tracker._runs.begin(value, task=leaf.name, task_id="1")
        tracker.end(task=leaf, state="SUCCESS")
        assert memory.completions("orders") == (["42"] if acks_late else [])


@pytest.mark.parametrize("name", ["task_acks_on_failure_or_timeout", "task_acks_on_timeout"])
def test_a_worker_warns_of_a_setting_by_which_tasks_are_requeued_at_their_time_limit(memory, name):
    app = Celery("requeues", broker="memory://", set_as_current=False)
    app.conf.update({name: False})
    with memory.acker() as acker:
        tracker = _Tracker(app, acker, flush_before_ack=True, strict=False)
        tracker.check_settings()
        with pytest.warns(UserWarning, match=f"{name}=False: .* leave the setting out"):
            tracker.check_topology()


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"acks_late": True, "acks_on_failure_or_timeout": False}, True),
        ({"acks_late": True, "acks_on_timeout": False}, True),
        ({"acks_late": True, "acks_on_timeout": False, "acks_on_failure_or_timeout": True}, True),
        ({"acks_late": True, "acks_on_timeout": True, "acks_on_failure_or_timeout": False}, False),
        ({"acks_late": False, "acks_on_timeout": False}, False),
        ({"acks_late": True, "acks_on_failure": False}, False),
        ({"acks_late": True}, False),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_strict_refuses_a_task_that_is_requeued_at_its_time_limit(memory, options, refused, strict):
    app = Celery("requeues", broker="memory://", set_as_current=False)

    @app.task(name="requeued", shared=False, **options)
    def requeued() -> None:
        """Do nothing."""

    with memory.acker() as acker:
        tracker = _Tracker(app, acker, flush_before_ack=True, strict=strict)
        with propagate.use(acker.receive({}, component="untracked")):
            if refused and strict:
                with pytest.raises(UsageError, match="requeued has acks_on_timeout=False"):
                    tracker.send_task("requeued")
                with pytest.raises(SystemExit, match="requeued has acks_on_timeout=False"):
                    tracker.check_topology()
            else:
                tracker.check_topology()
                tracker.send_task("requeued")


@pytest.fixture
def sent(memory):
    """A tracked application with queues of several kinds, which sends nothing, and what it would have sent."""
    app = Celery("quorum", broker="amqp://127.0.0.1:1", set_as_current=False)
    kinds = [("topic", "quorum"), ("fanout", "quorum"), ("direct", "quorum"), ("headers", "classic")]
    app.conf.task_queues = [
        Queue(kind, Exchange(f"to-{kind}", type=kind), routing_key=kind, queue_arguments={"x-queue-type": type_})
        for kind, type_ in kinds
    ]
    app.conf.task_default_queue = "direct"
    app.conf.task_routes = {"routed": {"queue": "topic"}}
    with memory.acker() as acker:
        tracker = _Tracker(app, acker, flush_before_ack=True, strict=True)
        names: list[str] = []
        tracker._send = lambda name, *_, **__: names.append(name)
        yield SimpleNamespace(task=tracker.send_task, names=names, spout=acker.shared_spout("quorum"), app=app)


LATE = {"countdown": 40}  # longer than the topology's message timeout of 30 seconds


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("any", LATE | {"queue": "topic"}),
        ("any", LATE | {"queue": "fanout"}),
        ("any", LATE | {"queue": "headers"}),  # one quorum queue is enough
        ("any", {"eta": datetime.now(UTC) + timedelta(days=1), "queue": "topic"}),
        ("any", {"eta": (datetime.now(UTC) + timedelta(days=1)).isoformat(), "queue": "topic"}),
        ("routed", LATE),
    ],
)
def test_a_task_that_rabbitmq_holds_for_longer_than_the_message_timeout_is_refused(sent, name, options):
    with sent.spout.emit("42"), pytest.raises(UsageError, match="RabbitMQ itself holds it"):
        sent.task(name, **options)
    assert sent.names == []


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("any", LATE),
        ("any", LATE | {"queue": "direct"}),
        ("any", {"queue": "topic", "countdown": 20}),
        ("routed", {"countdown": 0}),
        ("routed", LATE | {"queue": "direct"}),
    ],
)
def test_a_task_that_a_worker_holds_or_rabbitmq_for_a_short_time_is_sent(sent, name, options):
    with sent.spout.emit("42"):
        sent.task(name, **options)
    assert sent.names == [name]


def test_a_root_with_a_longer_message_timeout_of_its_own_takes_longer_waits(sent):
    with sent.spout.emit("42", message_timeout=60):
        sent.task("routed", **LATE)
    with sent.spout.emit("43", message_timeout=35), pytest.raises(UsageError, match="wait for 40 s"):
        sent.task("routed", **LATE)
    assert sent.names == ["routed"]


@pytest.mark.parametrize("delay", [3, 9.9, 20])
def test_a_root_with_a_much_shorter_message_timeout_of_its_own_refuses_what_outlasts_it(sent, delay):
    with sent.spout.emit("42", message_timeout=3), pytest.raises(UsageError, match=f"wait for {delay:g} s"):
        sent.task("routed", countdown=delay)
    with sent.spout.emit("43", message_timeout=3):
        sent.task("routed", countdown=2)
    assert sent.names == ["routed"]


def test_a_wait_without_a_quorum_queue_or_a_tree_is_not_looked_at(sent):
    sent.app.conf.task_queues[:2] = []
    with sent.spout.emit("42"), pytest.raises(UsageError, match="RabbitMQ itself holds it"):
        sent.task("any", queue="headers", **LATE)
    for queue in sent.app.amqp.queues.values():
        queue.queue_arguments = None
    with sent.spout.emit("43"):
        sent.task("any", queue="headers", **LATE)
    with sent.spout.emit():  # not tracked
        sent.task("routed", **LATE)
    assert sent.names == ["any", "routed"]


class Leasing:
    """A transport of kombu's kind that gives a message again after a lease."""

    class Channel:
        """Its channel."""

        default_peek_lock_seconds = 60


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("redis://127.0.0.1", {}, 3_600.0),
        ("redis://127.0.0.1", {"visibility_timeout": 5}, 5.0),
        ("redis://127.0.0.1", {"visibility_timeout": "5"}, 5.0),
        ("rediss://127.0.0.1", {}, 3_600.0),
        ("redis+socket:///run/redis.sock", {}, 3_600.0),
        ("sentinel://127.0.0.1:26379;sentinel://127.0.0.2:26379", {"master_name": "broker"}, 3_600.0),
        (["redis://127.0.0.1", "redis://127.0.0.2"], {}, 3_600.0),
        ("SQS://", {}, 1_800.0),
        ("sqs://", {"visibility_timeout": 0}, 0.0),
        ("SLMQ://", {"visibility_timeout": ""}, 1_800.0),
        ("pgmq://127.0.0.1/tasks", {}, 1_800.0),
        ("amqp://127.0.0.1", {}, 0.0),
        ("memory://", {}, 0.0),
        (f"{__name__}:Leasing://", {}, 60.0),
        (f"{__name__}:Leasing://", {"peek_lock_seconds": 90}, 90.0),
    ],
)
def test_the_visibility_timeout_is_that_of_the_broker(url, options, expected):
    app = Celery("any", set_as_current=False)
    if __name__ in url:
        app.conf.broker_transport = url.removesuffix("://")
    else:
        app.conf.broker_url = url
    app.conf.broker_transport_options = options
    assert visibility_timeout_s(app) == expected


@pytest.mark.parametrize("url", ["redis+socket:///run/redis.sock", "SQS://", "pgmq://127.0.0.1/tasks"])
def test_a_dedupe_window_shorter_than_the_visibility_timeout_is_refused(memory, url):
    app = Celery("short", broker=url, set_as_current=False)
    with memory.acker() as acker:
        track(app, acker)
        with acker.shared_spout("short").emit("42"), pytest.raises(UsageError, match="make the window longer"):
            app.send_task("leaf")


def test_a_tree_that_times_out_tells_which_task_was_done_last(tasks, memory):
    spout = tasks.acker.shared_spout("hangs")
    with spout.emit("42") as root:
        root.anchor()  # nobody processes this one
        tasks.leaf.delay(1)
    acked_at = memory.clock.now
    eventually_true(lambda: memory.roots[int(root.root_id, 16)].last_component, within=WITHIN_S)
    memory.clock.advance(31)
    [done] = spout.completions(until=0)
    assert (done.outcome, done.component, done.last_component) == ("timed_out", None, valid_name(tasks.leaf.name))
    assert (done.last_ack_at, done.outstanding) == (acked_at, 1)


class Counts(Task):
    """A task with a ``before_start`` of its own."""

    started: ClassVar[list[str]] = []

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:  # noqa: ARG002
        self.started.append(task_id)


# the last of these tests: where one worker of Celery ends, all of its process do
@pytest.mark.parametrize("ended", [True, False])
def test_a_task_whose_roots_have_ended_is_not_run_and_any_other_is(memory: MemoryAcker, *, ended: bool) -> None:
    app = Celery("skipping", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.broker_transport_options = {"polling_interval": 0.01}
    app.conf.task_default_queue = f"skipping-{ended}"
    done: list[str] = []
    started = Counts.started = []
    receivers = {name: list(value.receivers or ()) for name, value in _signals()}
    for _, value in _signals():
        value.receivers = []  # of other applications, whose ackers are closed
    signals.setup_logging.connect(_keep_logging, weak=False)

    @app.task(base=Counts, name="skipping.leaf", shared=False, acks_late=True)
    def leaf(work: str) -> str:
        done.append(work)
        return work

    acker = memory.acker()
    track(app, acker, skip_ended=True)
    with acker.shared_spout("skipping").emit("42") as root:
        chain(leaf.si("first"), leaf.si("second")).delay()
        leaf.delay("third")
        other = root.headers("other")
    leaf.delay("untracked")
    if ended:
        with memory.acker() as elsewhere:
            elsewhere.receive(other, component="other").fail("no such page")
    writes = len(memory.writes())
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=WITHIN_S):
        eventually_true(lambda: "untracked" in done and (ended or len(done) == 4))
    assert sorted(done) == (["untracked"] if ended else ["first", "second", "third", "untracked"])
    assert len(started) == len(done)
    assert acker.stats().skipped == (2 if ended else 0)
    assert (len(memory.writes()) == writes) == ended
    for name, value in _signals():
        value.receivers = receivers[name]
    acker.close()
