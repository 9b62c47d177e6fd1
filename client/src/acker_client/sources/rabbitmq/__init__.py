"""Reads a queue of RabbitMQ as a spout: a delivery is acked when its tree is. ::

def send(root, delivery):
    delivery.publish("charges", delivery.body, root.anchor("charge"))

with Acker("http://127.0.0.1:8700", topology="orders") as acker:
    spout = RabbitSpout(acker, spout="orders-reader", url="amqp://…", queue="orders", send=send)
    spout.run(stop=ending.is_set)
"""

from acker_client.sources.rabbitmq.deliveries import Delivery
from acker_client.sources.rabbitmq.spout import RabbitSpout, RejectMessage

__all__ = ["Delivery", "RabbitSpout", "RejectMessage"]
