"""A delivery of RabbitMQ, the queue of those to emit, and those whose trees are pending."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import pika

if TYPE_CHECKING:
    from acker_protocol.anchors import Anchors

MAX_EMIT = 100
"""So many deliveries are emitted together at most."""

POLL_S = 0.1
"""How long to wait for a delivery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message as one channel delivered it; ``channel`` counts the channels of this source, from 1."""

    body: bytes
    properties: pika.BasicProperties
    exchange: str
    routing_key: str
    redelivered: bool
    channel: int
    tag: int
    publisher: Callable[["Delivery", str, str, bytes, pika.BasicProperties], None] = field(repr=False)

    @property
    def headers(self) -> Mapping[str, Any]:
        """Its headers, an empty mapping without any."""
        return self.properties.headers or {}

    @property
    def message_id(self) -> str:
        """The message's own id; without one, channel and tag."""
        return self.properties.message_id or f"{self.channel}-{self.tag}"

    def publish(
        self, routing_key: str, body: bytes, anchors: "Anchors", *, exchange: str = "", **properties: Any
    ) -> None:
        """Publish a child through the same connection; ``properties`` are pika's, the anchors are added to the headers.

        It is sent soon afterwards, without a confirmation. The edge of a lost message stays open, and its root times
        out.
        """
        headers = anchors.amqp_headers(properties.pop("headers", None))
        self.publisher(self, exchange, routing_key, body, pika.BasicProperties(headers=headers, **properties))


class DeliveryQueue:
    """The deliveries to emit."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Delivery] = SimpleQueue()

    def put(self, delivery: Delivery) -> None:
        """Add a delivery."""
        self._waiting.put(delivery)

    def take(self) -> list[Delivery]:
        """Take those that wait, at most `MAX_EMIT`; none if none comes in `POLL_S`."""
        found: list[Delivery] = []
        with contextlib.suppress(Empty):
            found.append(self._waiting.get(timeout=POLL_S))
            while len(found) < MAX_EMIT:
                found.append(self._waiting.get_nowait())
        return found


class PendingDeliveries:
    """The deliveries whose roots are pending, by root id; for any number of threads."""

    def __init__(self) -> None:
        self._pending: dict[str, Delivery] = {}
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, root_id: str, delivery: Delivery) -> None:
        """Add a delivery, before its completion can come."""
        with self._changed:
            self._pending[root_id] = delivery

    def pop(self, root_id: str) -> Delivery | None:
        """Remove a delivery; None if its completion came before, or its channel is gone."""
        with self._changed:
            delivery = self._pending.pop(root_id, None)
            self._changed.notify_all()
            return delivery

    def drop_channel(self, channel: int) -> None:
        """Remove the deliveries of a channel that is gone: RabbitMQ delivers them again."""
        with self._changed:
            self._pending = {root: each for root, each in self._pending.items() if each.channel != channel}
            self._changed.notify_all()

    def wait_until_empty(self, *, within: float) -> bool:
        """Wait until no delivery is pending; False after ``within`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, within)
