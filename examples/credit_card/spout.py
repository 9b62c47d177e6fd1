"""The spout: reads the orders from RabbitMQ, sends each on, and acks it there when all that grew out of it is done."""

import signal
import threading

from acker_client import Acker, Root
from acker_client.sources.rabbitmq import Delivery, RabbitSpout, RejectMessage

from examples.credit_card.plan import Guarantee
from examples.credit_card.wires import Task, task_of_this_process
from examples.stage.orders import read_order

REQUEUE_AFTER_S = 0.5
DRAIN_S = 120.0


def main(task: Task) -> None:
    """Run the spout until SIGTERM."""

    def send(root: Root, delivery: Delivery) -> None:
        try:
            read_order(delivery.body)
        except ValueError as fault:
            raise RejectMessage(str(fault)) from fault
        delivery.publish(task.authorise, delivery.body, root.anchor("authorise"))

    acking = task.guarantee != Guarantee.AT_MOST_ONCE
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    with Acker(task.acker, topology=task.topology) as acker:
        source = RabbitSpout(
            acker,
            spout="orders",
            url=task.broker,
            queue=task.orders,
            send=send,
            max_pending=task.max_pending,
            requeue_delay=REQUEUE_AFTER_S,
            message_id=lambda delivery: delivery.message_id if acking else None,
        )
        source.run(stop=ending.is_set, drain_timeout=DRAIN_S)


if __name__ == "__main__":
    main(task_of_this_process())
