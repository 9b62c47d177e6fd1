"""Reads topics of Kafka as a spout: an offset is committed when the trees of all records below it are processed. ::

def send(root, record):
    producer.produce("charges", record.value, headers=root.anchor("charge").kafka_headers())

with Acker("http://127.0.0.1:8700", topology="orders") as acker:
    kafka = {"bootstrap.servers": "…", "group.id": "orders"}
    spout = KafkaSpout(acker, spout="orders-reader", config=kafka, topics=["orders"], send=send)
    spout.run(stop=ending.is_set)
"""

from acker_client.sources.kafka.assignments import Record
from acker_client.sources.kafka.spout import KafkaSpout, SkipRecord

__all__ = ["KafkaSpout", "Record", "SkipRecord"]
