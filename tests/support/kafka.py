"""Reads topics of a real Kafka through spouts in threads, and looks at what the group has committed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from acker_client import Acker
from acker_client.sources.kafka import KafkaSpout, Record
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from examples.support.kafka import KafkaBroker, NoKafka, find_classpath
from tests.support.spouts import RunningSpout
from tests.support.waiting import eventually_true

LONG = 90.0
PROTOCOLS = ("classic", "consumer")
SHORT_SESSION = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}
"""In the other protocol the broker sets them, and `examples.support.kafka` has set it so."""


def need_kafka() -> None:
    """Skip the test where Kafka cannot be run; in CI, where it is to be, fail."""
    try:
        find_classpath()
    except NoKafka as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def member_config(kafka: KafkaBroker, group: str, protocol: str, **more: object) -> dict[str, Any]:
    """Return the settings of a member of a group; names have ``_`` for ``.``."""
    session = SHORT_SESSION if protocol == "classic" else {}
    config = {"bootstrap.servers": kafka.address, "group.id": group, "group.protocol": protocol, "log_level": 2}
    return config | session | {name.replace("_", "."): value for name, value in more.items()}


class Member(RunningSpout[KafkaSpout, Record]):
    """A spout that is a member of a group."""

    def ids(self) -> list[str]:
        """The message ids of what was sent."""
        return [record.message_id for record, _ in self.sent]

    def held(self) -> set[int]:
        """The partitions that it holds now."""
        return {assignment.partition for assignment in [*self.spout._assignments]}


@contextmanager
def member(
    url: str,
    topology: str,
    config: dict[str, Any],
    topics: list[str],
    *,
    drain_timeout: float = 0.0,
    raises: type[BaseException] | None = None,
    **options: Any,
) -> Iterator[Member]:
    """Run a member until the block is left, with a client of its own; ``raises`` is what it has to end with.

    What is sent stays in its list.
    """
    with Acker(url, topology=topology, retry_timeout=5.0, emit_timeout=2.0) as acker:
        started = Member(acker=acker, within=LONG)
        given: dict[str, Any] = {"send": started.send, "on_completed": started.note}
        short: dict[str, Any] = {"commit_interval": 0.1, "retry_delay": 0.05}
        name = f"spout-{id(started):x}"
        started.spout = KafkaSpout(acker, spout=name, config=config, topics=topics, **(given | short | options))
        with started.running(drain_timeout):
            yield started
    if raises is not None:
        assert isinstance(started.error, raises)
    elif started.error is not None:
        raise started.error


def produce(kafka: KafkaBroker, topic: str, count: int, *, partition: int = 0, first: int = 0) -> None:
    """Produce records to one partition, with their numbers as values."""
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 2})
    for number in range(first, first + count):
        producer.produce(topic, value=str(number), partition=partition)
    assert producer.flush(30) == 0


def committed(kafka: KafkaBroker, group: str, topic: str, partition: int = 0) -> int | None:
    """Read what a group has committed, without being a member of it."""
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": group, "log_level": 2})
    try:
        [found] = consumer.committed([TopicPartition(topic, partition)], timeout=20)
    finally:
        consumer.close()
    assert found.error is None, found.error
    return found.offset if found.offset >= 0 else None


def eventually_committed(kafka: KafkaBroker, group: str, topic: str, offset: int, partition: int = 0) -> None:
    def is_committed() -> bool:
        with suppress(KafkaException):  # the coordinator of the group may be loading
            return committed(kafka, group, topic, partition) == offset
        return False

    eventually_true(is_committed, within=LONG)
