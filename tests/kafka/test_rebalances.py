"""An assignment ends when its partition is revoked or lost; what was read in it commits nothing any more."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from queue import SimpleQueue

import pytest
from acker_client import Root
from acker_client.sources.kafka import KafkaSpout, Record
from acker_client.sources.kafka.assignments import Assignments
from confluent_kafka import Consumer, Producer, TopicPartition

from examples.support.kafka import KafkaBroker
from tests.support.kafka import LONG, Member, committed, eventually_committed, member_config, produce
from tests.support.waiting import eventually_true, never

pytestmark = pytest.mark.timeout(400)

Reading = Callable[..., AbstractContextManager[Member]]

KINDS = {
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "eager": {"partition.assignment.strategy": "range"},
    "consumer": {},
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each way to assign partitions in turn."""
    return str(request.param)


def settings_of(kind: str) -> dict[str, object]:
    return {"protocol": "consumer" if kind == "consumer" else "classic", "settings": KINDS[kind]}


class Other:
    """Another member of the group, which is no spout. A thread polls, and does all else that uses the consumer.

    `Consumer.assignment` in one thread can wait forever, with the interpreter's lock, for a poll in another.
    """

    def __init__(self, config: dict[str, object], topic: str) -> None:
        self.topic = topic
        self.consumer = Consumer({**config, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
        self.consumer.subscribe([topic])
        self.read: list[tuple[int, int]] = []
        self.held: set[int] = set()
        self._commits: SimpleQueue[tuple[int, int]] = SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stop.is_set():
            message = self.consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.read.append((message.partition(), message.offset()))
            self.held = {each.partition for each in self.consumer.assignment()}
            while not self._commits.empty():
                offsets = [TopicPartition(self.topic, *self._commits.get())]
                self.consumer.commit(offsets=offsets, asynchronous=False)

    def commit(self, partition: int, offset: int) -> None:
        self._commits.put((partition, offset))

    def leave(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join(LONG)
            self.consumer.close()


@contextmanager
def other_member(kafka: KafkaBroker, group: str, kind: str, topic: str, **more: object) -> Iterator[Other]:
    """Be another member until the block is left."""
    settings = settings_of(kind)
    other = Other(member_config(kafka, group, str(settings["protocol"])) | KINDS[kind] | more, topic)
    try:
        yield other
    finally:
        other.leave()


def of(reader: Member, partition: int) -> list[int]:
    """The numbers of what was sent of a partition."""
    return [number for number, (record, _) in enumerate(reader.sent) if record.partition == partition]


def share(other: Other) -> tuple[int, int]:
    """Wait until the other member holds one partition; give that of the reader and that of the other."""
    eventually_true(lambda: len(other.held) == 1, within=LONG)
    [taken] = other.held
    return 1 - taken, taken


def test_completions_of_an_assignment_that_is_over_commit_nothing(
    kafka: KafkaBroker, reading: Reading, wide_topic: str, group: str, kind: str
) -> None:
    """The broker takes such a commit, so the group would go back to what its new owner has done."""
    for partition in (0, 1):
        produce(kafka, wide_topic, 10, partition=partition)
    with reading(wide_topic, **settings_of(kind)) as reader:
        reader.wait_for(20)
        with other_member(kafka, group, kind, wide_topic) as other:
            _, taken = share(other)
            other.commit(taken, 9)
            eventually_committed(kafka, group, wide_topic, 9, partition=taken)
            reader.ack(*of(reader, taken)[:4])
            never(lambda: committed(kafka, group, wide_topic, taken) != 9, for_s=2)
        last = f"{wide_topic}/{taken}/9"
        eventually_true(lambda: reader.ids().count(last) == 2, within=LONG)
        assert committed(kafka, group, wide_topic, taken) == 9
        assert not [record for _, record in reader.done if record.partition == taken]
        reader.ack(len(reader.ids()) - 1 - reader.ids()[::-1].index(last))
        eventually_committed(kafka, group, wide_topic, 10, partition=taken)


def test_a_spout_that_keeps_its_assignments_over_rebalances_is_noticed(
    kafka: KafkaBroker, reading: Reading, wide_topic: str, group: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Assignments.start

    def start_only_new(assignments: Assignments, partitions: list[TopicPartition]) -> None:
        start(assignments, [each for each in partitions if not assignments.find([each])])

    monkeypatch.setattr(KafkaSpout, "_lost", lambda *_: None)
    monkeypatch.setattr(Assignments, "start", start_only_new)
    with pytest.raises(AssertionError, match="it became true"):
        test_completions_of_an_assignment_that_is_over_commit_nothing(kafka, reading, wide_topic, group, kind)


def test_a_partition_that_is_kept_keeps_its_trees(
    kafka: KafkaBroker, reading: Reading, wide_topic: str, group: str, protocol: str
) -> None:
    for partition in (0, 1):
        produce(kafka, wide_topic, 10, partition=partition)
    kind = "consumer" if protocol == "consumer" else "cooperative"
    with reading(wide_topic, **settings_of(kind)) as reader:
        reader.wait_for(20)
        with other_member(kafka, group, kind, wide_topic) as other:
            kept, _ = share(other)
            reader.ack(*of(reader, kept))
            eventually_committed(kafka, group, wide_topic, 10, partition=kept)
            assert len(of(reader, kept)) == 10


def test_what_is_processed_is_committed_before_a_partition_is_given_up(
    kafka: KafkaBroker, reading: Reading, wide_topic: str, group: str, kind: str
) -> None:
    for partition in (0, 1):
        produce(kafka, wide_topic, 10, partition=partition)
    with reading(wide_topic, commit_interval=1000.0, **settings_of(kind)) as reader:
        reader.wait_for(20)
        for partition in (0, 1):
            reader.ack(*of(reader, partition)[:6])
        reader.wait_done(12)
        with other_member(kafka, group, kind, wide_topic) as other:
            _, taken = share(other)
            assert committed(kafka, group, wide_topic, taken) == 6
            eventually_true(lambda: (taken, 9) in other.read, within=LONG)
            assert min(offset for partition, offset in other.read if partition == taken) == 6


def test_a_partition_that_was_paused_is_read_when_it_is_given_back(
    kafka: KafkaBroker, reading: Reading, wide_topic: str, group: str, kind: str
) -> None:
    """librdkafka keeps it paused over a rebalance."""
    for partition in (0, 1):
        produce(kafka, wide_topic, 30, partition=partition)
    with reading(wide_topic, max_uncommitted=5, **settings_of(kind)) as reader:
        eventually_true(lambda: len(of(reader, 0)) >= 5 and len(of(reader, 1)) >= 5, within=LONG)
        eventually_true(lambda: all(each.paused for each in [*reader.spout._assignments]), within=LONG)
        with other_member(kafka, group, kind, wide_topic) as other:
            _, taken = share(other)
            other.commit(taken, 20)
            eventually_committed(kafka, group, wide_topic, 20, partition=taken)
        eventually_true(lambda: f"{wide_topic}/{taken}/20" in reader.ids(), within=LONG)
        acked: set[int] = set()

        def is_read_to_its_end() -> bool:
            """What is not acked keeps it full, and some of it may be sent after a look."""
            fresh = {number for number in of(reader, taken) if reader.sent[number][0].offset >= 20} - acked
            reader.ack(*fresh) if fresh else None
            acked.update(fresh)
            return f"{wide_topic}/{taken}/29" in reader.ids()

        eventually_true(is_read_to_its_end, within=LONG)
        assert not any(5 <= record.offset < 20 for record, _ in reader.sent if record.partition == taken)


def test_a_member_that_did_not_poll_for_too_long_loses_its_partitions_and_joins_again(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, kind: str
) -> None:
    waiting, release = threading.Event(), threading.Event()
    sent: list[tuple[Record, dict[str, str]]] = []

    def send(root: Root, record: Record) -> None:
        sent.append((record, root.headers("work")))
        if record.value == b"stop" and not release.is_set():
            waiting.set()
            release.wait(LONG)

    produce(kafka, topic, 5)
    options = settings_of(kind)
    options["settings"] = {**KINDS[kind], "max.poll.interval.ms": 7500}
    with reading(topic, send=send, **options) as reader:
        eventually_true(lambda: len(sent) == 5, within=LONG)
        reader.acker.receive(sent[0][1], component="work").ack()
        eventually_committed(kafka, group, topic, 1)
        [lost] = [*reader.spout._assignments]
        produce_value(kafka, topic, "stop")
        assert waiting.wait(LONG)
        with other_member(kafka, group, kind, topic) as other:
            eventually_true(lambda: (0, 4) in other.read, within=LONG)
            assert (0, 0) not in other.read
            other.commit(0, 5)
            eventually_committed(kafka, group, topic, 5)
            release.set()
            eventually_true(lambda: lost.is_over, within=LONG)
            for _, headers in sent[1:4]:
                reader.acker.receive(headers, component="work").ack()
            never(lambda: committed(kafka, group, topic) != 5, for_s=2)
        eventually_true(lambda: len(sent) == 7, within=LONG)
        assert [record.offset for record, _ in sent] == [0, 1, 2, 3, 4, 5, 5]


def produce_value(kafka: KafkaBroker, topic: str, value: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.address})
    producer.produce(topic, value=value, partition=0)
    assert producer.flush(30) == 0
