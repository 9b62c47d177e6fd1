"""Reads a queue of RabbitMQ as a spout."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from acker_client.errors import UsageError
from acker_client.sources._runner import RETRY_WAIT_S, Handlers, Runner, Settlements
from acker_client.sources.rabbitmq.connection import Connection
from acker_client.sources.rabbitmq.deliveries import Delivery, DeliveryQueue

if TYPE_CHECKING:
    from acker_client.completions import Completion
    from acker_client.root import Root
    from acker_client.sync.client import Acker

Send = Callable[["Root", Delivery], Any]
"""Anchors the children of a root and sends them: ``delivery.publish(queue, body, root.anchor(key))``, or any way."""

Settlement = Literal["requeue", "reject"]


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
    completions of those roots settle nothing. Deliveries that the acker does not accept are held and emitted again: a
    queue that counts deliveries would drop them in the end.
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
        self._queue = DeliveryQueue()
        self._connection = Connection(url, queue, on_delivery=self._queue.put, on_lost=self._drop_channel)
        handlers = Handlers(
            message_id=message_id,
            send=send,
            rejection=RejectMessage,
            on_rejected=self._connection.reject,
            on_untracked=self._connection.ack,
            on_completion=self._settle,
        )
        self._runner = Runner(acker, spout=spout, handlers=handlers)
        self._on_completed = on_completed
        self._max_pending = max_pending
        self._settlements: Settlements[Delivery] = Settlements(on_failed, "requeue", "reject")
        self._requeue_delay_s = requeue_delay
        self._held: list[Delivery] = []  # those that the acker did not accept

    def run(self, *, stop: Callable[[], bool], drain_timeout: float = 30.0) -> None:
        """Read the queue until ``stop()`` is true; then take no more, and wait for what is pending, at most so long.

        Runs once. RabbitMQ delivers again what is not settled by then. Raises what pika raises if the first connection
        does not succeed (there is no such queue, say), `UnknownTopology`, `UsageError` the second time, and what the
        functions raise.
        """
        self._runner.begin(self)
        self._connection.start(self._prefetch())
        try:
            with self._runner.reading():
                while not stop() and not self._is_broken():
                    self._turn()
                self._connection.stop_consuming()
                self._runner.pending.wait_until_empty(within=0 if self._is_broken() else drain_timeout)
        finally:
            self._connection.close()
        if error := self._runner.error or self._connection.error:
            raise error

    def __len__(self) -> int:
        """How many deliveries wait for their trees."""
        return len(self._runner.pending)

    def _prefetch(self) -> int:
        cap = self._runner.spout.max_pending()
        return self._max_pending if cap is None else min(cap, self._max_pending)

    def _is_broken(self) -> bool:
        return (self._runner.error or self._connection.error) is not None

    def _drop_channel(self, channel: int) -> None:
        """Forget the deliveries of a channel that is gone: RabbitMQ delivers them again."""
        self._runner.pending.drop(lambda delivery: delivery.channel == channel)

    def _turn(self) -> None:
        """Take deliveries and emit them. While the acker does not accept those that are held, no other is taken.

        Those of a lost channel are ignored: they are delivered again.
        """
        if self._held:
            time.sleep(RETRY_WAIT_S)
        else:
            self._held = self._queue.take()
        self._held = self._runner.emit(each for each in self._held if self._connection.is_current(each))

    def _settle(self, completion: "Completion") -> None:
        """Settle the delivery of a root; without one its completion came before, or its channel is gone."""
        delivery = self._runner.pending.pop(completion.root_id)
        if delivery is None:
            return
        if completion.acked:
            self._connection.ack(delivery)
        elif self._settlements.find(completion, delivery) == "reject":
            self._connection.reject(delivery)
        else:
            self._connection.requeue(delivery, after_s=self._requeue_delay_s)
        if self._on_completed is not None:
            self._on_completed(completion, delivery)
