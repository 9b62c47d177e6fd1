"""Knows the connection to RabbitMQ: a thread of its own serves it, and makes another when it is lost."""

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pika
from pika.exceptions import AMQPError

from acker_client.sources.rabbitmq.deliveries import Delivery
from acker_client.sources.rabbitmq.opened import LOST, Opened, close
from acker_client.terms import Terms

EVERY_S = 1.0
"""How long the thread waits for something to happen before it looks whether all is well."""

Wish = Callable[[Opened], object]
"""Something that only the link's thread may do."""


class Link:
    """Delivers the messages of a queue to ``take``, at most ``prefetch`` of them unsettled.

    When the connection or the channel is lost, ``lost`` is told its number and a new one is made, as often as it takes,
    and after a wait that grows while they do not last.
    """

    def __init__(
        self, url: str, queue_name: str, *, take: Callable[[Delivery], None], lost: Callable[[int], None]
    ) -> None:
        self._parameters = pika.URLParameters(url)
        self._queue = queue_name
        self._take, self._lost = take, lost
        self._ending, self._quiet = threading.Event(), threading.Event()
        self._prefetch = 1
        self._waits = Terms().waits()
        self._opened: Opened | None = None
        self._thread = threading.Thread(target=self._serve, name=f"rabbitmq-{queue_name}", daemon=True)
        self.fault: BaseException | None = None

    def start(self, prefetch: int) -> None:
        """Connect, and serve from now on. Raises what pika raises where the first connection does not succeed."""
        self._prefetch = prefetch
        self._opened = self._open(1)
        self._thread.start()

    def stop_consuming(self) -> None:
        """Take no more deliveries; what was delivered can still be settled."""
        self._quiet.set()
        if (opened := self._opened) is not None:
            self._wish(opened.number, lambda opened: opened.inward.basic_cancel(opened.consumer))

    def end(self) -> None:
        """Close the connection; what was delivered and is not settled RabbitMQ delivers again."""
        self._ending.set()
        if self._thread.is_alive():
            self._wake()
            self._thread.join()

    def is_current(self, delivery: Delivery) -> bool:
        """Whether the channel that delivered it still stands."""
        return self._opened is not None and self._opened.number == delivery.channel

    def ack(self, delivery: Delivery) -> None:
        """Ack a delivery; nothing happens where its channel is gone."""
        self._wish(delivery.channel, lambda opened: opened.inward.basic_ack(delivery.tag))

    def reject(self, delivery: Delivery) -> None:
        """Reject a delivery for good: it is dropped, or goes where the queue sends its dead letters."""
        self._wish(delivery.channel, lambda opened: opened.inward.basic_reject(delivery.tag, requeue=False))

    def requeue(self, delivery: Delivery, *, after_s: float) -> None:
        """Give a delivery back to its queue, after a while in which it still counts as unsettled."""
        nack = partial(
            self._wish, delivery.channel, lambda opened: opened.inward.basic_nack(delivery.tag, requeue=True)
        )
        self._wish(delivery.channel, lambda opened: opened.connection.call_later(after_s, nack))

    def publish(
        self, delivery: Delivery, exchange: str, routing_key: str, body: bytes, properties: pika.BasicProperties
    ) -> None:
        """Send on a child of a delivery; nothing happens where its channel is gone, since it comes again."""
        self._wish(
            delivery.channel, lambda opened: opened.outward.basic_publish(exchange, routing_key, body, properties)
        )

    def _wish(self, channel: int, wish: Wish) -> None:
        """Let the link's thread do something, unless the channel it is about is gone."""
        if (opened := self._opened) is not None and opened.number == channel:
            opened.wishes.put(wish)
            self._wake()

    def _wake(self) -> None:
        if (opened := self._opened) is not None:
            with contextlib.suppress(AMQPError):
                opened.connection.add_callback_threadsafe(lambda: None)

    def _serve(self) -> None:
        try:
            while not self._ending.is_set():
                assert self._opened is not None
                try:
                    self._work(self._opened)
                except LOST as fault:
                    self._replace(self._opened, fault)
        except BaseException as fault:  # noqa: BLE001 - told to who runs the source
            self.fault = fault
        finally:
            if self._opened is not None:
                close(self._opened.connection)

    def _work(self, opened: Opened) -> None:
        """Settle and send what is wished, and receive. What is wished is done outside of pika's callbacks."""
        ending = False
        while not ending:
            ending = self._ending.is_set()  # looked at before the wishes: those made until then are granted
            opened.connection.process_data_events(time_limit=0 if ending else EVERY_S)
            while not opened.wishes.empty():
                opened.wishes.get_nowait()(opened)
            opened.check()

    def _replace(self, gone: Opened, fault: Exception) -> None:
        """Make a new connection; what the lost channel delivered is RabbitMQ's to deliver again."""
        log = logging.getLogger("acker_client")
        log.warning("the connection to RabbitMQ is lost (%r); connecting again", fault)
        self._opened = None
        self._lost(gone.number)
        close(gone.connection)
        if gone.was_good:
            self._waits = Terms().waits()
        for wait in self._waits:
            if self._ending.wait(wait):
                return
            try:
                self._opened = self._open(gone.number + 1)
            except LOST as refusal:
                log.warning("RabbitMQ takes no connection (%r)", refusal)
            else:
                return

    def _open(self, number: int) -> Opened:
        connection = pika.BlockingConnection(self._parameters)
        try:
            return self._consume(Opened(number=number, connection=connection))
        except BaseException:
            close(connection)
            raise

    def _consume(self, opened: Opened) -> Opened:
        opened.inward = inward = opened.connection.channel()
        opened.outward = opened.connection.channel()
        inward.basic_qos(prefetch_count=self._prefetch)
        inward.add_on_cancel_callback(lambda _: setattr(opened, "cancelled", True))
        if not self._quiet.is_set():
            opened.consumer = inward.basic_consume(self._queue, partial(self._receive, opened.number))
        return opened

    def _receive(self, number: int, _: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        self._take(
            Delivery(
                body=body,
                properties=properties,
                exchange=method.exchange,
                routing_key=method.routing_key,
                redelivered=method.redelivered,
                channel=number,
                tag=method.delivery_tag,
                through=self.publish,
            )
        )
