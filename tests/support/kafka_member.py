"""One member of a group, as a process: ``python -m tests.support.kafka_member JSON``. SIGTERM ends it.

It sends each record on to the topic ``work``, with its message id as key.
"""

import json
import logging
import signal
import sys
import threading

from acker_client import Acker, Root
from acker_client.sources.kafka import KafkaSpout, Record
from confluent_kafka import Producer


def main(task: dict) -> None:
    """Run the spout until SIGTERM."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    address = task["config"]["bootstrap.servers"]
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "log_level": 2})

    def send(root: Root, record: Record) -> None:
        headers = root.anchor("work").kafka_headers()
        producer.produce(task["work"], record.value, key=record.message_id, headers=headers)
        producer.poll(0)

    with Acker(task["acker"], topology=task["topology"], retry_timeout=10.0, emit_timeout=5.0) as acker:
        KafkaSpout(
            acker,
            spout="orders",
            config=task["config"],
            topics=[task["orders"]],
            send=send,
            max_uncommitted=task.get("max_uncommitted", 200),
            retry_delay=0.2,
            commit_interval=0.3,
        ).run(stop=ending.is_set, drain_timeout=8.0)
    producer.flush(10)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
