"""The spout and the two bolts, each a process: ``python -m examples.kafka_orders.workers JSON``. SIGTERM ends them."""

import json
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from acker_client import Acker, FailTuple, Root, Tuple
from acker_client.sources.kafka import KafkaSpout, Record
from confluent_kafka import Consumer, Producer

from examples.support.notices import NoticeFault, Notices
from examples.support.statuses import Status

GROUP = "orders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a worker is started with; ``role`` is "spout", "authorise" or "notify"."""

    role: str
    kafka: str
    acker: str
    notices: str
    orders: str = "orders"
    authorise: str = "authorise"
    notify: str = "notify"


def spout(task: Task, acker: Acker, stop: threading.Event) -> None:
    """Read the orders; each is committed when a webhook has said what became of it, and all orders before it."""
    producer = Producer({"bootstrap.servers": task.kafka, "log_level": 2})

    def send(root: Root, record: Record) -> None:
        producer.produce(task.authorise, record.value, headers=[*root.anchor("authorise").kafka_headers()])
        producer.poll(0)

    config = {"bootstrap.servers": task.kafka, "group.id": GROUP, "session.timeout.ms": 6_000, "log_level": 2}
    orders = KafkaSpout(acker, spout="orders", config=config, topics=[task.orders], send=send, retry_delay=0.5)
    orders.run(stop=stop.is_set)


def authorise(task: Task, acker: Acker, stop: threading.Event) -> None:
    """Authorise each order, and pass it on: a child of the tuple."""
    producer = Producer({"bootstrap.servers": task.kafka, "log_level": 2})

    def work(tup: Tuple, value: bytes) -> None:
        producer.produce(task.notify, value, headers=[*tup.anchor("notify").kafka_headers()])
        producer.poll(0)

    consume(task, task.authorise, acker, stop, work)
    producer.flush(10)


def notify(task: Task, acker: Acker, stop: threading.Event) -> None:
    """Call the webhook of another system; if it does not answer, the tree fails, and the order is emitted again."""
    notices = Notices(task.notices)

    def work(_: Tuple, value: bytes) -> None:
        try:
            notices.send(value.decode(), Status.AUTHORISED)
        except NoticeFault as error:
            raise FailTuple(str(error)) from error

    consume(task, task.notify, acker, stop, work)
    notices.close()


def consume(task: Task, topic: str, acker: Acker, stop: threading.Event, work: Callable[[Tuple, bytes], None]) -> None:
    """Work on the tuples of a topic. Kafka commits them by time: what a killed bolt has taken times out."""
    config = {"bootstrap.servers": task.kafka, "group.id": topic, "session.timeout.ms": 6_000, "log_level": 2}
    consumer = Consumer({**config, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while not stop.is_set():
        message = consumer.poll(0.2)
        if message is None or message.error() is not None:
            continue
        with acker.receive(message.headers(), component=task.role) as tup:
            work(tup, message.value() or b"")
    consumer.close()


ROLES = {"spout": spout, "authorise": authorise, "notify": notify}


def main(task: Task) -> None:
    """Run a worker until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with Acker(task.acker, startup_timeout=None) as acker:
        ROLES[task.role](task, acker, stop)


if __name__ == "__main__":
    main(Task(**json.loads(sys.argv[1])))
