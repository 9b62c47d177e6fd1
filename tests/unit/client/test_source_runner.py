"""Tests what the sources share: roots of messages, the thread that reads their completions, and who settles them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from acker_client import Acker, RetriesExhausted, UsageError
from acker_client.errors import UnknownRoot, UnknownTopology
from acker_client.sources._queue_spout import QueueSpout
from acker_client.sources._runner import Handlers, Runner, Settlements
from acker_client.sources.kafka import KafkaSpout
from acker_client.sources.nats import NatsSpout
from acker_client.sources.rabbitmq import RabbitSpout
from acker_client.sources.redis_streams import RedisStreamSpout
from acker_client.sources.sqs import SqsSpout
from acker_client.testing import MemoryAcker

from tests.support.waiting import eventually_true, never

WITHIN_S = 30.0


class Rejected(Exception):
    """Raised for a message that is not emitted."""


def make_runner(service: MemoryAcker, completed: list[str | None]) -> Runner[str]:
    handlers: Handlers[str] = Handlers(
        message_id=lambda message: message,
        send=lambda *_: None,
        rejection=Rejected,
        on_rejected=lambda _: None,
        on_untracked=lambda _: None,
        on_completion=lambda completion: completed.append(completion.message_id),
    )
    return Runner(service.acker(linger=0), spout="orders", handlers=handlers)


def polls(service: MemoryAcker) -> int:
    return sum(request.url.path.endswith("/completions") for request in service.requests)


def test_completions_are_asked_for_from_the_first_root_on(service: MemoryAcker) -> None:
    """Before it there is no such spout task: each request would be answered 404."""
    completed: list[str | None] = []
    runner = make_runner(service, completed)
    with runner.reading():
        never(lambda: polls(service), for_s=0.5)
        assert runner.emit(["42"]) == []
        eventually_true(lambda: completed == ["42"], within=WITHIN_S)


def test_a_source_that_has_emitted_nothing_ends(service: MemoryAcker) -> None:
    before = set(threading.enumerate())
    with make_runner(service, []).reading():
        assert set(threading.enumerate()) - before
    assert not set(threading.enumerate()) - before
    assert polls(service) == 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Order:
    """A message of a queue in memory."""

    id: str


class Orders:
    """A queue in memory; ``settled`` has what became of each message."""

    def __init__(self, *ids: str) -> None:
        self.error: BaseException | None = None
        self.left = [Order(id=id_) for id_ in ids]
        self.settled: list[tuple[str, str]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        yield

    def receive(self, max_messages: int) -> list[Order]:
        taken, self.left = self.left[:max_messages], self.left[max_messages:]
        return taken

    def ack(self, message: Order) -> None:
        self.settled.append((message.id, "acked"))

    def drop(self, message: Order) -> None:
        self.settled.append((message.id, "dropped"))

    def retry(self, message: Order, *, after_s: float) -> None:
        self.settled.append((message.id, f"again after {after_s:g} s"))


def read_orders(service: MemoryAcker, orders: Orders, **options: Any) -> None:
    """Read until one is settled, or for a while; all trees fail, but those of orders that begin with "good"."""
    client = service.acker(linger=0)

    def send(root: Any, order: Order) -> None:
        tup = client.receive(root.headers("charge"), component="charge")
        if order.id.startswith("good"):
            tup.ack()
        else:
            tup.fail("no such card")

    defaults: dict[str, Any] = {
        "settlements": Settlements("retry", "retry", "drop"),
        "message_id": lambda order: order.id,
        "on_completed": None,
    }
    spout: QueueSpout[Order] = QueueSpout(
        client,
        spout="orders",
        queue=orders,
        send=send,
        skip=Rejected,
        max_pending=9,
        retry_delay=2,
        **(defaults | options),
    )
    until = time.monotonic() + WITHIN_S
    spout.run(stop=lambda: bool(orders.settled) or time.monotonic() > until, drain_timeout=0)


@pytest.mark.parametrize(
    ("on_failed", "settled"),
    [("retry", "again after 2 s"), ("drop", "dropped"), (lambda *_: "retry", "again after 2 s")],
)
def test_a_message_whose_tree_failed_is_settled_as_its_spout_was_told(
    service: MemoryAcker, on_failed: "str | Callable[..., str]", settled: str
) -> None:
    orders = Orders("1")
    read_orders(service, orders, settlements=Settlements(on_failed, "retry", "drop"))
    assert orders.settled == [("1", settled)]


@pytest.mark.parametrize("word", [None, "requeue", "RETRY"])
def test_a_message_is_not_dropped_for_a_word_that_nobody_knows(service: MemoryAcker, word: Any) -> None:
    """A function that returns nothing on one of its ways has not said that the message may be lost."""
    orders = Orders("1")
    with pytest.raises(UsageError, match=f"on_failed returns must be 'retry' or 'drop', not {word!r}"):
        read_orders(service, orders, settlements=Settlements(lambda *_: word, "retry", "drop"))
    assert orders.settled == []


@pytest.mark.parametrize("error", [UnknownRoot("no such root"), RetriesExhausted("no answer"), ValueError("no")])
@pytest.mark.parametrize("function", ["on_failed", "on_completed"])
def test_what_a_function_raises_ends_the_spout_also_an_error_of_the_acker(
    service: MemoryAcker, function: str, error: Exception
) -> None:
    """It may ask the acker; the message that it was called for would be kept for ever, and never settled."""

    def fail(*_: object) -> str:
        raise error

    orders = Orders("1" if function == "on_failed" else "good 1")
    settlements = Settlements(fail if function == "on_failed" else "retry", "retry", "drop")
    with pytest.raises(type(error)) as raised:
        read_orders(service, orders, settlements=settlements, on_completed=fail if function == "on_completed" else None)
    assert raised.value is error


SPOUTS: dict[str, Callable[..., Any]] = {
    "kafka": lambda acker, **options: KafkaSpout(
        acker, spout="orders", config={"group.id": "orders"}, topics=["orders"], send=print, **options
    ),
    "nats": lambda acker, **options: NatsSpout(
        acker, spout="orders", url="nats://127.0.0.1:1", stream="orders", consumer="acker", send=print, **options
    ),
    "rabbitmq": lambda acker, **options: RabbitSpout(
        acker, spout="orders", url="amqp://127.0.0.1:1", queue="orders", send=print, **options
    ),
    "redis": lambda acker, **options: RedisStreamSpout(
        acker, spout="orders", url="redis://127.0.0.1:1", stream="orders", group="acker", send=print, **options
    ),
    "sqs": lambda acker, **options: SqsSpout(
        acker, spout="orders", client=patient_client(), queue_url="http://127.0.0.1:1/orders", send=print, **options
    ),
}
OWN_WORD = {"kafka": "skip", "nats": "drop", "rabbitmq": "reject", "redis": "drop", "sqs": "delete"}


def patient_client() -> Any:
    """Return what a spout looks at of a client of SQS before it runs."""
    config = SimpleNamespace(retries={"total_max_attempts": 2}, connect_timeout=2, read_timeout=5)
    return SimpleNamespace(meta=SimpleNamespace(config=config))


@pytest.mark.parametrize("kind", SPOUTS)
def test_a_spout_is_refused_that_is_told_a_word_of_another(kind: str) -> None:
    with Acker("http://127.0.0.1:1") as acker:
        SPOUTS[kind](acker, on_failed=OWN_WORD[kind])
        with pytest.raises(UsageError, match=f"on_failed must be .* or '{OWN_WORD[kind]}', not 'discard'"):
            SPOUTS[kind](acker, on_failed="discard")


@pytest.mark.parametrize("kind", SPOUTS)
def test_a_spout_that_has_run_is_refused_a_second_run(service: MemoryAcker, kind: str) -> None:
    """As by a loop that runs it again after an error: nobody would read the completions of its roots."""
    service.exists = False
    with service.acker() as acker:
        spout = SPOUTS[kind](acker)
        with pytest.raises(UnknownTopology):
            spout.run(stop=lambda: True)
        service.exists = True
        with pytest.raises(UsageError, match=f"run.. runs once: make another {type(spout).__name__}"):
            spout.run(stop=lambda: True)
