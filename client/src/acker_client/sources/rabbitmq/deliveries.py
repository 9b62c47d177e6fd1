"""A delivery of RabbitMQ, and the queue of those to emit."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import pika

from acker_client.sources._runner import MAX_EMIT

if TYPE_CHECKING:
    from acker_protocol.anchors import Anchors

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
