"""Knows a delivery of RabbitMQ, and where deliveries are until their trees are done."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import pika

if TYPE_CHECKING:
    from acker_client.anchoring import Anchors


TOGETHER = 100
"""So many deliveries are emitted together, if they are there."""

LOOK_S = 0.1


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
    through: Callable[["Delivery", str, str, bytes, pika.BasicProperties], None] = field(repr=False)

    @property
    def headers(self) -> Mapping[str, Any]:
        """Its headers, empty where it has none."""
        return self.properties.headers or {}

    @property
    def message_id(self) -> str:
        """The message's own id, and where its sender gave it none, channel and tag."""
        return self.properties.message_id or f"{self.channel}-{self.tag}"

    def publish(
        self, routing_key: str, body: bytes, anchors: "Anchors", *, exchange: str = "", **properties: Any
    ) -> None:
        """Send a child on through the same connection; ``properties`` are those of pika, the anchors join the headers.

        Goes out soon after; it is not confirmed. What is lost on the way is an edge that nobody acks.
        """
        headers = anchors.amqp_headers(properties.pop("headers", None))
        self.through(self, exchange, routing_key, body, pika.BasicProperties(headers=headers, **properties))


class Inbox:
    """The deliveries that wait to be emitted."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Delivery] = SimpleQueue()

    def put(self, delivery: Delivery) -> None:
        """Take a delivery in."""
        self._waiting.put(delivery)

    def take(self) -> list[Delivery]:
        """Give those that wait, at most `TOGETHER`; none where none came in a while."""
        found: list[Delivery] = []
        with contextlib.suppress(Empty):
            found.append(self._waiting.get(timeout=LOOK_S))
            while len(found) < TOGETHER:
                found.append(self._waiting.get_nowait())
        return found


class Held:
    """The deliveries whose roots are pending, by root id; for any number of threads."""

    def __init__(self) -> None:
        self._held: dict[str, Delivery] = {}
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, root_id: str, delivery: Delivery) -> None:
        """Hold a delivery, before its completion can come."""
        with self._changed:
            self._held[root_id] = delivery

    def take(self, root_id: str) -> Delivery | None:
        """Let a delivery go; None for a root that has none: it was told before, or is of a channel that is gone."""
        with self._changed:
            delivery = self._held.pop(root_id, None)
            self._changed.notify_all()
            return delivery

    def forget(self, channel: int) -> None:
        """Forget the deliveries of a channel that is gone: RabbitMQ delivers them again."""
        with self._changed:
            self._held = {root: delivery for root, delivery in self._held.items() if delivery.channel != channel}
            self._changed.notify_all()

    def wait_until_empty(self, *, within: float) -> bool:
        """Wait until none is held; False where that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._held, within)
