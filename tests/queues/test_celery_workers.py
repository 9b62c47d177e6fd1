"""Tests of Celery that start a worker of their own: docs/celery.md on expiry, time limits, countdowns, lost processes.

They stand apart from those that share a worker: two workers of one broker would take each other's tasks.
"""

import time

import pytest

from tests.queues.celery_workers import MODULE, POOLS, running
from tests.queues.conftest import QUORUM_TIMEOUT_S, SHORT_TIMEOUT_S, SOME_TIMEOUT_S
from tests.queues.harness import WITHIN_S

REQUEUES = "tests.queues.celery_requeues"
QUORUM = "tests.queues.celery_quorum"
WAITS = [f"{length} wait of a {what}" for length in ("long", "short") for what in ("root", "task", "retry")]


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
