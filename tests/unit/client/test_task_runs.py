"""Tests the edges of what a task publishes, and the operation that ends its run."""

import warnings

import httpx
import pytest
from acker_client import TupleClosed, UsageError, propagate
from acker_client.integrations._dedupe_window import check_dedupe_window
from acker_client.integrations._task_runs import Call, TaskRuns, digest
from acker_client.testing import MemoryAcker
from acker_protocol.anchors import parse_anchors

from tests.unit.client.test_names import FOREIGN_NAMES

VISIBILITY_S = 60.0


@pytest.fixture(autouse=True)
def nothing_is_current():
    yield
    propagate.leave(None)


@pytest.fixture
def memory():
    return MemoryAcker(dedupe_window=600)


@pytest.fixture
def acker(memory):
    with memory.acker(linger=0) as acker:
        yield acker


@pytest.fixture
def runs(acker):
    return task_runs(acker)


@pytest.fixture
def value(acker):
    """The anchors of a task that is the only child of a root."""
    with acker.shared_spout("orders").emit("42") as root:
        return root.anchor().headers()["Acker-Anchors"]


def task_runs(acker, *, flush_before_ack=True, strict=False, redelivery_s=VISIBILITY_S):
    return TaskRuns(acker, flush_before_ack=flush_before_ack, strict=strict, redelivery_s=lambda: redelivery_s)


def call(task="leaf", *args, task_id="any", **options):
    return Call(task=task, task_id=task_id, args=args, kwargs={}, **options)


def edge(value):
    return parse_anchors(value).anchors[0].edge_id


def run_once(runs, value, *calls, **begin):
    """Return the edges of the calls of one run, which is then left open."""
    runs.begin(value, **({"task": "parent", "task_id": "parent"} | begin))
    edges = [edge(runs.anchor(each)) for each in calls]
    runs.end(left_open=True)
    return edges


def test_calls_in_another_order_have_the_same_edges(runs, value):
    a, b = run_once(runs, value, call("leaf", "A"), call("leaf", "B"))
    assert run_once(runs, value, call("leaf", "B"), call("leaf", "A")) == [b, a]


def test_a_call_that_another_run_leaves_out_moves_no_other(runs, value):
    _, b = run_once(runs, value, call("leaf", "A"), call("leaf", "B"))
    assert run_once(runs, value, call("leaf", "B")) == [b]


def test_equal_calls_have_an_edge_each_and_the_same_in_each_run(runs, value):
    edges = run_once(runs, value, *[call("leaf", "A")] * 3)
    assert len(set(edges)) == 3
    assert run_once(runs, value, *[call("leaf", "A")] * 3) == edges


def test_equal_arguments_of_two_tasks_have_an_edge_each(runs, value):
    assert len(set(run_once(runs, value, call("leaf", "A"), call("other", "A")))) == 2


def test_a_key_of_the_caller_counts_instead_of_the_arguments(runs, value):
    edges = run_once(runs, value, call("report", 12.5, key="report"))
    assert run_once(runs, value, call("report", 13.5, key="report")) == edges
    assert run_once(runs, value, call("report", 13.5)) != edges


def test_what_the_message_names_has_the_same_edge_with_another_result_and_another_id(runs, value):
    edges = run_once(runs, value, call("line", 1, task_id="next"), given_ids=frozenset(["next"]))
    again = call("line", 2, task_id="drawn anew")
    assert run_once(runs, value, again, given_ids=frozenset(["drawn anew"])) == edges
    assert run_once(runs, value, again) != edges


def test_the_digest_ignores_the_order_of_keywords_and_whether_a_sequence_is_a_list():
    assert digest((1, [2]), {"a": 1, "b": 2}) == digest([1, (2,)], {"b": 2, "a": 1})
    assert digest((1,), {}) != digest(("1",), {})


def test_a_run_acks_its_edge_with_those_of_its_children(runs, value, memory, acker):
    runs.begin(value, task="parent", task_id="parent")
    child = runs.anchor(call("leaf"))
    runs.end()
    assert memory.completions("orders") == []
    runs.begin(child, task="leaf", task_id="leaf")
    runs.end()
    assert memory.completions("orders") == ["42"]


def test_acks_that_are_lost_with_that_of_a_run_are_logged_and_its_tuple_is_acked_once(value, memory, caplog):
    with memory.acker(linger=86_400, retry_timeout=0.0) as acker:
        acker._driver.run(acker._session.topology_info())
        runs = task_runs(acker)
        runs.begin(value, task="parent", task_id="parent")
        memory.faults += [httpx.ReadTimeout("lost")] * 100
        assert runs.end(flush=True)
        memory.faults.clear()
        runs.flush()
        assert acker.stats().lost == 1
    assert [record.message for record in caplog.records if "acks were lost" in record.message] == [
        "acks were lost: their roots time out"
    ]


def test_acks_that_are_lost_twice_are_logged_twice_and_end_no_worker(value, memory, caplog):
    """First those of before, then that of the run."""
    with memory.acker(linger=86_400, retry_timeout=0.0) as acker:
        acker._driver.run(acker._submitter.flusher.flush())
        runs = task_runs(acker)
        runs.begin(value, task="parent", task_id="parent")
        acker._driver.run(acker._session.topology_info())
        acker.receive({"Acker-Anchors": f"00 default {1:016x}-{1:016x}"}, component="other").ack()
        memory.faults += [httpx.ReadTimeout("lost")] * 100
        acker._driver.run(acker._submitter.flusher.send_due())
        assert runs.end(flush=True)
        memory.faults.clear()
        assert acker.stats().lost == 2
    assert sum("acks were lost" in record.message for record in caplog.records) == 2


@pytest.mark.parametrize("flushes", [True, False])
def test_the_ack_of_a_run_is_delivered_at_its_end_where_acks_are_flushed(value, memory, flushes):
    with memory.acker(linger=86_400) as acker:
        runs = task_runs(acker)
        runs.begin(value, task="parent", task_id="parent")
        runs.end(flush=flushes)
        assert memory.completions("orders") == (["42"] if flushes else [])


def test_a_retry_without_children_carries_the_same_edge_and_is_not_acked(runs, value, memory):
    runs.begin(value, task="parent", task_id="parent")
    assert runs.continue_run(runs.current(), call("parent")) == value
    runs.end()
    assert memory.completions("orders") == []
    assert memory.writes("ack") == []


def test_a_retry_after_children_is_a_child_and_the_run_is_acked_with_all_of_them(runs, value, memory):
    runs.begin(value, task="parent", task_id="parent")
    child = runs.anchor(call("leaf"))
    retry = runs.continue_run(runs.current(), call("parent"))
    runs.end()
    assert retry != value
    for left in (child, retry):
        assert memory.completions("orders") == []
        runs.begin(left, task="any", task_id="any")
        runs.end()
    assert memory.completions("orders") == ["42"]


def test_a_retry_that_more_will_follow_is_a_child(runs, value):
    runs.begin(value, task="parent", task_id="parent")
    assert runs.continue_run(runs.current(), call("parent"), publishes_more=True) != value
    runs.anchor(call("told"))
    runs.end()


def test_a_child_after_a_retry_with_the_same_edge_is_refused(runs, value):
    runs.begin(value, task="parent", task_id="parent")
    runs.continue_run(runs.current(), call("parent"))
    with pytest.raises(UsageError, match="no ack would name its edge; publish it before the retry"):
        runs.anchor(call("leaf"))


def test_a_failed_run_fails_the_tree(runs, value, memory):
    runs.begin(value, task="parent", task_id="parent")
    runs.end(failed="broken")
    assert [body["reason"] for body in memory.bodies("fail")] == ["broken"]


@pytest.mark.parametrize("task", FOREIGN_NAMES)
def test_a_task_of_any_name_acks_its_tuple_under_a_valid_name(runs, value, memory, task):
    runs.begin(value, task=task, task_id="any")
    runs.end()
    assert memory.completions("orders") == ["42"]


@pytest.mark.parametrize("task", FOREIGN_NAMES)
def test_a_task_of_any_name_fails_its_tuple_under_a_valid_name(runs, value, memory, task):
    runs.fail(value, task=task, reason="no such task")
    assert [body["reason"] for body in memory.bodies("fail")] == ["no such task"]


@pytest.mark.parametrize("task", FOREIGN_NAMES)
def test_a_message_without_anchors_runs_whatever_its_task_is_called(runs, memory, task):
    runs.begin(None, task=task, task_id="any")
    assert runs.end() is False
    assert memory.writes() == []


def test_tasks_whose_names_make_one_component_have_other_children(runs, value):
    edges = [run_once(runs, value, call(), task=task) for task in ("crm:sync", "crm/sync", "crm-sync", "_crm-sync")]
    assert len({*map(tuple, edges)}) == len(edges)
    assert run_once(runs, value, call(), task="crm:sync") == edges[0]


def test_a_run_that_is_over_is_no_longer_current(runs, value, acker):
    runs.begin(value, task="parent", task_id="parent")
    runs.end()
    assert runs.current() is None
    assert runs.anchor(call("leaf")) is None


def test_a_message_without_anchors_is_not_tracked_nor_what_it_publishes(runs, memory):
    runs.begin(None, task="parent", task_id="parent")
    assert runs.anchor(call("leaf")) is None
    assert runs.end() is False
    assert memory.writes() == []


def test_a_task_that_is_published_in_an_emit_block_is_a_child_of_the_root(runs, acker, memory):
    with acker.shared_spout("orders").emit("42"):
        child = runs.anchor(call("leaf"))
    assert memory.completions("orders") == []
    runs.begin(child, task="leaf", task_id="leaf")
    runs.end()
    assert memory.completions("orders") == ["42"]


def test_strict_refuses_to_publish_where_nothing_is_current(acker):
    runs = task_runs(acker, strict=True)
    with pytest.raises(UsageError, match="leaf is published where neither a tuple nor a root is current"):
        runs.anchor(call("leaf"))
    with acker.shared_spout("orders").emit():  # not tracked, by choice
        assert runs.anchor(call("leaf")) is None


def test_a_thread_that_outlives_its_run_cannot_publish(runs, value, acker):
    runs.begin(value, task="parent", task_id="parent")
    tup = runs.current().tup
    runs.end()
    with pytest.raises(TupleClosed):
        tup.headers()


@pytest.mark.parametrize(("window", "redelivery_s"), [(0, 0), (60, 60), (60, 3_600)])
def test_a_dedupe_window_that_a_redelivery_outlasts_is_refused(window, redelivery_s):
    with MemoryAcker(dedupe_window=window).acker() as acker:
        runs = task_runs(acker, redelivery_s=redelivery_s)
        with pytest.raises(UsageError, match="make the window longer"):
            runs.topology()
        with acker.shared_spout("orders").emit("42"), pytest.raises(UsageError, match="make the window longer"):
            runs.anchor(call("leaf"))


def test_no_dedupe_window_is_warned_of_where_acks_are_not_flushed():
    with MemoryAcker(dedupe_window=0).acker() as acker:
        with pytest.warns(UserWarning, match="a tree whose task is delivered again times out"):
            task_runs(acker, flush_before_ack=False).topology()
        with pytest.raises(UsageError, match="dedupe window of 0 s"):
            task_runs(acker).topology()


@pytest.mark.parametrize("flush_before_ack", [True, False])
@pytest.mark.parametrize("redelivery_s", [30, VISIBILITY_S, 3_600])
def test_an_automatic_window_that_a_redelivery_outlasts_is_warned_of_and_never_refused(redelivery_s, flush_before_ack):
    with MemoryAcker(message_timeout=30).acker() as acker:
        runs = task_runs(acker, redelivery_s=redelivery_s, flush_before_ack=flush_before_ack)
        with pytest.warns(UserWarning, match=rf"30 s, .* again after up to {redelivery_s:g} s: make the window longer"):
            runs.topology()


@pytest.mark.parametrize("redelivery_s", [0, 29])
def test_an_automatic_window_that_is_longer_than_a_redelivery_takes_is_taken(redelivery_s):
    with MemoryAcker(message_timeout=30).acker() as acker, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert task_runs(acker, redelivery_s=redelivery_s).topology().dedupe_automatic


def test_a_window_longer_than_the_visibility_timeout_is_taken(acker):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_dedupe_window(acker.topologies.get(acker.topology), redelivery_s=VISIBILITY_S, flush_before_ack=True)


def test_a_long_delay_resets_the_timeout_when_it_is_published(runs, value, memory):
    runs.begin(value, task="parent", task_id="parent")
    runs.anchor(call("leaf", delay=1.0))
    assert memory.writes("reset-timeout") == []
    runs.anchor(call("leaf", delay=11.0))
    assert len(memory.writes("reset-timeout")) == 1
