"""Members are killed and frozen, the broker is killed, topics change: nothing is lost, or committed too early."""

import json
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from acker_client import Acker
from confluent_kafka import KafkaException, Producer
from confluent_kafka.cimpl import NewPartitions

from examples.support.kafka import KafkaBroker
from examples.support.processes import Child, Processes, processes_in
from tests.support.kafka import LONG, Member, committed, eventually_committed, member_config, produce
from tests.support.kafka_audit import Auditor, Bolt, read_offsets
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(400)

Reading = Callable[..., AbstractContextManager[Member]]
FROZEN_S = 9.0
"""Longer than a session."""


@dataclass(kw_only=True)
class Group:
    """Members in processes of their own."""

    processes: Processes
    task: dict[str, object]
    started: int = 0

    def join(self) -> Child:
        self.started += 1
        command = ("tests.support.kafka_member", json.dumps(self.task))
        return self.processes.start_module(f"member-{self.started}", *command)


@pytest.fixture
def work(kafka: KafkaBroker) -> str:
    name = f"work-{secrets.token_hex(4)}"
    kafka.create_topic(name)
    return name


@pytest.fixture
def bolt(kafka: KafkaBroker, acker_url: str, topology: str, work: str) -> Iterator[Bolt]:
    with Acker(acker_url, topology=topology) as acker:
        bolt = Bolt(kafka, acker, work)
        yield bolt
        bolt.stop()


@pytest.fixture
def members(
    kafka: KafkaBroker,
    acker_url: str,
    topology: str,
    wide_topic: str,
    work: str,
    group: str,
    protocol: str,
    tmp_path: Path,
) -> Iterator[Group]:
    task = {"acker": acker_url, "topology": topology, "orders": wide_topic, "work": work, "max_uncommitted": 20}
    with processes_in(tmp_path) as processes:
        yield Group(processes=processes, task={**task, "config": member_config(kafka, group, protocol)})


@pytest.fixture
def audited(kafka: KafkaBroker, bolt: Bolt, wide_topic: str, group: str) -> Iterator[Auditor]:
    """Four hundred records, and an auditor that has nothing to say about them at the end."""
    for partition in (0, 1):
        produce(kafka, wide_topic, 200, partition=partition)
    auditor = Auditor(kafka, group, wide_topic, read_offsets(kafka, wide_topic, 2, 400), bolt.processed)
    yield auditor
    auditor.stop()
    assert auditor.samples > 0
    assert (len(bolt.processed), auditor.too_early, auditor.went_back) == (400, set(), [])


def test_a_member_that_is_killed_loses_nothing(members: Group, audited: Auditor, bolt: Bolt) -> None:
    first, _ = members.join(), members.join()
    eventually_true(lambda: len(bolt.processed) > 100, within=LONG)
    first.kill()
    members.join()
    eventually_true(lambda: audited.is_complete, within=LONG)


def test_a_member_that_is_frozen_beyond_its_session_takes_nothing_back(
    members: Group, audited: Auditor, bolt: Bolt
) -> None:
    first = members.join()
    eventually_true(lambda: len(bolt.processed) > 50, within=LONG)
    first.process.send_signal(signal.SIGSTOP)
    members.join()
    time.sleep(FROZEN_S)
    first.process.send_signal(signal.SIGCONT)
    eventually_true(lambda: audited.is_complete, within=LONG)
    assert first.runs


def test_members_that_leave_in_good_order_give_up_nothing_that_is_processed(
    members: Group, audited: Auditor, bolt: Bolt
) -> None:
    first, second = members.join(), members.join()
    eventually_true(lambda: len(bolt.processed) > 100, within=LONG)
    assert first.end(within=40) == 0
    eventually_true(lambda: audited.is_complete, within=LONG)
    assert second.end(within=40) == 0


def test_a_broker_that_is_killed_is_waited_for(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, protocol: str
) -> None:
    produce(kafka, topic, 3)
    with reading(topic, protocol=protocol) as reader:
        reader.wait_for(3)
        kafka.kill()
        reader.ack(0, 1, 2)
        reader.wait_done(3)
        kafka.start()
        acked = {0, 1, 2}

        def is_committed() -> bool:
            fresh = set(range(len(reader.sent))) - acked  # read again, where the session has ended meanwhile
            reader.ack(*fresh) if fresh else None
            acked.update(fresh)
            with suppress(KafkaException):
                return committed(kafka, group, topic) == 3
            return False

        eventually_true(is_committed, within=LONG)
        produce(kafka, topic, 1, first=3)
        eventually_true(lambda: b"3" in [record.value for record, _ in reader.sent], within=LONG)


def test_partitions_that_are_added_are_read_from_their_first_record(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, protocol: str
) -> None:
    produce(kafka, topic, 3)
    with reading(topic, protocol=protocol, settings={"topic.metadata.refresh.interval.ms": 2000}) as reader:
        reader.wait_for(3)
        admin = kafka.admin()
        for added in admin.create_partitions([NewPartitions(topic, 2)]).values():
            added.result(30)
        eventually_true(lambda: _can_produce(kafka, topic, 1), within=LONG)
        eventually_true(lambda: [record for record, _ in reader.sent if record.partition == 1], within=LONG)
        eventually_true(lambda: reader.sent[-1][0].value == b"last", within=LONG)
        assert min(record.offset for record, _ in reader.sent if record.partition == 1) == 0
        reader.ack()
        eventually_committed(kafka, group, topic, 3, partition=0)


def test_aborted_transactions_and_their_markers_do_not_block(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, protocol: str
) -> None:
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic})
    producer.init_transactions(30)
    for number, ends in enumerate((producer.commit_transaction, producer.abort_transaction) * 3):
        producer.begin_transaction()
        producer.produce(topic, value=str(number))
        producer.flush(30)  # else an abort drops what was not sent
        ends(30)
    with reading(topic, protocol=protocol) as reader:
        reader.wait_for(3)
        assert [(record.value, record.offset) for record, _ in reader.sent] == [(b"0", 0), (b"2", 4), (b"4", 8)]
        reader.ack()
        eventually_committed(kafka, group, topic, 9)


def test_compacted_records_do_not_block(kafka: KafkaBroker, reading: Reading, topic: str, group: str) -> None:
    name = f"compacted-{topic}"
    dirty = {"min_cleanable_dirty_ratio": "0.01", "min_compaction_lag_ms": "0", "delete_retention_ms": "100"}
    kafka.create_topic(name, cleanup_policy="compact", segment_ms="500", segment_bytes="1048576", **dirty)
    producer = Producer({"bootstrap.servers": kafka.address})

    def is_compacted() -> bool:
        producer.produce(name, value="again", key="a")  # only a segment that is not written to is compacted
        producer.flush(30)
        time.sleep(1)
        return 1 not in read_offsets(kafka, name, 1, 2)[0]

    for number in range(10):
        producer.produce(name, value=str(number), key="a")
    eventually_true(is_compacted, within=LONG)
    with reading(name) as reader:
        eventually_true(lambda: len(reader.sent) >= 1 and reader.sent[-1][0].value == b"again", within=LONG)
        offsets = [record.offset for record, _ in reader.sent]
        assert offsets != [*range(offsets[-1] + 1)]
        reader.ack()
        eventually_committed(kafka, group, name, offsets[-1] + 1)


def test_a_topic_that_is_deleted_and_created_again_is_read_from_its_beginning(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str
) -> None:
    produce(kafka, topic, 5)
    with reading(topic, settings={"topic.metadata.refresh.interval.ms": 2000}) as reader:
        reader.wait_for(5)
        reader.ack(0, 1, 2)
        eventually_committed(kafka, group, topic, 3)
        admin = kafka.admin()
        for deleted in admin.delete_topics([topic]).values():
            deleted.result(30)
        eventually_true(lambda: topic not in kafka.admin().list_topics(timeout=10).topics, within=LONG)
        kafka.create_topic(topic)
        produce(kafka, topic, 2, first=100)
        eventually_true(lambda: b"101" in [record.value for record, _ in reader.sent], within=LONG)
        reader.ack(*(number for number, (record, _) in enumerate(reader.sent) if record.value in {b"100", b"101"}))
        eventually_committed(kafka, group, topic, 2)


def _can_produce(kafka: KafkaBroker, topic: str, partition: int) -> bool:
    """Produce a few, the last of which says so; False while the producer does not know the partition."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.address})
    for value in ("first", "last"):
        producer.produce(topic, value=value, partition=partition, on_delivery=lambda error, _: failures.append(error))
    return producer.flush(10) == 0 and failures == [None, None]
