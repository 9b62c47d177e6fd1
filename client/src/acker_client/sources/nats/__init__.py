"""Reads a consumer of NATS JetStream as a spout: a message is acked when its tree is processed. ::

def send(root, message):
    message.publish("charges", message.data, root.anchor(key="charge"))

with Acker("http://127.0.0.1:8700", topology="orders") as acker:
    spout = NatsSpout(acker, spout="orders-reader", url=url, stream="orders", consumer="acker", send=send)
    spout.run(stop=ending.is_set)

A bolt gives ``acker.receive`` the headers of a message as nats-py has read them.
"""

from importlib.util import find_spec

if find_spec("nats") is None:
    message = "NatsSpout needs nats-py: install acker-client with its extra, acker-client[nats]"
    raise ModuleNotFoundError(message, name="nats")

from acker_client.sources.nats.messages import Message
from acker_client.sources.nats.spout import NatsSpout, SkipMessage

__all__ = ["Message", "NatsSpout", "SkipMessage"]
