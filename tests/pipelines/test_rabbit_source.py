"""A queue of a real RabbitMQ is read as a spout, through lost connections, dead readers and stops."""

import asyncio
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pika
import pytest
from acker_client import Acker, Completion, OperationsLost, Root, TupleClosed
from acker_client.sources.rabbitmq import Delivery, RabbitSpout, RejectMessage
from acker_protocol.errors import UnknownTopology
from acker_service.redis.embedded import EmbeddedServer
from pika.adapters.blocking_connection import BlockingChannel

from examples.support.acker import create_topology
from examples.support.broker import Broker, running_broker
from tests.support.broker import need_broker
from tests.support.relay import Relay, relayed
from tests.support.servers import acker_serve
from tests.support.waiting import eventually_true

LONG = 60.0
pytestmark = pytest.mark.timeout(400)


@dataclass
class Reader:
    """A source that runs in a thread, and what it has sent and settled."""

    source: RabbitSpout
    stop: threading.Event = field(default_factory=threading.Event)
    sent: list[tuple[Delivery, dict[str, str]]] = field(default_factory=list)
    done: list[tuple[Completion, Delivery]] = field(default_factory=list)
    fault: BaseException | None = None

    def run(self, drain_timeout: float) -> None:
        try:
            self.source.run(stop=self.stop.is_set, drain_timeout=drain_timeout)
        except BaseException as fault:  # noqa: BLE001 - the test looks at it
            self.fault = fault

    def wait_for(self, sent: int) -> None:
        eventually_true(lambda: len(self.sent) >= sent, within=LONG)


@pytest.fixture
def topology(acker_url: str) -> str:
    name = f"orders-{secrets.token_hex(4)}"
    create_topology(acker_url, name, message_timeout=60)
    return name


@pytest.fixture
def acker(acker_url: str, topology: str) -> Iterator[Acker]:
    with Acker(acker_url, topology=topology) as acker:
        yield acker


@contextmanager
def reading(acker: Acker, url: str, queue: str, *, drain_timeout: float = 0.0, **options: object) -> Iterator[Reader]:
    """Read a queue until the block is left. What is sent stays in the reader's hand."""

    def send(root: Root, delivery: Delivery) -> None:
        reader.sent.append((delivery, root.headers("work")))

    told: dict[str, object] = {
        "send": send,
        "requeue_delay": 0.0,
        "on_completed": lambda *pair: reader.done.append(pair),
    }
    reader = Reader(RabbitSpout(acker, spout="reader", url=url, queue=queue, **(told | options)))
    thread = threading.Thread(target=reader.run, args=[drain_timeout])
    thread.start()
    try:
        yield reader
    finally:
        reader.stop.set()
        thread.join(LONG)
        assert not thread.is_alive()
    if reader.fault is not None:
        raise reader.fault


def put(broker: Broker, queue: str, *bodies: str, **arguments: object) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(message_id=body, delivery_mode=2))
    connection.close()


def consumers(broker: Broker, queue: str) -> int:
    connection = broker.connect()
    count: int = connection.channel().queue_declare(queue, passive=True).method.consumer_count
    connection.close()
    return count


def left(broker: Broker, queue: str, count: int) -> None:
    """So many messages wait in the queue, once RabbitMQ has taken back what its reader held."""
    eventually_true(lambda: broker.ready(queue) == count, within=LONG)


def bolt(acker: Acker, sent: tuple[Delivery, dict[str, str]]) -> None:
    acker.ack(acker.receive(sent[1], component="work"))


def test_a_delivery_is_acked_when_its_tree_is_and_not_before(acker: Acker, broker: Broker, queue: str) -> None:
    put(broker, queue, "one", "two")
    with reading(acker, broker.url, queue) as reader:
        reader.wait_for(2)
        bolt(acker, reader.sent[0])
        eventually_true(lambda: len(reader.done) == 1, within=LONG)
        assert (reader.done[0][0].message_id, reader.done[0][0].acked) == ("one", True)
        assert len(reader.source) == 1
    left(broker, queue, 1)  # the other one is RabbitMQ's again


def test_a_failed_one_is_requeued_and_delivered_again(acker: Acker, broker: Broker, queue: str) -> None:
    put(broker, queue, "one")
    with reading(acker, broker.url, queue, drain_timeout=LONG) as reader:
        reader.wait_for(1)
        acker.fail(acker.receive(reader.sent[0][1], component="work"), reason="no")
        reader.wait_for(2)
        bolt(acker, reader.sent[1])
    assert [delivery.redelivered for delivery, _ in reader.sent] == [False, True]
    assert [done.outcome for done, _ in reader.done] == ["failed", "acked"]
    left(broker, queue, 0)


def test_one_that_timed_out_is_requeued(acker: Acker, acker_url: str, broker: Broker, queue: str) -> None:
    create_topology(acker_url, acker.topology, message_timeout=1)
    put(broker, queue, "one")
    with reading(acker, broker.url, queue) as reader:
        reader.wait_for(2)
    assert reader.done[0][0].outcome == "timed_out"
    left(broker, queue, 1)


def test_while_other_acks_could_not_be_delivered_nothing_that_was_delivered_is_forgotten(
    acker: Acker, broker: Broker, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, faults = acker._submitter.flusher.buffer.raise_failures, iter([OperationsLost(1)])

    def tell_once() -> None:
        if fault := next(faults, None):
            raise fault
        tell()

    put(broker, queue, "one", "two")
    monkeypatch.setattr(acker._submitter.flusher.buffer, "raise_failures", tell_once)
    with reading(acker, broker.url, queue, drain_timeout=LONG) as reader:
        reader.wait_for(2)
        for sent in reader.sent[:2]:
            bolt(acker, sent)
        eventually_true(lambda: len(reader.done) == 2, within=LONG)
    left(broker, queue, 0)


@pytest.mark.parametrize("fault", [ZeroDivisionError(), TupleClosed("used again")])
def test_what_else_send_raises_ends_the_reading_and_everything_is_delivered_again(
    acker: Acker, broker: Broker, queue: str, fault: Exception
) -> None:
    def send(root: Root, delivery: Delivery) -> None:
        raise fault

    put(broker, queue, "one", "two")
    source = RabbitSpout(acker, spout="reader", url=broker.url, queue=queue, send=send)
    with pytest.raises(type(fault)):
        source.run(stop=lambda: False)
    left(broker, queue, 2)


@pytest.mark.parametrize("on_failed", ["reject", lambda *_: "reject"])
def test_a_failed_one_may_be_rejected_and_become_a_dead_letter(
    acker: Acker, broker: Broker, queue: str, on_failed: object
) -> None:
    put(broker, f"{queue}-dead")
    put(broker, queue, "one", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{queue}-dead"})
    with reading(acker, broker.url, queue, on_failed=on_failed) as reader:
        reader.wait_for(1)
        acker.fail(acker.receive(reader.sent[0][1], component="work"))
        eventually_true(lambda: broker.ready(f"{queue}-dead") == 1, within=LONG)
    left(broker, queue, 0)


def test_what_send_rejects_is_rejected_and_not_emitted(acker: Acker, broker: Broker, queue: str) -> None:
    rejected: list[Delivery] = []

    def send(root: Root, delivery: Delivery) -> None:
        rejected.append(delivery)
        raise RejectMessage("no order")

    put(broker, queue, "one")
    with reading(acker, broker.url, queue, send=send):
        eventually_true(lambda: rejected, within=LONG)
    left(broker, queue, 0)


def test_no_more_is_delivered_than_may_be_pending(acker: Acker, broker: Broker, queue: str) -> None:
    put(broker, queue, *map(str, range(20)))
    with reading(acker, broker.url, queue, max_pending=7) as reader:
        eventually_true(lambda: broker.ready(queue) == 13, within=LONG)
        reader.wait_for(7)
        bolt(acker, reader.sent[0])
        reader.wait_for(8)
        assert len(reader.sent) == 8


def test_no_more_is_delivered_than_the_topology_lets_be_pending(
    acker: Acker, acker_url: str, broker: Broker, queue: str
) -> None:
    create_topology(acker_url, acker.topology, max_spout_pending=3)
    put(broker, queue, *map(str, range(20)))
    with reading(acker, broker.url, queue) as reader:
        reader.wait_for(3)
        left(broker, queue, 17)


def test_a_stop_takes_no_more_and_waits_for_what_is_pending(acker: Acker, broker: Broker, queue: str) -> None:
    put(broker, queue, *map(str, range(20)))
    with reading(acker, broker.url, queue, max_pending=5, drain_timeout=LONG) as reader:
        reader.wait_for(5)
        reader.stop.set()
        eventually_true(lambda: consumers(broker, queue) == 0, within=LONG)
        for sent in reader.sent[:5]:
            bolt(acker, sent)
    assert (len(reader.sent), len(reader.done)) == (5, 5)
    left(broker, queue, 15)


def test_a_child_for_an_exchange_that_does_not_exist_is_told_in_the_log(
    acker: Acker, broker: Broker, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    def send(root: Root, delivery: Delivery) -> None:
        delivery.publish("work", delivery.body, root.anchor("work"), exchange="nowhere")

    put(broker, queue, "one")
    with reading(acker, broker.url, queue, send=send):
        eventually_true(lambda: "no exchange 'nowhere'" in caplog.text, within=LONG)
    left(broker, queue, 1)


def test_children_go_out_through_the_delivery_with_their_anchors(acker: Acker, broker: Broker, queue: str) -> None:
    def send(root: Root, delivery: Delivery) -> None:
        delivery.publish(f"{queue}-work", delivery.body, root.anchor("work"), message_id="child")

    put(broker, f"{queue}-work")
    put(broker, queue, "one")
    with reading(acker, broker.url, queue, send=send, drain_timeout=LONG):
        connection = broker.connect()
        [(_, properties, body)] = take(connection.channel(), f"{queue}-work", 1)
        with acker.receive(properties.headers, component="work"):
            assert (body, properties.message_id) == (b"one", "child")
        connection.close()
    left(broker, queue, 0)


def test_without_a_message_id_a_delivery_is_acked_and_sent(acker: Acker, broker: Broker, queue: str) -> None:
    put(broker, queue, "one")
    with reading(acker, broker.url, queue, message_id=lambda _: None) as reader:
        reader.wait_for(1)
    assert reader.sent[0][1] == {}
    left(broker, queue, 0)


@pytest.fixture
def relay(broker: Broker) -> Iterator[Relay]:
    with relayed(broker.port) as relay:
        yield relay


def through(relay: Relay) -> str:
    return f"amqp://guest:guest@127.0.0.1:{relay.port}/%2F"


def test_after_a_lost_connection_all_is_delivered_again_and_the_old_deliveries_are_left_alone(
    acker: Acker, broker: Broker, queue: str, relay: Relay
) -> None:
    put(broker, queue, "one", "two")
    with reading(acker, through(relay), queue, drain_timeout=LONG) as reader:
        reader.wait_for(2)
        relay.cut()
        reader.wait_for(4)
        for sent in reader.sent[:2]:
            bolt(acker, sent)  # their trees are done, but what they came from was delivered again
        acker.flush()
        bolt(acker, reader.sent[2])
        eventually_true(lambda: len(reader.done) == 1, within=LONG)
        assert len(reader.source) == 1
        bolt(acker, reader.sent[3])
    assert [delivery.channel for delivery, _ in reader.sent] == [1, 1, 2, 2]
    assert [delivery.channel for _, delivery in reader.done] == [2, 2]
    left(broker, queue, 0)


def test_a_broker_that_was_killed_is_connected_to_again(acker: Acker, tmp_path: Path, queue: str) -> None:
    need_broker()
    with running_broker(tmp_path) as broker:
        put(broker, queue, "one")
        broker.stop()  # RabbitMQ writes the declaration of a queue to disk after it has confirmed it
        broker.start()
        with reading(acker, broker.url, queue, drain_timeout=LONG) as reader:
            reader.wait_for(1)
            broker.kill()
            broker.start()
            reader.wait_for(2)
            bolt(acker, reader.sent[1])
        left(broker, queue, 0)


def test_a_broker_that_is_frozen_does_not_hold_up_the_end(
    acker: Acker, tmp_path: Path, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a heartbeat pika would wait for ever until the connection is closed."""
    need_broker()
    with running_broker(tmp_path) as broker:
        put(broker, queue, "one", "two")
        assert broker.node is not None
        with reading(acker, f"{broker.url}?heartbeat=0", queue) as reader:
            reader.wait_for(2)
            os.kill(broker.node.process.pid, signal.SIGSTOP)
            bolt(acker, reader.sent[0])
            eventually_true(lambda: len(reader.done) == 1, within=LONG)
        os.kill(broker.node.process.pid, signal.SIGCONT)
        assert "RabbitMQ did not confirm within 10 s" in caplog.text
        left(broker, queue, 1)  # the ack was sent before


def test_a_queue_that_is_taken_away_is_waited_for(acker: Acker, broker: Broker, queue: str) -> None:
    put(broker, queue, "one")
    with reading(acker, broker.url, queue) as reader:
        reader.wait_for(1)
        connection = broker.connect()
        connection.channel().queue_delete(queue)
        connection.close()
        put(broker, queue, "two")
        reader.wait_for(2)
    assert [delivery.body for delivery, _ in reader.sent] == [b"one", b"two"]


def test_a_delivery_that_is_held_too_long_costs_the_channel_and_comes_again(
    acker: Acker, tmp_path: Path, queue: str
) -> None:
    """RabbitMQ's consumer_timeout, which it looks for once in a while: here every second."""
    need_broker()
    impatient = "[{rabbit, [{consumer_timeout, 1000}, {channel_tick_interval, 1000}]}]"
    with running_broker(tmp_path, settings=impatient) as broker:
        put(broker, queue, "one")
        with reading(acker, broker.url, queue) as reader:
            reader.wait_for(2)
    one, again = (delivery for delivery, _ in reader.sent[:2])
    assert one.channel < again.channel
    assert again.redelivered


LIMITED = {"x-queue-type": "quorum", "x-delivery-limit": 2}
"""Drops a message at its third return. RabbitMQ 4.0 and later limit quorum queues by default: to twenty."""


@dataclass
class Refusing:
    """An acker that can stop taking roots, and what lets it take them again."""

    acker: Acker
    refuse: Callable[[], None]
    take_again: Callable[[], None]


def _settled(reader: Reader, count: int, *, acked_by: Acker) -> None:
    """Ack whatever is emitted until so many deliveries are settled."""
    bolted: list[tuple[Delivery, dict[str, str]]] = []

    def settled() -> bool:
        for sent in reader.sent[len(bolted) :]:
            bolt(acked_by, sent)
            bolted.append(sent)
        return len(reader.done) >= count

    eventually_true(settled, within=LONG)


@contextmanager
def _killed(folder: Path) -> Iterator[Refusing]:
    with acker_serve(folder, "--data-dir", str(folder / "data")) as served, _impatient(served.url) as acker:
        acker.topologies.create("orders", message_timeout=60)

        def start_again() -> None:
            served.start()
            served.wait_until_ready()

        yield Refusing(acker, served.kill, start_again)


@contextmanager
def _without_its_store(folder: Path) -> Iterator[Refusing]:
    store = EmbeddedServer(folder / "store")
    asyncio.run(store.start())
    try:
        with acker_serve(folder, "--redis-url", store.url) as served, _impatient(served.url) as acker:
            acker.topologies.create("orders", message_timeout=60)
            freeze, thaw = partial(os.kill, store.pid, signal.SIGSTOP), partial(os.kill, store.pid, signal.SIGCONT)
            yield Refusing(acker, freeze, thaw)
    finally:
        asyncio.run(store.stop())


@contextmanager
def _full_of_roots(folder: Path) -> Iterator[Refusing]:
    with acker_serve(folder, "--data-dir", str(folder / "data")) as served, _impatient(served.url) as acker:
        held: list[Root] = []

        def fill() -> None:
            acker.topologies.create("orders", message_timeout=60, max_spout_pending=2)
            for number in range(2):
                with acker.spout("reader").emit(message_id=f"held-{number}") as root:
                    root.anchor("held")
                held.append(root)

        def empty() -> None:
            acker.topologies.create("orders", message_timeout=60, max_spout_pending=100)

        acker.topologies.create("orders", message_timeout=60, max_spout_pending=100)
        yield Refusing(acker, fill, empty)


@contextmanager
def _without_its_topology(folder: Path) -> Iterator[Refusing]:
    with acker_serve(folder, "--data-dir", str(folder / "data")) as served, _impatient(served.url) as acker:

        def delete() -> None:
            acker.topologies.delete("orders", force=True)

        def create() -> None:
            acker.topologies.create("orders", message_timeout=60)

        create()
        yield Refusing(acker, delete, create)


def _impatient(url: str) -> Acker:
    return Acker(url, topology="orders", retry_timeout=0.5, emit_timeout=0.5)


@pytest.mark.parametrize("refusing", [_killed, _without_its_store, _full_of_roots, _without_its_topology])
def test_what_the_acker_does_not_accept_is_held_and_costs_no_delivery(
    broker: Broker,
    queue: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    refusing: Callable[[Path], AbstractContextManager[Refusing]],
) -> None:
    put(broker, queue, **LIMITED)
    with refusing(tmp_path) as kind, reading(kind.acker, broker.url, queue, drain_timeout=LONG) as reader:
        eventually_true(lambda: consumers(broker, queue) == 1, within=LONG)
        kind.refuse()
        put(broker, queue, "one", "two", "three", **LIMITED)
        # three times could each message be delivered
        eventually_true(lambda: caplog.text.count("could not be emitted") > 3 * 3, within=LONG)
        kind.take_again()
        _settled(reader, 3, acked_by=kind.acker)
        assert {delivery.body for _, delivery in reader.done} == {b"one", b"two", b"three"}
        assert not any(delivery.redelivered for delivery, _ in reader.sent)
    left(broker, queue, 0)


def test_a_stop_while_deliveries_are_held_gives_them_back(broker: Broker, queue: str, tmp_path: Path) -> None:
    put(broker, queue, **LIMITED)
    with _full_of_roots(tmp_path) as kind:
        with reading(kind.acker, broker.url, queue, drain_timeout=LONG) as reader:
            eventually_true(lambda: consumers(broker, queue) == 1, within=LONG)
            kind.refuse()
            put(broker, queue, "one", "two", **LIMITED)
            reader.wait_for(2 * 2)
        assert not reader.done
    left(broker, queue, 2)


def test_held_deliveries_of_a_lost_channel_are_left_to_the_next(
    broker: Broker, queue: str, relay: Relay, tmp_path: Path
) -> None:
    put(broker, queue)
    with (
        _full_of_roots(tmp_path) as kind,
        reading(kind.acker, through(relay), queue, drain_timeout=LONG) as reader,
    ):
        eventually_true(lambda: consumers(broker, queue) == 1, within=LONG)
        kind.refuse()
        put(broker, queue, "one", "two")
        reader.wait_for(2 * 2)
        relay.cut()
        eventually_true(lambda: any(delivery.channel == 2 for delivery, _ in reader.sent), within=LONG)
        kind.take_again()
        _settled(reader, 2, acked_by=kind.acker)
        assert {delivery.channel for _, delivery in reader.done} == {2}
    left(broker, queue, 0)


def test_one_that_always_fails_counts_and_becomes_a_dead_letter(acker: Acker, broker: Broker, queue: str) -> None:
    put(broker, f"{queue}-dead")
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{queue}-dead"}
    put(broker, queue, "one", **LIMITED, **dead_letters)
    with reading(acker, broker.url, queue) as reader:
        for attempt in (1, 2, 3):
            reader.wait_for(attempt)
            acker.fail(acker.receive(reader.sent[attempt - 1][1], component="work"))
        eventually_true(lambda: broker.ready(f"{queue}-dead") == 1, within=LONG)
        assert [delivery.headers.get("x-delivery-count") for delivery, _ in reader.sent] == [None, 1, 2]


def test_a_failed_one_is_returned_by_what_every_rabbitmq_counts(
    acker: Acker, broker: Broker, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From RabbitMQ 4.3 on a quorum queue counts ``basic.reject`` only; this one counts ``basic.nack``, too."""
    returned: list[bool] = []
    reject = BlockingChannel.basic_reject

    def note(channel: BlockingChannel, delivery_tag: int, **options: bool) -> None:
        returned.append(options["requeue"])
        reject(channel, delivery_tag, **options)

    monkeypatch.setattr(BlockingChannel, "basic_reject", note)
    put(broker, queue, "one", **LIMITED)
    with reading(acker, broker.url, queue) as reader:
        reader.wait_for(1)
        acker.fail(acker.receive(reader.sent[0][1], component="work"))
        reader.wait_for(2)
    assert returned == [True]


def test_a_source_that_cannot_begin_says_so(acker: Acker, acker_url: str, broker: Broker, queue: str) -> None:
    nowhere = RabbitSpout(acker, spout="reader", url=broker.url, queue="no-such-queue", send=print)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
        nowhere.run(stop=lambda: False)
    with Acker(acker_url, topology="no-such-topology") as other, pytest.raises(UnknownTopology):
        RabbitSpout(other, spout="reader", url=broker.url, queue=queue, send=print).run(stop=lambda: False)


def take(channel: object, queue: str, count: int) -> list[tuple[object, pika.BasicProperties, bytes]]:
    found = []
    for method, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=LONG):
        assert method is not None
        found.append((method, properties, body))
        if len(found) == count:
            return found
    raise AssertionError("consume never ends")
