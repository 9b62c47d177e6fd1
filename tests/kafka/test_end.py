"""A spout that is asked to stop ends, whatever its consumer, its broker or its group does."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest
from acker_client import Acker
from acker_client.sources.kafka import KafkaSpout
from confluent_kafka import Consumer, KafkaException, TopicPartition

from examples.support.kafka import KafkaBroker, running_kafka
from examples.support.processes import processes_in
from tests.kafka.test_rebalances import KINDS, settings_of
from tests.support.kafka import LONG, Member, committed, member_config, need_kafka, produce
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(400)

Reading = Callable[..., AbstractContextManager[Member]]


class NeverCloses(Consumer):
    """A consumer whose ``close`` never returns."""

    def close(self) -> None:
        """Wait for ever, as librdkafka does where its own thread has ended its part of the group."""
        threading.Event().wait()


def test_a_consumer_that_never_closes_does_not_hold_up_the_end(
    kafka: KafkaBroker,
    reading: Reading,
    topic: str,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("acker_client.sources.kafka.group.Consumer", NeverCloses)
    produce(kafka, topic, 2)
    with reading(topic) as reader:
        reader.wait_for(2)
        reader.ack(0)
        reader.wait_done(1)
    assert committed(kafka, group, topic) == 1
    assert "the consumer did not close within 6 s, and is left as it is" in caplog.text


def test_a_process_whose_consumer_never_closes_ends_at_sigterm(
    kafka: KafkaBroker, acker_url: str, topology: str, topic: str, wide_topic: str, group: str, tmp_path: Path
) -> None:
    config = member_config(kafka, group, "classic")
    task = {"acker": acker_url, "topology": topology, "orders": topic, "work": wide_topic, "config": config}
    program = (
        "import sys, json; from acker_client.sources.kafka import group; from tests.kafka.test_end import NeverCloses; "
        "from tests.support.kafka_member import main; group.Consumer = NeverCloses; main(json.loads(sys.argv[1]))"
    )
    with processes_in(tmp_path) as processes:
        member = processes.start("member", [sys.executable, "-c", program, json.dumps(task)])
        eventually_true(lambda: _has_member(kafka, group), within=LONG)
        assert member.end(within=LONG) == 0
        assert "did not close" in member.tail()


def test_a_broker_that_does_not_answer_does_not_hold_up_the_end(
    acker_url: str, topology: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    need_kafka()
    with running_kafka(tmp_path) as kafka, Acker(acker_url, topology=topology, retry_timeout=5.0) as acker:
        kafka.create_topic("orders")
        produce(kafka, "orders", 2)
        node, sent, stopping = kafka.node.process.pid, [], threading.Event()
        config = member_config(kafka, "orders", "classic")
        spout = KafkaSpout(
            acker, spout="x", config=config, topics=["orders"], send=lambda _, record: sent.append(record)
        )
        running = threading.Thread(target=spout.run, kwargs={"stop": stopping.is_set}, daemon=True)
        running.start()
        eventually_true(lambda: len(sent) == 2, within=LONG)
        os.kill(node, signal.SIGSTOP)
        try:
            stopping.set()
            running.join(LONG)
            assert not running.is_alive()
        finally:
            os.kill(node, signal.SIGCONT)
    assert "did not close within 6 s" in caplog.text


@pytest.mark.parametrize("stopped", ["while it reads", "while it is being assigned"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_rebalance_calls_back_from_within_the_close(
    kafka: KafkaBroker,
    acker_url: str,
    topology: str,
    topic: str,
    group: str,
    kind: str,
    stopped: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There librdkafka may wait for itself for ever, and confluent-kafka holds the interpreter's lock meanwhile."""
    closing: list[bool] = []
    called: list[tuple[str, bool]] = []

    class Watched(Consumer):
        def close(self) -> None:
            closing.append(True)
            super().close()

    def watch(name: str) -> None:
        original = getattr(KafkaSpout, name)

        def note(spout: KafkaSpout, partitions: list[TopicPartition]) -> None:
            called.append((name, bool(closing)))
            original(spout, partitions)

        monkeypatch.setattr(KafkaSpout, name, note)

    monkeypatch.setattr("acker_client.sources.kafka.group.Consumer", Watched)
    for name in ("_assigned", "_revoked"):
        watch(name)

    def stop() -> bool:
        eventually_true(lambda: _has_member(kafka, group), within=LONG)
        return stopped == "while it is being assigned" or bool(called)

    settings = settings_of(kind)
    config = member_config(kafka, group, str(settings["protocol"])) | KINDS[kind]
    with Acker(acker_url, topology=topology) as acker:
        KafkaSpout(acker, spout="x", config=config, topics=[topic], send=print).run(stop=stop)
    assert closing
    assert called == [("_assigned", False), ("_revoked", False)]


def _has_member(kafka: KafkaBroker, group: str) -> bool:
    """Whether a member of a group holds a partition, as the broker sees it."""
    admin = kafka.admin()  # its futures fail when it is gone
    with suppress(KafkaException):  # the coordinator of the group may be loading
        found = admin.describe_consumer_groups([group])[group].result(20)
        return any(member.assignment.topic_partitions for member in found.members)
    return False
