"""A spout that prints what it sends: run as a module, with ACKER TOPOLOGY NATS STREAM."""

import sys

from acker_client import Acker, Root
from acker_client.sources.nats import Message, NatsSpout


def send(root: Root, message: Message) -> None:
    """Print a message; its child is never acked."""
    root.anchor("work")
    sys.stdout.write(f"{message.data.decode()}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    acker_url, topology, nats_url, stream = sys.argv[1:]
    NatsSpout(
        Acker(acker_url, topology), spout="orders", url=nats_url, stream=stream, consumer="acker", send=send
    ).run(stop=lambda: False)  # fmt: skip
