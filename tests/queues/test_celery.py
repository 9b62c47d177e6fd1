"""Tests that what grows out of a root through Celery is one tree: the rows of docs/celery.md."""

from collections.abc import Iterator

import pytest

from tests.queues.celery_workers import MODULE, POOLS, running
from tests.queues.conftest import Services
from tests.queues.harness import Lab
from tests.queues.marks import FOREIGN_NAMES

KINDS = [(broker, pool) for pool in POOLS for broker in ("redis", "rabbitmq")]
SCENARIOS = (
    *("fan", "retries", "sends_and_retries", "drops", "fails", "replaces", "sends_and_replaces", "replaces_by_group"),
    "imports",
    *("equal_calls", "chord", "chord_of_the_root", "nested_chord", "growing_chord", "group", "chain", "link"),
    *("requeues", "rejects", "stores_a_failure", "fails_its_tuple", "publishes_untracked", "foreign_names"),
    *("unknown", "unknown_step", "not_accepted", "not_readable"),
    # those that kill the worker come last: each death stops whatever runs beside it
    *("dies", "dies_and_reorders", "dies_at_its_end", "dies_after_its_ack", "delivers_twice", "differs_between_runs"),
    *("deadly_chord", "deadly_chain"),
)


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def lab(request: pytest.FixtureRequest, services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A worker of a kind, with a topology of its own, that works on all scenarios at once."""
    broker, pool = request.param
    with running(services.lab(broker), pool, tmp_path_factory.mktemp("worker")) as lab:
        lab.emit(MODULE, SCENARIOS)
        yield lab


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


def test_tasks_of_any_name_belong_to_the_tree(lab):
    ended = lab.ended("foreign_names")
    assert (ended.outcome, set(ended.done)) == ("acked", set(FOREIGN_NAMES))


def test_a_task_that_fails_for_good_fails_the_tree_after_its_retries(lab):
    ended = lab.ended("fails")
    assert (ended.outcome, ended.reason) == ("failed", "for good")
    assert lab.runs("fails")["tries"] >= 2


def test_a_root_that_ends_when_all_have_counts_each_task_that_does_not_run_again_and_waits_for_the_others(lab):
    """One of 30 fails after its retry, one is rejected, and one more is of no task that a worker knows."""
    ended = lab.ended("imports")
    assert (ended.outcome, ended.failures) == ("failed", 3)
    rows = {f"row {number}" for number in range(30) if number not in (3, 7)}
    assert set(ended.done) == rows | {"note of try 0", "note of try 1"}


def test_a_task_that_drops_its_tuple_is_acked_and_what_it_has_published_is_waited_for(lab):
    ended = lab.ended("drops")
    assert (ended.outcome, set(ended.done)) == ("acked", {"child"})


@pytest.mark.parametrize("scenario", ["dies", "dies_at_its_end", "dies_after_its_ack", "delivers_twice"])
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


@pytest.mark.parametrize("scenario", ["chord", "chord_of_the_root"])
def test_the_body_of_a_chord_belongs_to_the_tree(lab, scenario):
    ended = lab.ended(scenario)
    assert (ended.outcome, set(ended.done)) == ("acked", {"value 0", "value 1", "value 2", "body"})


def test_the_body_is_waited_for_though_the_last_of_its_header_dies_when_it_has_published_it(lab):
    ended = lab.ended("deadly_chord")
    assert (ended.outcome, set(ended.done)) == ("acked", {"child", "body"})


def test_chords_within_chords_have_one_body_each(lab):
    ended = lab.ended("nested_chord")
    assert ended.outcome == "acked"
    assert set(ended.done) == {"total", "body", *(f"value {number}" for number in range(1, 6))}


def test_a_chord_that_grows_is_one_tree(lab):
    ended = lab.ended("growing_chord")
    assert (ended.outcome, set(ended.done)) == ("acked", {"value 1", "value 9", "body"})


@pytest.mark.parametrize("scenario", ["chain", "link"])
def test_what_follows_a_task_belongs_to_the_tree(lab, scenario):
    ended = lab.ended(scenario)
    assert (ended.outcome, set(ended.done)) == ("acked", {"value 1", "line 1"})


def test_a_chain_whose_step_runs_again_with_another_result_is_one_tree(lab):
    """Its step runs at least twice: where one process runs all tasks, the death of another repeats it, too."""
    ended = lab.ended("deadly_chain")
    assert ended.outcome == "acked"
    assert {each.partition(" ")[0] for each in ended.done} == {"line"}


def test_a_group_is_one_tree(lab):
    ended = lab.ended("group")
    assert (ended.outcome, set(ended.done)) == ("acked", {"0", "1", "2"})


@pytest.mark.parametrize(
    ("scenario", "done"),
    [
        ("replaces", {"replacement"}),
        ("sends_and_replaces", {"child", "replacement"}),
        ("replaces_by_group", {"0", "1", "2"}),
    ],
)
def test_a_replaced_task_is_acked_when_its_replacement_is_done(lab, scenario, done):
    ended = lab.ended(scenario)
    assert (ended.outcome, set(ended.done)) == ("acked", done)


def test_a_task_that_is_rejected_and_requeued_runs_again(lab):
    ended = lab.ended("requeues")
    assert (ended.outcome, set(ended.done)) == ("acked", {"work"})


def test_a_task_that_is_rejected_for_good_fails_the_tree(lab):
    ended = lab.ended("rejects")
    assert ended.outcome == "failed"
    assert "never" in ended.reason


@pytest.mark.parametrize(
    ("scenario", "outcome", "reason"),
    [("stores_a_failure", "acked", None), ("fails_its_tuple", "failed", "no such page")],
)
def test_a_task_that_stores_a_failure_and_is_ignored_is_acked_unless_it_fails_its_tuple(lab, scenario, outcome, reason):
    ended = lab.ended(scenario)
    assert (ended.outcome, ended.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("scenario", "reason", "done"),
    [
        ("unknown", "no such task", set()),
        ("unknown_step", "no such task", {"before"}),
        ("not_accepted", "Refusing to deserialize", set()),
        ("not_readable", "", set()),  # in words of the transport
    ],
)
def test_a_message_that_the_worker_cannot_run_fails_the_tree(lab, scenario, reason, done):
    ended = lab.ended(scenario)
    assert (ended.outcome, set(ended.done)) == ("failed", done)
    assert reason in ended.reason


def test_strict_refuses_to_publish_in_a_thread_that_a_task_has_started(lab):
    ended = lab.ended("publishes_untracked")
    assert (ended.outcome, set(ended.done)) == ("acked", {"refused"})
