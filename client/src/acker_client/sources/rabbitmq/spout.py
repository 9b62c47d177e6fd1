"""Reads a queue of RabbitMQ as a spout."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from acker_client.errors import AckerError, BatchError, UsageError
from acker_client.sources.rabbitmq.connection import Connection
from acker_client.sources.rabbitmq.deliveries import Delivery, DeliveryQueue, PendingDeliveries

if TYPE_CHECKING:
    from acker_client.completions import Completion
    from acker_client.root import Root
    from acker_client.sync.client import Acker

POLL_S = 1.0
READER_JOIN_S = 5.0
"""How long to wait for the reader of completions at the end; it ends later if the acker does not answer."""

Send = Callable[["Root", Delivery], Any]
"""Anchors the children of a root and sends them: ``delivery.publish(queue, body, root.anchor(key))``, or any way."""

Settlement = Literal["requeue", "reject"]

_log = logging.getLogger("acker_client")


class RejectMessage(Exception):
    """Raised by ``send`` to reject a delivery at once: RabbitMQ drops it, or routes it to the dead letters."""


class RabbitSpout:
    """Emits a root for every delivery of a queue, and acks the delivery when its tree is processed.

    ``spout`` is the name of the spout. At most ``max_pending`` deliveries are unsettled: it is the prefetch count, and
    never more than the topology's ``max_spout_pending``. A root that failed or timed out is settled as ``on_failed``
    says: "requeue" (after ``requeue_delay`` seconds; RabbitMQ delivers it again), "reject" (dropped, or a dead letter),
    or a function of its completion and the delivery that gives one of the two. `RejectMessage` raised by ``send``
    rejects a delivery at once; any other exception ends ``run``, and all is delivered again. ``message_id`` gives the
    message id of a delivery; where it gives None the root is not tracked and the delivery is acked before it is sent:
    at most once. ``on_completed`` is called with every completion that settled a delivery, and that delivery.

    When the connection or the channel is lost another is made. RabbitMQ delivers again what the lost one delivered, so
    completions of those roots settle nothing. While the acker does not answer, or refuses a root, deliveries are
    requeued.
    """

    def __init__(
        self,
        acker: "Acker",
        *,
        spout: str,
        url: str,
        queue: str,
        send: Send,
        max_pending: int = 100,
        on_failed: "Settlement | Callable[[Completion, Delivery], Settlement]" = "requeue",
        requeue_delay: float = 1.0,
        message_id: Callable[[Delivery], str | None] = lambda delivery: delivery.message_id,
        on_completed: "Callable[[Completion, Delivery], Any] | None" = None,
    ) -> None:
        if not 1 <= max_pending <= 65_535 or requeue_delay < 0:
            raise UsageError("max_pending must be from 1 to 65535, and requeue_delay must not be negative")
        self._acker, self._spout = acker, acker.spout(spout)
        self._queue, self._pending = DeliveryQueue(), PendingDeliveries()
        self._connection = Connection(url, queue, on_delivery=self._queue.put, on_lost=self._pending.drop_channel)
        self._send, self._message_id, self._on_completed = send, message_id, on_completed
        self._max_pending = max_pending
        self._on_failed = on_failed
        self._requeue_delay_s = requeue_delay
        self._ended = threading.Event()
        self._error: BaseException | None = None

    def run(self, *, stop: Callable[[], bool], drain_timeout: float = 30.0) -> None:
        """Read the queue until ``stop()`` is true; then take no more, and wait for what is pending, at most so long.

        Runs once. RabbitMQ delivers again what is not settled by then. Raises what pika raises if the first connection
        does not succeed (there is no such queue, say), and `UnknownTopology`.
        """
        self._connection.start(self._prefetch())
        reader = threading.Thread(target=self._read, name="acker-completions", daemon=True)
        reader.start()
        try:
            while not stop() and not self._is_broken():
                self._emit(self._take())
            self._connection.stop_consuming()
            self._pending.wait_until_empty(within=0 if self._is_broken() else drain_timeout)
        finally:
            self._ended.set()
            reader.join(READER_JOIN_S)
            self._connection.close()
        if error := self._error or self._connection.error:
            raise error

    def __len__(self) -> int:
        """How many deliveries wait for their trees."""
        return len(self._pending)

    def _prefetch(self) -> int:
        cap = self._spout.max_pending()
        return self._max_pending if cap is None else min(cap, self._max_pending)

    def _is_broken(self) -> bool:
        return (self._error or self._connection.error) is not None

    def _take(self) -> list[Delivery]:
        """Take the deliveries that wait; those of a lost channel are delivered again, and ignored."""
        return [delivery for delivery in self._queue.take() if self._connection.is_current(delivery)]

    def _emit(self, deliveries: list[Delivery]) -> None:
        """Emit roots together; the deliveries of those that the acker does not accept are requeued."""
        waiting, roots = deque(deliveries), list[str]()
        try:
            with self._acker.batch():
                while waiting:
                    self._emit_one(waiting[0], roots)
                    waiting.popleft()
        except BatchError as error:
            self._requeue([f"{result.operation.root_id:016x}" for result in error.results], error)
        except AckerError as error:
            if isinstance(error, UsageError) or self._error is not None:
                raise
            self._requeue(roots, error)
            for delivery in waiting:
                self._connection.requeue(delivery, after_s=self._requeue_delay_s)

    def _emit_one(self, delivery: Delivery, roots: list[str]) -> None:
        message_id = self._message_id(delivery)
        if message_id is None:
            self._connection.ack(delivery)  # before it is sent: else a message could be both sent and delivered again
        try:
            with self._spout.emit(message_id=message_id) as root:
                if message_id is not None:
                    self._pending.add(root.root_id, delivery)
                    roots.append(root.root_id)
                self._call_send(root, delivery)
        except RejectMessage as error:
            _log.warning("delivery %r was rejected: %s", delivery.message_id, error)
            if self._pending.pop(root.root_id):
                self._connection.reject(delivery)

    def _call_send(self, root: "Root", delivery: Delivery) -> None:
        try:
            self._send(root, delivery)
        except RejectMessage:
            raise
        except BaseException as error:
            self._error = error  # also if it is an error of the acker: it ends the reading
            raise

    def _requeue(self, roots: list[str], error: Exception) -> None:
        _log.warning("%d roots could not be emitted and are requeued: %s", len(roots), error)
        for root_id in roots:
            if delivery := self._pending.pop(root_id):
                self._connection.requeue(delivery, after_s=self._requeue_delay_s)

    def _read(self) -> None:
        """Read completions until the end, also while the acker does not answer."""
        try:
            while not self._ended.is_set():
                try:
                    for completion in self._spout.completions(poll_timeout=POLL_S, stop=self._ended.is_set):
                        self._settle(completion)
                except UsageError:
                    raise
                except AckerError as error:
                    _log.warning("completions cannot be read: %s", error)
                    self._ended.wait(POLL_S)
        except BaseException as error:  # noqa: BLE001 - run() raises it
            self._error = error

    def _settle(self, completion: "Completion") -> None:
        """Settle the delivery of a root; without one its completion came before, or its channel is gone."""
        delivery = self._pending.pop(completion.root_id)
        if delivery is None:
            return
        if completion.acked:
            self._connection.ack(delivery)
        elif self._settlement(completion, delivery) == "reject":
            self._connection.reject(delivery)
        else:
            self._connection.requeue(delivery, after_s=self._requeue_delay_s)
        if self._on_completed is not None:
            self._on_completed(completion, delivery)

    def _settlement(self, completion: "Completion", delivery: Delivery) -> Settlement:
        return self._on_failed(completion, delivery) if callable(self._on_failed) else self._on_failed
