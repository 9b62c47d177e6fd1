"""The queues between the processes, and how a worker consumes one.

A tuple is acked to RabbitMQ as soon as a worker takes it, so what a worker holds when it dies is lost, as in Storm:
that the order comes again is the acker's doing.
"""

import json
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pika
from acker_client import Anchors

THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a worker is started with; queues are those of the run, and ``crash_at`` says at which order it dies."""

    broker: str
    acker: str
    topology: str
    guarantee: str
    max_pending: int
    orders: str
    authorise: str
    notify: str
    statuses: str
    cards: str
    notices: str
    folder: str
    crash_at: dict[str, str]


def task_of_this_process() -> Task:
    """Read the task this process was started with."""
    return Task(**json.loads(sys.argv[1]))


Work = Callable[[Mapping[str, Any], bytes], None]
"""Works on one tuple: its headers and what it says."""


class TupleQueue:
    """One worker's connection to a queue: consumes tuples, several at a time, and sends others on."""

    def __init__(self, broker: str, queue: str) -> None:
        self._queue = queue
        self._connection = pika.BlockingConnection(pika.URLParameters(broker))
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=THREADS)
        self._pool = ThreadPoolExecutor(THREADS)
        self._in_progress = 0
        self._ending = False

    def send(self, queue: str, said: Mapping[str, Any], anchors: Anchors) -> None:
        """Send a tuple on, from any thread; it is not confirmed, an edge that nobody acks says it was lost."""
        properties = pika.BasicProperties(headers=anchors.amqp_headers())
        publish = partial(self._channel.basic_publish, "", queue, json.dumps(said).encode(), properties)
        self._connection.add_callback_threadsafe(publish)

    def work(self, work: Work) -> None:
        """Work until SIGTERM; then take no more, and finish what was taken."""
        signal.signal(signal.SIGTERM, self._end)
        consumer = self._channel.basic_consume(self._queue, partial(self._on_message, work))
        while not self._ending:
            self._connection.process_data_events(time_limit=1.0)
        self._channel.basic_cancel(consumer)
        while self._in_progress:
            self._connection.process_data_events(time_limit=1.0)
        self._pool.shutdown()
        self._connection.close()

    def _end(self, *_: object) -> None:
        self._ending = True
        self._connection.add_callback_threadsafe(lambda: None)

    def _on_message(self, work: Work, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        self._in_progress += 1
        channel.basic_ack(method.delivery_tag)
        self._pool.submit(self._work, work, properties.headers or {}, body)

    def _work(self, work: Work, headers: Mapping[str, Any], body: bytes) -> None:
        try:
            work(headers, body)
        except Exception:
            logging.getLogger(__name__).exception("a tuple was not worked off")
        finally:
            self._connection.add_callback_threadsafe(self._count_down)

    def _count_down(self) -> None:
        self._in_progress -= 1
