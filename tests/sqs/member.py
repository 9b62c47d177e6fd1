"""A spout that prints what it sends: ``python -m tests.sqs.member ACKER TOPOLOGY SQS QUEUE VISIBILITY``."""

import sys

import boto3
from acker_client import Acker, Root
from acker_client.sources.sqs import Message, SqsSpout


def send(root: Root, message: Message) -> None:
    """Print a message; its child is never acked."""
    root.anchor("work")
    sys.stdout.write(f"{message.body}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    acker_url, topology, sqs_url, queue_url, visibility = sys.argv[1:]
    login = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    client = boto3.client("sqs", endpoint_url=sqs_url, region_name="elasticmq", **login)
    acker = Acker(acker_url, topology)
    SqsSpout(
        acker, spout="orders", client=client, queue_url=queue_url, send=send, visibility_timeout=int(visibility)
    ).run(stop=lambda: False)
