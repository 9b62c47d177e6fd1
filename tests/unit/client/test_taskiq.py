"""Tests the tracking of taskiq's tasks, with a worker, a broker and an acker in this process."""

from types import SimpleNamespace

import pytest
from acker_client import DropTuple, UsageError, propagate
from acker_client.integrations.taskiq import AckerMiddleware
from acker_client.testing import MemoryAcker
from acker_protocol.anchors import parse_anchors
from acker_protocol.ids import SPOUT_EDGE, derive_edge
from taskiq import InMemoryBroker, ScheduledTask, ScheduleSource, SimpleRetryMiddleware, SmartRetryMiddleware
from taskiq.exceptions import NoResultError
from taskiq.scheduler.scheduler import TaskiqScheduler

from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

ERRORS = {
    "words": ValueError("no such page"),
    "no words": ValueError(),
    "no result": NoResultError(),
    "drop": DropTuple("no such price"),
}


class Schedule(ScheduleSource):
    """A schedule source that keeps what is added."""

    def __init__(self):
        self.added = []

    async def get_schedules(self):
        return self.added

    async def add_schedule(self, schedule: ScheduledTask):
        self.added.append(schedule)


def tracked(memory, *middlewares, **options):
    """An application with some tasks, and its acker."""
    acker = memory.async_acker()
    middleware = AckerMiddleware(acker, **options)
    broker = InMemoryBroker().with_middlewares(middleware, *middlewares)
    tasks = SimpleNamespace(broker=broker, acker=acker, middleware=middleware, done=[])

    @broker.task
    async def leaf(work):
        tasks.done.append(work)

    @broker.task
    async def raises(name):
        await leaf.kiq("child")
        raise ERRORS[name]

    @broker.task
    async def fails_itself(name):
        tasks.done.append(name)
        await propagate.current().fail("no such page")
        raise ValueError("of no account")

    @broker.task
    async def third_time(name):
        tasks.done.append(name)
        if tasks.done.count(name) < 3:
            raise ValueError("not yet")

    @broker.task
    async def equal_calls(work):
        for _ in range(3):
            await leaf.kiq(work)

    for task in (leaf, raises, fails_itself, third_time, equal_calls):
        setattr(tasks, task.task_name.rpartition(":")[2], task)
    return tasks


@pytest.fixture
def memory():
    return MemoryAcker(dedupe_window=600)


@pytest.fixture
def tasks(memory):
    return tracked(memory)


async def end_of(tasks, task, *arguments):
    """Start a task in a new root, and give the root's outcome and reason."""
    spout = tasks.acker.shared_spout("orders")
    async with spout.emit("42"):
        await task.kiq(*arguments)
    return await next_end(tasks)


async def next_end(tasks):
    spout = tasks.acker.shared_spout("orders")

    async def read():
        return [(str(each.outcome), each.reason) async for each in spout.completions(until=0)]

    [end] = await eventually(read)
    return end


async def test_equal_calls_are_children_of_their_own(tasks):
    assert await end_of(tasks, tasks.equal_calls, "a") == ("acked", None)
    assert tasks.done == ["a"] * 3


@pytest.mark.parametrize(
    ("error", "end"),
    [
        ("words", ("failed", "no such page")),
        ("no words", ("failed", "ValueError")),
        ("no result", ("acked", None)),
        ("drop", ("acked", None)),
    ],
)
async def test_a_task_that_raises_ends_its_tree(tasks, error, end):
    assert await end_of(tasks, tasks.raises, error) == end
    await tasks.broker.wait_all()
    assert tasks.done == ["child"]


async def test_a_task_that_drops_its_tuple_is_counted(tasks):
    await end_of(tasks, tasks.raises, "drop")
    assert tasks.acker.stats().dropped_tuples == 1


@pytest.mark.parametrize("no_result_on_retry", [True, False])
async def test_a_task_that_is_tried_again_is_open_until_its_last_try(memory, no_result_on_retry):
    retries = SimpleRetryMiddleware(default_retry_label=True, no_result_on_retry=no_result_on_retry)
    tasks = tracked(memory, retries)
    assert await end_of(tasks, tasks.third_time, "a") == ("acked", None)
    assert tasks.done == ["a"] * 3


async def test_a_task_that_is_tried_again_for_too_often_fails_its_tree(memory):
    tasks = tracked(memory, SimpleRetryMiddleware(default_retry_label=True, default_retry_count=2))
    assert await end_of(tasks, tasks.raises, "words") == ("failed", "no such page")


async def test_a_retry_that_waits_in_a_schedule_has_the_edge_of_its_task(memory):
    schedule = Schedule()
    tasks = tracked(memory, SmartRetryMiddleware(default_retry_label=True, schedule_source=schedule))
    async with tasks.acker.shared_spout("orders").emit("42"):
        await tasks.third_time.kiq("a")
    for _ in range(2):
        await tasks.broker.wait_all()
        assert memory.writes("ack") == []
        await TaskiqScheduler(tasks.broker, [schedule]).on_ready(schedule, schedule.added.pop())
    assert await next_end(tasks) == ("acked", None)
    assert tasks.done == ["a"] * 3


@pytest.mark.parametrize("retries", [True, False])
async def test_a_task_that_fails_its_tuple_itself_fails_the_tree_and_may_be_tried_again(memory, retries):
    tasks = tracked(memory, SimpleRetryMiddleware(default_retry_label=retries))
    assert await end_of(tasks, tasks.fails_itself, "a") == ("failed", "no such page")
    await tasks.broker.wait_all()
    assert tasks.done == (["a"] * 3 if retries else ["a"])


@pytest.mark.parametrize("value", ["nonsense", "00 other 00000000000000aa-00000000000000bb"])
async def test_a_task_whose_anchors_cannot_be_read_runs_and_sends_nothing(tasks, memory, value, caplog):
    await tasks.leaf.kicker().with_labels(**{"Acker-Anchors": value}).kiq("a")
    await tasks.broker.wait_all()
    assert tasks.done == ["a"]
    assert memory.writes() == []
    assert "cannot be read" in caplog.text


async def test_a_task_is_known_by_the_key_that_its_caller_gives_and_the_key_is_not_sent(tasks, memory):
    sent = []
    kick = tasks.broker.kick

    async def note(message):
        sent.append(message.labels)
        await kick(message)

    tasks.broker.kick = note
    async with tasks.acker.shared_spout("orders").emit("42"):
        await tasks.leaf.kicker().with_labels(acker_key="report").kiq("a")
    assert [set(labels) for labels in sent] == [{"Acker-Anchors"}]
    [anchor] = parse_anchors(sent[0]["Acker-Anchors"]).anchors
    assert anchor.edge_id == derive_edge(
        root_id=anchor.root_id, parent_edge=SPOUT_EDGE, component="orders", name="report"
    )


async def test_what_is_started_beside_a_tracked_task_belongs_to_nothing(tasks, memory):
    await tasks.equal_calls.kiq("a")
    await tasks.broker.wait_all()
    assert tasks.done == ["a"] * 3
    assert memory.writes() == []


async def test_strict_refuses_to_start_a_task_where_nothing_is_current(memory):
    tasks = tracked(memory, strict=True)
    with pytest.raises(UsageError, match="neither a tuple nor a root is current"):
        await tasks.leaf.kiq("a")
    async with tasks.acker.shared_spout("orders").emit():  # not tracked, by choice
        await tasks.leaf.kiq("a")
    await tasks.broker.wait_all()
    assert tasks.done == ["a"]


async def test_a_topology_without_a_dedupe_window_is_refused():
    tasks = tracked(MemoryAcker(dedupe_window=0))
    with pytest.raises(UsageError, match="make the window longer"):
        async with tasks.acker.shared_spout("orders").emit("42"):
            await tasks.leaf.kiq("a")
    tasks.broker.is_worker_process = True
    with pytest.raises(UsageError, match="make the window longer"):
        await tasks.broker.startup()


async def test_the_last_acks_are_delivered_when_the_broker_ends(memory):
    tasks = tracked(memory, flush_before_ack=False)
    async with tasks.acker.shared_spout("orders").emit("42"):
        await tasks.leaf.kiq("a")
    await tasks.broker.wait_all()
    await tasks.broker.shutdown()
    assert memory.completions("orders") == ["42"]


@pytest.mark.parametrize("retries", [SimpleRetryMiddleware, SmartRetryMiddleware])
async def test_a_task_whose_roots_have_ended_is_not_run_and_any_other_is(memory, retries):
    tasks = tracked(memory, retries(default_retry_label=True), skip_ended=True)

    @tasks.broker.task
    def in_a_thread(work):
        tasks.done.append(work)

    async with tasks.acker.shared_spout("orders").emit("42") as root:
        headers = [root.headers(str(number)) for number in range(5)]
    async with tasks.acker.shared_spout("orders").emit("43") as root:
        others = [root.headers(str(number)) for number in range(2)]
    async with memory.async_acker(linger=0) as elsewhere:
        await elsewhere.receive(headers.pop(), component="other").fail("no such page")
        writes = len(memory.writes())
        for task, header in zip([tasks.leaf, tasks.raises, in_a_thread, tasks.leaf], headers, strict=True):
            await task.kicker().with_labels(**header).kiq("ended")
        await tasks.broker.wait_all()
        assert (tasks.done, tasks.acker.stats().skipped, len(memory.writes())) == ([], 4, writes)
        for task, header in zip([tasks.leaf, in_a_thread], others, strict=True):
            await task.kicker().with_labels(**header).kiq("open")
            await task.kiq("untracked")
        await tasks.broker.wait_all()
    assert sorted(tasks.done) == ["open", "open", "untracked", "untracked"]
    assert tasks.acker.stats().skipped == 4


async def test_a_task_that_is_skipped_has_no_result(memory):
    tasks = tracked(memory, skip_ended=True)
    async with tasks.acker.shared_spout("orders").emit("42") as root:
        headers = [root.headers(str(number)) for number in range(2)]
    await tasks.acker.receive(headers[0], component="other").fail("no such page")
    task = await tasks.leaf.kicker().with_labels(**headers[1]).kiq("ended")
    await tasks.broker.wait_all()
    assert not await task.is_ready()
