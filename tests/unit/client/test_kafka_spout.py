"""Tests of the Kafka spout that need no Kafka: settings it refuses, errors of commits, assignments."""

import pytest
from acker_client import Acker, UsageError
from acker_client.sources.kafka import KafkaSpout
from acker_client.sources.kafka.assignments import Assignment, Assignments, next_attempt
from acker_client.sources.kafka.group import NOT_YET, OVER, check_commit_error, group_config
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

BASE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "orders"}
ONE = [TopicPartition("orders", 0)]


def message(offset: int, *, partition: int = 0) -> Message:
    return Message(topic="orders", partition=partition, offset=offset, value=b"")


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"group.id": ""}, "group.id"),
        ({"enable.auto.commit": True}, "enable.auto.commit must not be true"),
        ({"enable.auto.commit": "TRUE"}, "enable.auto.commit must not be true"),
        ({"enable.auto.offset.store": "true"}, "enable.auto.offset.store must not be true"),
        ({"auto.offset.reset": "latest"}, "auto.offset.reset"),
        ({"auto.offset.reset": "largest"}, "auto.offset.reset"),
        ({"max.poll.interval.ms": 30_000}, "max.poll.interval.ms is 30000"),
    ],
)
def test_settings_that_would_lose_records_are_refused(setting: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        group_config(BASE | setting, emit_takes_s=30)


def test_other_settings_are_taken_and_completed() -> None:
    taken = group_config({**BASE, "auto.offset.reset": "error", "enable.auto.commit": "false"}, emit_takes_s=90)
    assert taken == {
        **BASE,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "partition.assignment.strategy": "cooperative-sticky",
    }
    assert "partition.assignment.strategy" not in group_config({**BASE, "group.protocol": "consumer"}, emit_takes_s=90)


@pytest.mark.parametrize("wrong", [{"topics": "orders"}, {"topics": []}, {"max_uncommitted": 0}, {"retry_delay": -1.0}])
def test_a_spout_is_refused_that_cannot_work(wrong: dict[str, object]) -> None:
    options = {"spout": "orders", "config": BASE, "topics": ["orders"], "send": print} | wrong
    with Acker("http://127.0.0.1:1") as acker, pytest.raises(UsageError):
        KafkaSpout(acker, **options)


@pytest.mark.parametrize("code", sorted(NOT_YET | OVER))
def test_after_some_errors_of_a_commit_the_consumer_goes_on(code: int, caplog: pytest.LogCaptureFixture) -> None:
    check_commit_error(KafkaError(code))
    assert ("will be later" in caplog.text) == (code in NOT_YET)
    assert ("without this member" in caplog.text) == (code in OVER)


@pytest.mark.parametrize("code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.FENCED_INSTANCE_ID])
def test_any_other_error_of_a_commit_is_raised(code: int) -> None:
    with pytest.raises(KafkaException):
        check_commit_error(KafkaError(code))


def test_a_partition_is_full_until_half_of_it_is_committed() -> None:
    assignment = Assignment("orders", 0, max_uncommitted=4)
    records = [assignment.read(message(offset)) for offset in range(10, 14)]
    assert assignment.is_full
    for record, full in zip(records[:2], (True, False), strict=True):
        assignment.ack(record)
        assert assignment.commit_position == record.offset + 1
        assignment.commit(record.offset + 1)
        assert assignment.is_full is full


def test_records_are_emitted_again_when_they_are_due() -> None:
    assignments = Assignments(max_uncommitted=10)
    assignments.start(ONE)
    records = [assignments.read(message(offset)) for offset in range(3)]
    for record, at_s in zip(records, (3.0, 1.0, 2.0), strict=True):
        record.assignment.retry(next_attempt(record), at_s=at_s)
    assert [(record.offset, record.attempt) for record in assignments.pop_due(2.0)] == [(1, 2), (2, 2)]
    assert [record.offset for record in assignments.pop_due(9.0)] == [0]


def test_what_is_read_belongs_to_the_assignment_of_its_time() -> None:
    assignments = Assignments(max_uncommitted=10)
    assert assignments.read(message(0)) is None
    assignments.start(ONE)
    before = assignments.read(message(0)).assignment
    assignments.end(ONE)
    assert before.is_over
    assert assignments.read(message(1)) is None
    assignments.start(ONE)
    after = assignments.read(message(0)).assignment
    assert after is not before
    assignments.start(ONE)
    assert after.is_over


def test_offsets_that_go_back_begin_a_new_assignment() -> None:
    """The topic was deleted and created again: the tracker would take them for offsets that are committed."""
    assignments = Assignments(max_uncommitted=10)
    assignments.start(ONE)
    before = assignments.read(message(70))
    after = assignments.read(message(0))
    assert before.assignment.is_over
    after.assignment.ack(after)
    assert [each.commit_position for each in assignments] == [1]
