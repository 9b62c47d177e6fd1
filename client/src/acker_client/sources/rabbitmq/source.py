"""Knows how a queue of RabbitMQ is read as a spout."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from acker_protocol.errors import ServiceError

from acker_client.errors import AckerError, Misuse, Refused
from acker_client.sources.rabbitmq.deliveries import Delivery, Held, Inbox
from acker_client.sources.rabbitmq.link import Link
from acker_client.verdicts import Reject

if TYPE_CHECKING:
    from acker_client.completions import Done
    from acker_client.roots import Root
    from acker_client.sync import Acker

POLL_MS = 1_000
JOIN_S = 5.0
"""So long the reader of completions is waited for at the end; it ends later where the acker does not answer."""

Send = Callable[["Root", Delivery], Any]
"""Anchors the children of a root and sends them: ``delivery.publish(queue, body, root.anchor(name))``, or any way."""

Fate = Literal["requeue", "reject"]

_log = logging.getLogger("acker_client")


class RabbitSource:
    """Emits a root for every delivery of a queue, and acks the delivery when all that grew out of it is done.

    ``max_pending`` deliveries at most are unsettled: it is the prefetch count, and never more than the topology's
    ``max_spout_pending``. A root that failed or timed out is settled as ``otherwise`` says: "requeue" (after
    ``requeue_after_s``, and RabbitMQ delivers it again), "reject" (dropped, or a dead letter), or a function of its
    completion and the delivery that gives one of the two. `Reject` raised by ``send`` rejects a delivery at once; any
    other exception ends ``run``, and all is delivered again. ``message_id`` gives the message id of a delivery; where
    it gives None the root is not tracked and the delivery is acked before it is sent: at most once.

    When the connection or the channel is lost another is made. The deliveries of the lost one are forgotten, since
    RabbitMQ delivers them again; what their roots, still under way, come to is then nobody's. While the acker does not
    answer or has no place, deliveries are requeued likewise. ``on_done`` hears of every completion that settled one.
    """

    def __init__(
        self,
        acker: "Acker",
        *,
        name: str,
        url: str,
        queue: str,
        send: Send,
        max_pending: int = 100,
        otherwise: "Fate | Callable[[Done, Delivery], Fate]" = "requeue",
        requeue_after_s: float = 1.0,
        message_id: Callable[[Delivery], str | None] = lambda delivery: delivery.message_id,
        on_done: "Callable[[Done, Delivery], Any] | None" = None,
    ) -> None:
        if not 1 <= max_pending <= 65_535 or requeue_after_s < 0:
            raise Misuse("max_pending must be from 1 to 65535, and requeue_after_s must not be negative")
        self._acker, self._spout = acker, acker.spout(name)
        self._inbox, self._held = Inbox(), Held()
        self._link = Link(url, queue, take=self._inbox.put, lost=self._held.forget)
        self._send, self._message_id, self._on_done = send, message_id, on_done
        self._max_pending = max_pending
        self._otherwise = otherwise
        self._requeue_after_s = requeue_after_s
        self._ended = threading.Event()
        self._fault: BaseException | None = None

    def run(self, *, stop: Callable[[], bool], drain_s: float = 30.0) -> None:
        """Read the queue until ``stop()`` is true; then take no more, and wait for what is pending, at most so long.

        Runs once. What is not settled then, RabbitMQ delivers again. Raises what pika raises where the first connection
        does not succeed (there is no such queue, say), and `UnknownTopology`.
        """
        self._link.start(self._prefetch())
        reader = threading.Thread(target=self._read, name="acker-completions", daemon=True)
        reader.start()
        try:
            while not stop() and not self._broken():
                self._emit(self._waiting())
            self._link.stop_consuming()
            self._held.wait_until_empty(within=0 if self._broken() else drain_s)
        finally:
            self._ended.set()
            reader.join(JOIN_S)
            self._link.end()
        if fault := self._fault or self._link.fault:
            raise fault

    def __len__(self) -> int:
        """How many deliveries wait for their trees."""
        return len(self._held)

    def _prefetch(self) -> int:
        cap = self._spout.driver.run(self._spout.task.max_pending())
        return self._max_pending if cap is None else min(cap, self._max_pending)

    def _broken(self) -> bool:
        return (self._fault or self._link.fault) is not None

    def _waiting(self) -> list[Delivery]:
        """Give the deliveries that wait, none after a while; those of a lost channel come again by themselves."""
        return [delivery for delivery in self._inbox.take() if self._link.is_current(delivery)]

    def _emit(self, lot: list[Delivery]) -> None:
        """Emit roots together; those that the acker does not take are requeued, the others are under way."""
        waiting, roots = deque(lot), list[str]()
        try:
            with self._acker.batch():
                while waiting:
                    self._emit_one(waiting[0], roots)
                    waiting.popleft()
        except Refused as refused:
            self._give_back([f"{answer.message.root_id:016x}" for answer in refused.answers], refused)
        except (AckerError, ServiceError) as fault:
            if isinstance(fault, Misuse) or self._fault is not None:
                raise
            self._give_back(roots, fault)
            for delivery in waiting:
                self._link.requeue(delivery, after_s=self._requeue_after_s)

    def _emit_one(self, delivery: Delivery, roots: list[str]) -> None:
        message_id = self._message_id(delivery)
        if message_id is None:
            self._link.ack(delivery)  # before it is sent: else one that is both sent and delivered again would be twice
        try:
            with self._spout.emit(message_id=message_id) as root:
                if message_id is not None:
                    self._held.hold(root.root_id, delivery)
                    roots.append(root.root_id)
                self._call_send(root, delivery)
        except Reject as reject:
            _log.warning("delivery %r was rejected: %s", delivery.message_id, reject)
            if self._held.take(root.root_id):
                self._link.reject(delivery)

    def _call_send(self, root: "Root", delivery: Delivery) -> None:
        try:
            self._send(root, delivery)
        except Reject:
            raise
        except BaseException as fault:
            self._fault = fault  # also where it looks like one of the acker's: it ends the reading
            raise

    def _give_back(self, roots: list[str], fault: Exception) -> None:
        _log.warning("%d roots could not be emitted and are requeued: %s", len(roots), fault)
        for root_id in roots:
            if delivery := self._held.take(root_id):
                self._link.requeue(delivery, after_s=self._requeue_after_s)

    def _read(self) -> None:
        """Read completions until the end, also through times at which the acker does not answer."""
        try:
            while not self._ended.is_set():
                try:
                    for done in self._spout.completions(wait_ms=POLL_MS, stop=self._ended.is_set):
                        self._settle(done)
                except Misuse:
                    raise
                except (AckerError, ServiceError) as fault:
                    _log.warning("completions cannot be read: %s", fault)
                    self._ended.wait(POLL_MS / 1000)
        except BaseException as fault:  # noqa: BLE001 - told to who runs the source
            self._fault = fault

    def _settle(self, done: "Done") -> None:
        """Settle the delivery of a root; one that has none was told before, or is of a channel that is gone."""
        delivery = self._held.take(done.root_id)
        if delivery is None:
            return
        if done.acked:
            self._link.ack(delivery)
        elif self._fate(done, delivery) == "reject":
            self._link.reject(delivery)
        else:
            self._link.requeue(delivery, after_s=self._requeue_after_s)
        if self._on_done is not None:
            self._on_done(done, delivery)

    def _fate(self, done: "Done", delivery: Delivery) -> Fate:
        return self._otherwise(done, delivery) if callable(self._otherwise) else self._otherwise
