"""The scenario: a message is split into lines, lines into names, names are greeted; the greeter raises at one."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pika
from acker_client import Acker, Anchors, Completion

MESSAGE = "刘备 关羽 张飞\n曹操 郭嘉 荀彧"
LINES, NAMES = "names-example-lines", "names-example-names"

Tuples = Iterator[tuple[Any, pika.BasicProperties, bytes]]


class CannotGreet(Exception):
    """The greeter raises this at one name, the first time."""


@dataclass(slots=True, kw_only=True)
class Observed:
    """What happened, in order."""

    lines: list[str] = field(default_factory=list)
    deliveries: list[tuple[str, bool]] = field(default_factory=list)
    greeted: list[str] = field(default_factory=list)
    edges: set[str] = field(default_factory=set)
    completions_at_error: list[str] = field(default_factory=list)
    done: list[Completion] = field(default_factory=list)


class Scenario:
    """All parts in one thread, one after the other, with a queue of RabbitMQ before each."""

    def __init__(self, acker: Acker, connection: pika.BlockingConnection, *, hard_name: str) -> None:
        self._acker = acker
        self._channel = connection.channel()
        self._hard_name = hard_name
        self._spout = acker.spout("messages")
        self.observed = Observed()
        for queue in (LINES, NAMES):
            self._channel.queue_delete(queue)
            self._channel.queue_declare(queue)

    def run(self) -> Observed:
        """Run it until the completion of the tree has come."""
        self._emit()
        self._split()
        self._greet_all()
        for done in self._spout.completions(until=30, stop=lambda: bool(self.observed.done)):
            self.observed.done.append(done)
            print(f"spout    {done.message_id} {done.outcome}")
        return self.observed

    def _emit(self) -> None:
        """The spout: one root, an edge for each line."""
        with self._spout.emit(message_id="the-six") as root:
            for number, line in enumerate(MESSAGE.splitlines()):
                self._send(LINES, line, root.anchor(f"line-{number}"))
        print("spout    the-six is on its way, as two lines")

    def _split(self) -> None:
        """The bolt that splits: a line in, its names out, each anchored to the line under its own name."""
        for method, properties, body in itertools.islice(self._consume(LINES), MESSAGE.count("\n") + 1):
            with self._acker.receive(_headers(properties), component="split") as tup:
                for name in body.decode().split():
                    self._send(NAMES, name, tup.anchor(name))
            self._channel.basic_ack(method.delivery_tag)
            self.observed.lines.append(body.decode())
            print(f"split    {body.decode()}")
        self._channel.cancel()

    def _greet_all(self) -> None:
        """The bolt that greets. When it raises, its queue delivers that one tuple again, and nothing else."""
        for method, properties, body in self._consume(NAMES):
            name = body.decode()
            self.observed.deliveries.append((name, bool(method.redelivered)))
            try:
                with self._acker.receive(_headers(properties), component="greet", on_error="leave_open"):
                    self._greet(name, again=method.redelivered)
            except CannotGreet as error:
                print(f"greet    {error}: back to the queue")
                self.observed.completions_at_error += [done.outcome for done in self._spout.completions(until=0)]
                self._channel.basic_reject(method.delivery_tag, requeue=True)
            else:
                self._channel.basic_ack(method.delivery_tag)
            if len(self.observed.greeted) == len(MESSAGE.split()):
                break
        self._channel.cancel()

    def _greet(self, name: str, *, again: bool) -> None:
        if name == self._hard_name and not again:
            raise CannotGreet(f"{name} is not to be greeted the first time")
        self.observed.greeted.append(name)
        print(f"greet    hello {name}")

    def _send(self, queue: str, said: str, anchors: Anchors) -> None:
        self.observed.edges |= {str(anchor) for anchor in anchors.anchors}
        self._channel.basic_publish("", queue, said.encode(), pika.BasicProperties(headers=anchors.amqp_headers()))

    def _consume(self, queue: str) -> Tuples:
        self._channel.basic_qos(prefetch_count=1)
        return iter(self._channel.consume(queue))


def _headers(properties: pika.BasicProperties) -> Mapping[str, Any]:
    return properties.headers or {}
