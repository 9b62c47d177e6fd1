"""The spout: holds the deliveries of its channel until everything that grew out of them is done.

A delivery tag belongs to the channel, so this is a process that lives long and is no part of Spark. It inits a root for
each delivery, appends the order to a replayable stream, and acks the delivery when its root was acked. What failed or
timed out goes back into the queue, and comes again as a new root.
"""

import json
import signal
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pika
from acker_client import Acker, Completion
from acker_protocol.ids import format_id

from examples.spark_credit_card.plan import QUEUE, SPOUT, TOPOLOGY, Places
from examples.support.reports import report
from examples.support.streams import Stream

LISTEN_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One delivery of an order."""

    tag: int
    body: str
    message_id: str


class OrderSpout:
    """Holds what was taken and is not emitted yet, and the pending map: which delivery goes with which root."""

    def __init__(self, places: Places, acker: Acker, connection: "pika.BlockingConnection") -> None:
        self._connection = connection
        self._acker = acker
        self._channel: Any = connection.channel()
        self._spout = acker.shared_spout(SPOUT)
        self._stream = Stream(places.stream)
        self._taken: list[Delivery] = []
        self._pending: dict[str, Delivery] = {}
        self._channel.basic_qos(prefetch_count=places.prefetch)
        self._consumer = self._channel.basic_consume(QUEUE, self._take)
        self._ending = False

    def end(self) -> None:
        """Take nothing more; what is pending is waited for."""
        self._ending = True

    def run(self) -> None:
        """Emit and settle until it has to end."""
        while not self._ending or self._pending:
            if self._ending and self._consumer:
                self._channel.basic_cancel(self._consumer)
                self._consumer = None
            self._connection.process_data_events(time_limit=LISTEN_S)
            self._emit()
            for done in self._spout.completions(poll_timeout=0, until=0):
                self._settle(done)

    def _take(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._taken.append(
            Delivery(tag=method.delivery_tag, body=body.decode(errors="replace"), message_id=properties.message_id)
        )
        if method.redelivered:
            report(redelivered=properties.message_id)

    def _emit(self) -> None:
        """Emit all that was taken. Should this process die in here, the channel dies too, and all of it comes again."""
        if not self._taken:
            return
        with self._acker.batch():
            self._stream.append([self._emit_one(delivery) for delivery in self._taken])
        self._taken.clear()
        report(pending=len(self._pending))

    def _emit_one(self, delivery: Delivery) -> dict[str, object]:
        with self._spout.emit(message_id=delivery.message_id) as root:
            [anchor] = root.anchor("authorise").anchors
        self._pending[root.root_id] = delivery
        return {"body": delivery.body, "root": root.root_id, "edge": format_id(anchor.edge_id)}

    def _settle(self, done: Completion) -> None:
        """Ack or give back. A root of a spout that was killed is unknown here: its delivery has come again already."""
        delivery = self._pending.pop(done.root_id, None)
        if delivery is None:
            return
        if done.acked:
            # Reported first: killed in between, it comes again and is reported again; the other way round, never.
            report(acked=done.message_id, pending=len(self._pending))
            self._channel.basic_ack(delivery.tag)
        else:
            self._channel.basic_reject(delivery.tag, requeue=True)
            report(outcome=done.outcome, of=done.message_id, reason=done.reason, pending=len(self._pending))


def main(places: Places) -> None:
    """Run the spout until SIGTERM."""
    connection = pika.BlockingConnection(pika.URLParameters(places.broker))
    with closing(connection), Acker(places.acker, topology=TOPOLOGY) as acker:
        spout = OrderSpout(places, acker, connection)
        signal.signal(signal.SIGTERM, lambda *_: spout.end())
        spout.run()


if __name__ == "__main__":
    main(Places(**json.loads(sys.argv[1])))
