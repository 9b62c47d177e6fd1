"""A spout that prints what it sends: ``python -m tests.sqs.member ACKER TOPOLOGY SQS QUEUE VISIBILITY``."""

import sys

from acker_client import Acker, Root
from acker_client.sources.sqs import Message, SqsSpout

from tests.sqs.conftest import make_client


def send(root: Root, message: Message) -> None:
    """Print a message; its child is never acked."""
    root.anchor("work")
    sys.stdout.write(f"{message.body}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    acker_url, topology, sqs_url, queue_url, visibility = sys.argv[1:]
    client, acker = make_client(sqs_url), Acker(acker_url, topology)
    SqsSpout(
        acker, spout="orders", client=client, queue_url=queue_url, send=send, visibility_timeout=int(visibility)
    ).run(stop=lambda: False)
