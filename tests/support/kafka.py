"""Reads topics of a real Kafka through spouts in threads, and looks at what the group has committed."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from acker_client import Acker, Completion, Root
from acker_client.sources.kafka import KafkaSpout, Record
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from examples.support.kafka import KafkaBroker, NoKafka, find_classpath
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
    """Give the settings of a member of a group; names have ``_`` for ``.``."""
    session = SHORT_SESSION if protocol == "classic" else {}
    config = {"bootstrap.servers": kafka.address, "group.id": group, "group.protocol": protocol, "log_level": 2}
    return config | session | {name.replace("_", "."): value for name, value in more.items()}


@dataclass(kw_only=True)
class Member:
    """A spout that runs in a thread, and what it has sent and settled."""

    acker: Acker
    spout: KafkaSpout = field(init=False)
    stop: threading.Event = field(default_factory=threading.Event)
    sent: list[tuple[Record, dict[str, str]]] = field(default_factory=list)
    done: list[tuple[Completion, Record]] = field(default_factory=list)
    error: BaseException | None = None

    def send(self, root: Root, record: Record) -> None:
        self.sent.append((record, root.headers("work")))

    def run(self, drain_timeout: float) -> None:
        try:
            self.spout.run(stop=self.stop.is_set, drain_timeout=drain_timeout)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def wait_for(self, sent: int) -> None:
        eventually_true(lambda: len(self.sent) >= sent or self.error, within=LONG)
        assert self.error is None

    def wait_done(self, done: int) -> None:
        eventually_true(lambda: len(self.done) >= done or self.error, within=LONG)
        assert self.error is None

    def ids(self) -> list[str]:
        return [record.message_id for record, _ in self.sent]

    def ack(self, *numbers: int) -> None:
        """Process the trees of those sent: by their numbers, without any all."""
        for number in numbers or range(len(self.sent)):
            self.acker.ack(self.acker.receive(self.sent[number][1], component="work"))

    def fail(self, number: int) -> None:
        self.acker.fail(self.acker.receive(self.sent[number][1], component="work"), reason="no")

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
        started = Member(acker=acker)
        given: dict[str, Any] = {"send": started.send, "on_completed": lambda *pair: started.done.append(pair)}
        short: dict[str, Any] = {"commit_interval": 0.1, "retry_delay": 0.05}
        name = f"spout-{id(started):x}"
        started.spout = KafkaSpout(acker, spout=name, config=config, topics=topics, **(given | short | options))
        thread = threading.Thread(target=started.run, args=[drain_timeout])
        thread.start()
        try:
            yield started
        finally:
            started.stop.set()
            thread.join(LONG)
            assert not thread.is_alive()
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
