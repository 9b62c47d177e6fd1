"""Reads a queue of Amazon SQS as a spout: a message is deleted when its tree is processed. ::

def send(root, message):
    attributes = message_attributes(root.anchor("charge"))
    sqs.send_message(QueueUrl=charges, MessageBody=message.body, MessageAttributes=attributes)

patience = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 2})
sqs = boto3.client("sqs", config=patience)
with Acker("http://127.0.0.1:8700", topology="orders") as acker:
    spout = SqsSpout(acker, spout="orders-reader", client=sqs, queue_url=orders, send=send)
    spout.run(stop=ending.is_set)

A bolt reads the anchors of a message that boto3 has received: ``acker.receive(headers_of(message))``. It has to ask
for them, with ``MessageAttributeNames=["All"]``. A Lambda gives `headers_of` each record of its event.
"""

from acker_client.sources.sqs.headers import headers_of
from acker_client.sources.sqs.queue import Message, message_attributes
from acker_client.sources.sqs.spout import SkipMessage, SqsSpout

__all__ = ["Message", "SkipMessage", "SqsSpout", "headers_of", "message_attributes"]
