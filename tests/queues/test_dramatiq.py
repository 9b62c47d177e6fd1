"""Tests that what grows out of a root through Dramatiq is one tree: the rows of docs/dramatiq.md."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.queues.conftest import SHORT_TIMEOUT_S, Services
from tests.queues.harness import Lab, Worker, working
from tests.queues.marks import FOREIGN_NAMES

KINDS = [("redis", "threads"), ("rabbitmq", "threads"), ("redis", "gevent"), ("rabbitmq", "gevent")]
MODULE = "tests.queues.dramatiq_tasks"
SCENARIOS = (
    *(
        "fan",
        "retries",
        "sends_and_retries",
        "drops",
        "retries_and_tells",
        "fails",
        "imports",
        "aged",
        "sends_to_nobody",
        "asynchronous",
    ),
    *(
        "starts_a_thread",
        "foreign_names",
        "equal_calls",
        "group",
        "group_of_the_root",
        "group_of_pipelines",
        "pipeline",
    ),
    # those that kill the worker come last: each death stops whatever runs beside it
    *("dies", "dies_and_reorders", "dies_at_its_end", "dies_after_its_ack", "delivers_twice", "differs_between_runs"),
    *("deadly_group", "deadly_pipeline"),
)


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def lab(request: pytest.FixtureRequest, services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A worker of a kind, with a topology of its own, that works on all scenarios at once."""
    broker, pool = request.param
    with running(services.lab(broker), pool, tmp_path_factory.mktemp("worker")) as lab:
        lab.emit(MODULE, SCENARIOS)
        yield lab


def running(lab: Lab, pool: str, folder: Path):
    return working(Worker(["-m", MODULE, pool], environment=lab.environment(), log=folder / "log"), lab)


def test_a_tree_that_grows_while_it_runs_is_acked_when_its_last_task_is_done(lab):
    ended = lab.ended("fan")
    assert ended.outcome == "acked"
    assert ended.done["leaves"] >= 16


def test_a_retried_task_is_acked_when_its_last_try_has_succeeded(lab):
    ended = lab.ended("retries")
    assert (ended.outcome, set(ended.done)) == ("acked", {"work"})


def test_children_of_each_try_belong_to_the_tree(lab):
    ended = lab.ended("sends_and_retries")
    assert ended.outcome == "acked"
    assert set(ended.done) >= {f"child of try {number}" for number in range(3)}


def test_what_tells_of_a_failed_try_belongs_to_the_tree(lab):
    ended = lab.ended("retries_and_tells")
    assert (ended.outcome, set(ended.done)) == ("acked", {"told 1", "told 2"})


def test_tasks_of_any_name_belong_to_the_tree(lab):
    ended = lab.ended("foreign_names")
    assert (ended.outcome, set(ended.done)) == ("acked", set(FOREIGN_NAMES))


def test_a_task_that_fails_for_good_fails_the_tree_after_its_retries(lab):
    ended = lab.ended("fails")
    assert (ended.outcome, ended.reason) == ("failed", "for good")
    assert lab.runs("fails")["tries"] >= 2


def test_a_root_that_ends_when_all_have_counts_each_message_that_does_not_run_again_and_waits_for_the_others(lab):
    """One of 30 fails after its retry, one is too old, and one more is of no actor that a worker knows."""
    ended = lab.ended("imports")
    assert (ended.outcome, ended.failures) == ("failed", 3)
    rows = {f"row {number}" for number in range(30) if number not in (3, 7)}
    assert set(ended.done) == rows | {"note of try 0", "note of try 1"}


def test_a_task_that_drops_its_tuple_is_acked_and_what_it_has_published_is_waited_for(lab):
    ended = lab.ended("drops")
    assert (ended.outcome, set(ended.done)) == ("acked", {"child"})


@pytest.mark.parametrize(
    "scenario", ["dies", "dies_at_its_end", "dies_after_its_ack", "delivers_twice"], ids=lambda name: name
)
def test_a_worker_killed_costs_nothing_but_time(lab, scenario):
    ended = lab.ended(scenario)
    assert (ended.outcome, set(ended.done)) == ("acked", {"child"})


def test_a_run_that_makes_its_calls_in_another_order_leaves_none_out(lab):
    ended = lab.ended("dies_and_reorders")
    assert (ended.outcome, set(ended.done)) == ("acked", {"A", "B"})


def test_a_call_whose_arguments_differ_between_runs_is_known_by_its_key(lab):
    assert lab.ended("differs_between_runs").outcome == "acked"


def test_equal_calls_are_children_each(lab):
    ended = lab.ended("equal_calls")
    assert ended.outcome == "acked"
    assert ended.done["equal"] >= 3


@pytest.mark.parametrize("scenario", ["group", "group_of_the_root"])
def test_the_callback_of_a_group_belongs_to_the_tree(lab, scenario):
    ended = lab.ended(scenario)
    assert (ended.outcome, set(ended.done)) == ("acked", {"0", "1", "2", "callback"})


def test_the_callback_is_waited_for_though_the_last_of_its_group_dies_when_it_has_sent_it(lab):
    ended = lab.ended("deadly_group")
    assert (ended.outcome, set(ended.done)) == ("acked", {"child", "callback"})


def test_a_group_of_pipelines_has_one_callback(lab):
    ended = lab.ended("group_of_pipelines")
    assert (ended.outcome, set(ended.done)) == ("acked", {"line 1", "line 2", "3", "callback"})


def test_a_pipeline_is_one_tree(lab):
    ended = lab.ended("pipeline")
    assert (ended.outcome, set(ended.done)) == ("acked", {"line 1"})


def test_a_pipeline_whose_step_runs_again_with_another_result_is_one_tree(lab):
    ended = lab.ended("deadly_pipeline")
    assert ended.outcome == "acked"
    assert set(ended.done) & {"line 1", "line 2"}


def test_a_message_that_is_too_old_fails_the_tree(lab):
    ended = lab.ended("aged")
    assert (ended.outcome, ended.reason, ended.done) == ("failed", "skipped", {})


def test_a_message_for_an_actor_that_no_worker_knows_fails_the_tree(lab):
    ended = lab.ended("sends_to_nobody")
    assert (ended.outcome, ended.reason) == ("failed", "no such actor")


def test_an_async_actor_has_children(lab):
    ended = lab.ended("asynchronous")
    assert (ended.outcome, set(ended.done)) == ("acked", {"child"})


def test_a_thread_that_an_actor_starts_sends_children_in_a_copy_of_its_context(lab):
    ended = lab.ended("starts_a_thread")
    assert ended.outcome == "acked"
    assert "child" in ended.done


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_delay_longer_than_the_message_timeout_is_waited_for(broker, services, tmp_path):
    with running(services.lab(broker, message_timeout=SHORT_TIMEOUT_S), "threads", tmp_path) as lab:
        lab.emit(MODULE, ["waits"])
        ended = lab.ended("waits")
        assert (ended.outcome, set(ended.done)) == ("acked", {"work"})
