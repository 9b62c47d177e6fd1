"""The connection to RabbitMQ: a thread of its own serves it, and reconnects when it is lost."""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pika
from pika.exceptions import AMQPError

from acker_client.config import ClientConfig
from acker_client.sources.rabbitmq.deliveries import Delivery

POLL_S = 1.0
"""How long the thread waits for an event before it checks that the channels are open."""

CLOSE_S = 10.0
"""How long to wait at the end until RabbitMQ confirms that the connection is closed."""

STABLE_S = 30.0
"""A connection that lasted so long was stable. One that is lost sooner may be lost by what is sent over it."""


class ChannelLost(Exception):
    """The channel is closed while the connection is not."""


CONNECTION_ERRORS = (AMQPError, OSError, ChannelLost)
"""What says that the connection is gone, or of no use any more."""

_log = logging.getLogger("acker_client")


@dataclass(slots=True, kw_only=True)
class ChannelPair:
    """A connection with two channels: one consumes, with its number; through the other children are published."""

    number: int
    connection: Any
    consume_channel: Any = None
    publish_channel: Any = None
    consumer: str = ""
    cancelled: bool = False
    opened_at_s: float = field(default_factory=time.monotonic)
    commands: "queue.SimpleQueue[Command]" = field(default_factory=queue.SimpleQueue)

    def check(self) -> None:
        """Raise `ChannelLost` if no delivery would come any more."""
        if self.cancelled:
            raise ChannelLost("the consumer was cancelled")
        for channel in (self.consume_channel, self.publish_channel):
            if not channel.is_open:
                reason = channel._closing_reason  # noqa: SLF001 - pika has no public name for it
                raise ChannelLost(f"a channel was closed: {reason}")

    @property
    def was_stable(self) -> bool:
        """Whether it lasted long."""
        return time.monotonic() - self.opened_at_s >= STABLE_S


Command = Callable[[ChannelPair], object]
"""What only the connection's thread may do."""


class Connection:
    """Passes the messages of a queue to ``on_delivery``, at most ``prefetch`` of them unsettled.

    When the connection or the channel is lost, ``on_lost`` is called with its number and a new one is made, however
    often, after a wait that grows while connections do not last.
    """

    def __init__(
        self, url: str, queue_name: str, *, on_delivery: Callable[[Delivery], None], on_lost: Callable[[int], None]
    ) -> None:
        self._parameters = pika.URLParameters(url)
        self._queue = queue_name
        self._on_delivery = on_delivery
        self._on_lost = on_lost
        self._closing = threading.Event()
        self._cancelled = threading.Event()
        self._prefetch = 1
        self._delays = ClientConfig().backoff_delays()
        self._channels: ChannelPair | None = None
        self._thread = threading.Thread(target=self._serve, name=f"rabbitmq-{queue_name}", daemon=True)
        self.error: BaseException | None = None

    def start(self, prefetch: int) -> None:
        """Connect, and serve from now on. Raises what pika raises if the first connection does not succeed."""
        self._prefetch = prefetch
        self._channels = self._open(1)
        self._thread.start()

    def stop_consuming(self) -> None:
        """Take no more deliveries; those delivered can still be settled."""
        self._cancelled.set()
        if (channels := self._channels) is not None:
            self._send(channels.number, lambda pair: pair.consume_channel.basic_cancel(pair.consumer))

    def close(self) -> None:
        """Close the connection, within `CLOSE_S`; RabbitMQ delivers again what is not settled."""
        self._closing.set()
        if self._thread.is_alive():
            self._wake()
            self._thread.join(CLOSE_S)
            if self._thread.is_alive():
                _log.warning(
                    "RabbitMQ did not confirm within %g s that the connection is closed: it is left as it is", CLOSE_S
                )

    def is_current(self, delivery: Delivery) -> bool:
        """Whether the channel that delivered it is open."""
        return self._channels is not None and self._channels.number == delivery.channel

    def ack(self, delivery: Delivery) -> None:
        """Ack a delivery; nothing happens if its channel is gone."""
        self._send(delivery.channel, lambda pair: pair.consume_channel.basic_ack(delivery.tag))

    def reject(self, delivery: Delivery) -> None:
        """Reject a delivery for good: RabbitMQ drops it, or routes it to the queue's dead letters."""
        self._send(delivery.channel, lambda pair: pair.consume_channel.basic_reject(delivery.tag, requeue=False))

    def requeue(self, delivery: Delivery, *, after_s: float) -> None:
        """Return a delivery to its queue, after a while in which it still counts as unsettled.

        By ``basic.reject``: it is what every RabbitMQ counts as a delivery that failed; from 4.3 on a quorum queue does
        not count ``basic.nack``.
        """
        give_back = partial(
            self._send, delivery.channel, lambda pair: pair.consume_channel.basic_reject(delivery.tag, requeue=True)
        )
        self._send(delivery.channel, lambda pair: pair.connection.call_later(after_s, give_back))

    def publish(
        self, delivery: Delivery, exchange: str, routing_key: str, body: bytes, properties: pika.BasicProperties
    ) -> None:
        """Publish a child of a delivery; nothing happens if its channel is gone, since it is delivered again."""
        self._send(
            delivery.channel, lambda pair: pair.publish_channel.basic_publish(exchange, routing_key, body, properties)
        )

    def _send(self, channel: int, command: Command) -> None:
        """Let the connection's thread run a command, unless its channel is gone."""
        if (channels := self._channels) is not None and channels.number == channel:
            channels.commands.put(command)
            self._wake()

    def _wake(self) -> None:
        if (channels := self._channels) is not None:
            with contextlib.suppress(AMQPError):
                channels.connection.add_callback_threadsafe(lambda: None)

    def _serve(self) -> None:
        try:
            while not self._closing.is_set():
                assert self._channels is not None
                try:
                    self._work(self._channels)
                except CONNECTION_ERRORS as error:
                    self._replace(self._channels, error)
        except BaseException as error:  # noqa: BLE001 - run() of the spout raises it
            self.error = error
        finally:
            if self._channels is not None:
                close_connection(self._channels.connection)

    def _work(self, channels: ChannelPair) -> None:
        """Run commands, and receive. Commands run outside of pika's callbacks."""
        closing = False
        while not closing:
            closing = self._closing.is_set()  # read before the commands: those sent until then are run
            channels.connection.process_data_events(time_limit=0 if closing else POLL_S)
            while not channels.commands.empty():
                channels.commands.get_nowait()(channels)
            channels.check()

    def _replace(self, lost: ChannelPair, error: Exception) -> None:
        """Make a new connection; RabbitMQ delivers again what the lost channel delivered."""
        _log.warning("the connection to RabbitMQ is lost (%r); connecting again", error)
        self._channels = None
        self._on_lost(lost.number)
        close_connection(lost.connection)
        if lost.was_stable:
            self._delays = ClientConfig().backoff_delays()
        for delay in self._delays:
            if self._closing.wait(delay):
                return
            try:
                self._channels = self._open(lost.number + 1)
            except CONNECTION_ERRORS as refusal:
                _log.warning("RabbitMQ takes no connection (%r)", refusal)
            else:
                return

    def _open(self, number: int) -> ChannelPair:
        connection = pika.BlockingConnection(self._parameters)
        try:
            return self._consume(ChannelPair(number=number, connection=connection))
        except BaseException:
            close_connection(connection)
            raise

    def _consume(self, channels: ChannelPair) -> ChannelPair:
        channels.consume_channel = consume = channels.connection.channel()
        channels.publish_channel = channels.connection.channel()
        consume.basic_qos(prefetch_count=self._prefetch)
        consume.add_on_cancel_callback(lambda _: setattr(channels, "cancelled", True))
        if not self._cancelled.is_set():
            channels.consumer = consume.basic_consume(self._queue, partial(self._receive, channels.number))
        return channels

    def _receive(self, number: int, _: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        self._on_delivery(
            Delivery(
                body=body,
                properties=properties,
                exchange=method.exchange,
                routing_key=method.routing_key,
                redelivered=method.redelivered,
                channel=number,
                tag=method.delivery_tag,
                publisher=self.publish,
            )
        )


def close_connection(connection: Any) -> None:
    """Close a connection of pika."""
    with contextlib.suppress(*CONNECTION_ERRORS):  # if it is closed already, pika says so by an AMQPError
        connection.close()
