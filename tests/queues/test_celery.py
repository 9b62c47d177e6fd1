"""Tests that what grows out of a root through Celery is one tree: the rows of docs/celery.md."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.queues.conftest import QUORUM_TIMEOUT_S, SHORT_TIMEOUT_S, SOME_TIMEOUT_S, Services
from tests.queues.harness import WITHIN_S, Lab, Worker, working
from tests.queues.marks import FOREIGN_NAMES

POOLS = ("prefork", "threads", "gevent")
KINDS = [(broker, pool) for pool in POOLS for broker in ("redis", "rabbitmq")]
MODULE = "tests.queues.celery_tasks"
REQUEUES = "tests.queues.celery_requeues"
QUORUM = "tests.queues.celery_quorum"
WAITS = [f"{length} wait of a {what}" for length in ("long", "short") for what in ("root", "task", "retry")]
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING")
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


def running(lab: Lab, pool: str, folder: Path, *, module: str = MODULE) -> AbstractContextManager[Lab]:
    options = ["--pool", pool, "--concurrency", "4", *QUIET]
    command = ["-m", "celery", "--app", module, "worker", *options]
    return working(Worker(command, environment=lab.environment(), log=folder / "log"), lab)


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


@pytest.mark.parametrize(
    ("broker", "outcome", "reason"), [("redis", "failed", "expired"), ("rabbitmq", "timed_out", None)]
)
@pytest.mark.parametrize("pool", POOLS)
def test_a_task_that_expires_fails_the_tree_unless_the_broker_drops_it(
    services, tmp_path, pool, broker, outcome, reason
):
    """RabbitMQ drops a message that has expired before any worker sees it."""
    with running(services.lab(broker, message_timeout=SOME_TIMEOUT_S), pool, tmp_path) as lab:
        lab.emit(MODULE, ["expires"])
        ended = lab.ended("expires")
        assert (ended.outcome, ended.reason, ended.done) == (outcome, reason, {})


def test_strict_refuses_to_publish_in_a_thread_that_a_task_has_started(lab):
    ended = lab.ended("publishes_untracked")
    assert (ended.outcome, set(ended.done)) == ("acked", {"refused"})


def test_a_task_that_is_lost_with_its_process_fails_the_tree(services, tmp_path):
    with running(services.lab("redis"), "prefork", tmp_path) as lab:
        lab.emit(MODULE, ["is_lost"])
        ended = lab.ended("is_lost")
        assert ended.outcome == "failed"
        assert "Worker exited prematurely" in ended.reason


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_task_that_runs_event_loops_with_the_client_of_its_module_loses_no_ack(services, tmp_path, broker):
    with running(services.lab(broker), "prefork", tmp_path) as lab:
        lab.emit(MODULE, ["runs_loops"])
        ended = lab.ended("runs_loops")
        assert (ended.outcome, ended.done["child"]) == ("acked", 3)


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_task_that_reaches_its_hard_time_limit_fails_the_tree(services, tmp_path, broker):
    with running(services.lab(broker), "prefork", tmp_path) as lab:
        lab.emit(MODULE, ["takes_too_long"])
        ended = lab.ended("takes_too_long")
        assert (ended.outcome, ended.reason) == ("failed", "TimeLimitExceeded(1,)")


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_task_that_is_requeued_at_its_hard_time_limit_runs_on_when_its_tree_has_timed_out(services, tmp_path, broker):
    """Celery does not let it go, whatever its result says; ``strict=True`` refuses the setting."""
    with running(services.lab(broker, message_timeout=SHORT_TIMEOUT_S), "prefork", tmp_path, module=REQUEUES) as lab:
        lab.emit(REQUEUES, ["takes_too_long"])
        assert lab.ended("takes_too_long").outcome == "timed_out"
        runs = lab.runs("takes_too_long")["runs"]
        until = time.monotonic() + WITHIN_S
        while lab.runs("takes_too_long")["runs"] < runs + 2:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_a_process_that_dies_between_its_result_and_its_ack_is_not_replaced_and_the_tree_times_out(services, tmp_path):
    with running(services.lab("redis", message_timeout=SOME_TIMEOUT_S), "prefork", tmp_path) as lab:
        lab.emit(MODULE, ["stores_its_result_and_dies_at_its_end"])
        assert lab.ended("stores_its_result_and_dies_at_its_end").outcome == "timed_out"


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_countdown_longer_than_the_message_timeout_is_waited_for(broker, services, tmp_path):
    with running(services.lab(broker, message_timeout=SHORT_TIMEOUT_S), "threads", tmp_path) as lab:
        lab.emit(MODULE, ["waits"])
        ended = lab.ended("waits")
        assert (ended.outcome, set(ended.done)) == ("acked", {"work"})


@pytest.mark.parametrize("exchange", ["topic", "fanout", "direct"])
def test_a_wait_in_a_quorum_queue_that_outlasts_the_message_timeout_is_refused(
    services, tmp_path, monkeypatch, exchange
):
    """Unless the exchange is direct: then a worker holds the task, and resets the timeout."""
    monkeypatch.setenv("QUEUES_EXCHANGE", exchange)
    lab = services.lab("rabbitmq", message_timeout=QUORUM_TIMEOUT_S)
    with running(lab, "threads", tmp_path, module=QUORUM):
        lab.emit(QUORUM, ["now"])  # the worker has declared where tasks wait
        assert lab.ended("now").outcome == "acked"
        lab.emit(QUORUM, WAITS)
        ends = {scenario: lab.ended(scenario) for scenario in WAITS}
    late, refused = ("acked", {"late"}), ("acked", {"refused"})
    found = {scenario: (ended.outcome, set(ended.done)) for scenario, ended in ends.items()}
    assert found == {
        "long wait of a root": late if exchange == "direct" else refused,
        "long wait of a task": late if exchange == "direct" else refused,
        "long wait of a retry": late if exchange == "direct" else ("failed", set()),
        **dict.fromkeys(WAITS[3:], late),
    }
    if exchange != "direct":
        assert "RabbitMQ itself holds it" in ends["long wait of a retry"].reason
