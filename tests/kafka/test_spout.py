"""Topics of a real Kafka are read as a spout: what is committed, what is emitted again, and how it ends."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from acker_client import Acker, OperationsLost, Root, TupleClosed, UnknownTopology
from acker_client.sources.kafka import KafkaSpout, Record, SkipRecord
from confluent_kafka import Consumer, Producer

from examples.support.acker import create_topology
from examples.support.kafka import KafkaBroker
from tests.support.kafka import LONG, Member, committed, eventually_committed, member, member_config, produce
from tests.support.pages import DOCS, fences
from tests.support.servers import acker_serve
from tests.support.waiting import eventually_true, never

pytestmark = pytest.mark.timeout(400)

Reading = Callable[..., AbstractContextManager[Member]]


def test_an_offset_is_committed_when_all_trees_below_are_processed_and_not_before(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, protocol: str
) -> None:
    produce(kafka, topic, 5)
    with reading(topic, protocol=protocol) as reader:
        reader.wait_for(5)
        reader.ack(0, 1, 3)
        eventually_committed(kafka, group, topic, 2)
        never(lambda: committed(kafka, group, topic) != 2, for_s=1)
        reader.ack(2)
        eventually_committed(kafka, group, topic, 4)
        assert len(reader.spout) == 1
    assert committed(kafka, group, topic) == 4
    assert [(record.value, record.offset, record.attempt) for record, _ in reader.sent[:2]] == [
        (b"0", 0, 1),
        (b"1", 1, 1),
    ]


def test_the_next_reader_goes_on_at_the_first_record_whose_tree_is_not_processed(
    kafka: KafkaBroker, reading: Reading, topic: str, protocol: str
) -> None:
    produce(kafka, topic, 5)
    with reading(topic, protocol=protocol) as reader:
        reader.wait_for(5)
        reader.ack(0, 1, 3)
        reader.wait_done(3)
    with reading(topic, protocol=protocol) as reader:
        reader.wait_for(3)
        assert [record.offset for record, _ in reader.sent] == [2, 3, 4]


def test_what_was_settled_is_committed_at_the_end(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, protocol: str
) -> None:
    produce(kafka, topic, 3)
    with reading(topic, protocol=protocol, commit_interval=1000.0) as reader:
        reader.wait_for(3)
        reader.ack(0, 1)
        reader.wait_done(2)
        assert committed(kafka, group, topic) is None
    assert committed(kafka, group, topic) == 2


def test_a_failed_record_is_emitted_again_under_a_new_root_with_the_same_message_id(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str
) -> None:
    produce(kafka, topic, 3)
    with reading(topic) as reader:
        reader.wait_for(3)
        reader.fail(1)
        reader.ack(0, 2)
        reader.wait_for(4)
        assert reader.ids() == [f"{topic}/0/{offset}" for offset in (0, 1, 2, 1)]
        assert reader.sent[3][0].attempt == 2
        eventually_committed(kafka, group, topic, 1)
        reader.ack(3)
        eventually_committed(kafka, group, topic, 3)
    assert {completion.outcome for completion, _ in reader.done} == {"acked", "failed"}


def test_one_that_timed_out_is_emitted_again(
    kafka: KafkaBroker, reading: Reading, topic: str, acker_url: str, topology: str
) -> None:
    create_topology(acker_url, topology, message_timeout=1)
    produce(kafka, topic, 1)
    with reading(topic) as reader:
        reader.wait_for(2)
    assert reader.done[0][0].outcome == "timed_out"


def test_retries_come_ever_later_and_each_is_warned_of(
    kafka: KafkaBroker, reading: Reading, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    produce(kafka, topic, 1)
    with reading(topic, retry_delay=0.4, retry_delay_max=0.8) as reader:
        for attempt in range(1, 4):
            reader.wait_for(attempt)
            assert reader.sent[-1][0].attempt == attempt
            reader.fail(attempt - 1)
            reader.wait_done(attempt)
            never(lambda attempt=attempt: len(reader.sent) > attempt, for_s=min(0.3 * 2 ** (attempt - 1), 0.6))
        reader.wait_for(4)
    assert [f"record {topic}/0/0 failed at attempt {attempt} (no)" in caplog.text for attempt in (1, 2, 3)] == [
        True
    ] * 3


@pytest.mark.parametrize("on_failed", ["skip", lambda *_: "skip"])
def test_a_failed_record_may_be_skipped(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, on_failed: object
) -> None:
    produce(kafka, topic, 2)
    with reading(topic, on_failed=on_failed) as reader:
        reader.wait_for(2)
        reader.ack(1)
        reader.fail(0)
        eventually_committed(kafka, group, topic, 2)
    assert len(reader.sent) == 2


def test_a_record_that_always_fails_goes_to_a_retry_topic_and_holds_back_nothing(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str
) -> None:
    shown = next(fence.code for fence in fences((DOCS / "kafka.md").read_text()) if "def park" in fence.code)
    named: dict[str, Any] = {"producer": Producer({"bootstrap.servers": kafka.address})}
    exec(shown.replace("orders-failed", f"{topic}-failed"), named)
    produce(kafka, topic, 3)
    with reading(topic, on_failed=named["park"]) as reader:
        reader.wait_for(3)
        reader.ack(0, 2)
        reader.fail(1)
        for attempt in (2, 3):
            reader.wait_for(2 + attempt)
            reader.fail(1 + attempt)
        eventually_committed(kafka, group, topic, 3)
    parked = Consumer({"bootstrap.servers": kafka.address, "group.id": f"{group}-2", "auto.offset.reset": "earliest"})
    parked.subscribe([f"{topic}-failed"])
    eventually_true(lambda: (found := parked.poll(1)) is not None and found.value() == b"1", within=LONG)
    parked.close()


def test_what_on_failed_raises_ends_the_reading_and_the_record_is_not_committed(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str
) -> None:
    def on_failed(*_: object) -> str:
        raise ZeroDivisionError

    produce(kafka, topic, 2)
    with reading(topic, on_failed=on_failed, raises=ZeroDivisionError) as reader:
        reader.wait_for(2)
        reader.ack(0)
        eventually_committed(kafka, group, topic, 1)
        reader.fail(1)
        eventually_true(lambda: reader.error, within=LONG)
    assert committed(kafka, group, topic) == 1


@pytest.mark.parametrize("error", [ZeroDivisionError(), TupleClosed("used again"), OperationsLost(1)])
def test_what_else_send_raises_ends_the_reading_and_nothing_is_committed(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, error: Exception
) -> None:
    def send(root: Root, record: Record) -> None:
        raise error

    produce(kafka, topic, 2)
    with reading(topic, send=send, raises=type(error)) as reader:
        eventually_true(lambda: reader.error, within=LONG)
    assert committed(kafka, group, topic) is None


def test_what_send_skips_is_not_emitted_and_is_committed(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str
) -> None:
    def send(root: Root, record: Record) -> None:
        root.headers("work")
        raise SkipRecord("no order")

    produce(kafka, topic, 2)
    with reading(topic, send=send) as reader:
        eventually_committed(kafka, group, topic, 2)
        assert len(reader.spout) == 0


def test_a_record_without_children_is_processed_at_once(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str
) -> None:
    produce(kafka, topic, 2)
    with reading(topic, send=lambda *_: None):
        eventually_committed(kafka, group, topic, 2)


def test_no_more_is_read_than_may_be_uncommitted_and_a_full_partition_stays_in_the_group(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, protocol: str
) -> None:
    """It waits for longer than max.poll.interval.ms, so it is polled while it is paused."""
    produce(kafka, topic, 50)
    settings = {"max.poll.interval.ms": 8000}
    with reading(topic, protocol=protocol, settings=settings, max_uncommitted=7) as reader:
        reader.wait_for(7)
        [assignment] = reader.spout._assignments
        never(lambda: len(reader.sent) > 7 or assignment.is_over, for_s=11)
        reader.ack()
        reader.wait_for(14)
        assert not assignment.is_over
        assert reader.ids() == [f"{topic}/0/{offset}" for offset in range(14)]


def test_one_record_that_does_not_complete_holds_commits_back_while_others_go_on(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str
) -> None:
    produce(kafka, topic, 20)
    with reading(topic, max_uncommitted=10) as reader:
        reader.wait_for(10)
        reader.ack(*range(1, 10))
        never(lambda: len(reader.sent) > 10, for_s=1)
        reader.ack(0)
        reader.wait_for(20)
        eventually_committed(kafka, group, topic, 10)


def test_no_more_roots_are_pending_than_the_topology_allows(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, acker_url: str, topology: str
) -> None:
    create_topology(acker_url, topology, max_spout_pending=3, message_timeout=60)
    produce(kafka, topic, 20)
    with reading(topic) as reader:
        for done in range(0, 20, 3):
            reader.wait_for(min(done + 3, 20))
            never(lambda done=done: len(reader.sent) > done + 3, for_s=0.2)
            reader.ack(*range(done, min(done + 3, 20)))
        eventually_committed(kafka, group, topic, 20)


def test_offsets_are_committed_where_the_topology_has_no_ackers(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, acker_url: str, topology: str
) -> None:
    """Storm's own spout never commits there."""
    with Acker(acker_url) as client:
        client.topologies.delete(topology)
        client.topologies.create(topology, ackers=0)
    produce(kafka, topic, 20)
    with reading(topic):
        eventually_committed(kafka, group, topic, 20)


def test_a_stop_takes_no_more_and_waits_for_what_is_pending(
    kafka: KafkaBroker, reading: Reading, topic: str, group: str, protocol: str
) -> None:
    produce(kafka, topic, 20)
    with reading(topic, protocol=protocol, max_uncommitted=5, drain_timeout=LONG) as reader:
        reader.wait_for(5)
        reader.stop.set()
        never(lambda: not len(reader.spout), for_s=0.5)
        reader.ack()
    assert (len(reader.sent), len(reader.done)) == (5, 5)
    assert committed(kafka, group, topic) == 5


def test_a_drain_does_not_wait_for_what_failed(kafka: KafkaBroker, reading: Reading, topic: str, group: str) -> None:
    produce(kafka, topic, 2)
    with reading(topic, drain_timeout=LONG) as reader:
        reader.wait_for(2)
        reader.stop.set()
        reader.ack(0)
        reader.fail(1)
    assert committed(kafka, group, topic) == 1


def test_while_the_acker_is_away_records_stay_in_memory(
    kafka: KafkaBroker, topic: str, group: str, tmp_path: Path, protocol: str
) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as served:
        config = member_config(kafka, group, protocol)
        with member(served.url, "default", config, [topic], retry_delay=0.2) as reader:
            produce(kafka, topic, 1)
            reader.wait_for(1)
            served.kill()
            produce(kafka, topic, 1, first=1)
            reader.wait_for(3)  # emitted twice at least, and its init never came through
            [assignment] = reader.spout._assignments
            served.start()
            served.wait_until_ready()
            acked: set[int] = set()

            def is_committed() -> bool:
                fresh = set(range(len(reader.sent))) - acked
                reader.ack(*fresh) if fresh else None
                acked.update(fresh)
                return committed(kafka, group, topic) == 2

            eventually_true(is_committed, within=LONG)
            assert not assignment.is_over


def test_a_spout_that_cannot_begin_says_so(kafka: KafkaBroker, acker_url: str, group: str, topic: str) -> None:
    config = member_config(kafka, group, "classic")
    with Acker(acker_url, topology="no-such-topology") as acker, pytest.raises(UnknownTopology):
        KafkaSpout(acker, spout="reader", config=config, topics=[topic], send=print).run(stop=lambda: False)


def test_an_asyncio_program_runs_it_in_a_thread(
    kafka: KafkaBroker, acker_url: str, topology: str, topic: str, group: str
) -> None:
    stopping = threading.Event()

    async def program() -> int:
        with Acker(acker_url, topology=topology) as acker:
            loop, received = asyncio.get_running_loop(), asyncio.Queue[dict[str, str]]()

            def send(root: Root, record: Record) -> None:
                loop.call_soon_threadsafe(received.put_nowait, root.headers("work"))

            config = member_config(kafka, group, "consumer")
            spout = KafkaSpout(acker, spout="aio", config=config, topics=[topic], send=send, commit_interval=0.1)
            running = asyncio.create_task(asyncio.to_thread(spout.run, stop=stopping.is_set))
            for _ in range(3):
                acker.receive(await received.get(), component="work").ack()
            stopping.set()
            await running
            return len(spout)

    produce(kafka, topic, 3)
    assert asyncio.run(program()) == 0
    assert committed(kafka, group, topic) == 3
