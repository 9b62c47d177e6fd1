"""The pipeline with Acker, over RabbitMQ: ``python -m examples.comparison.with_acker``."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pika
from acker_client import Acker, DropTuple, FailTuple, Root, Tuple
from acker_client.sources.rabbitmq import Delivery, RabbitSpout

from examples.comparison.store import LINES, RABBITMQ_URL, Store, StoreAway

store, done = Store(), set[str]()


def send(root: Root, line: Delivery) -> None:
    """The spout: a root for each line; RabbitMQ keeps the line until its root is acked."""
    line.publish("split", line.body, root.anchor())


def split(tup: Tuple, body: bytes, channel: Any) -> None:
    """One tuple for each word, however many there are."""
    line = json.loads(body)
    for position, word in enumerate(line["text"].split()):
        key = f"{line['id']}/{position}"
        properties = pika.BasicProperties(headers=tup.headers(key=key))
        channel.basic_publish("", "count", json.dumps({"key": key, "word": word}), properties)


def count(_tup: Tuple, body: bytes, _channel: Any) -> None:
    """Count a word. A tuple that fails is sent again with its line; one that is dropped is not."""
    word = json.loads(body)
    if not word["word"].isalpha():
        raise DropTuple(f"{word['word']!r} is not a word")
    try:
        store.add(word["key"], word["word"])
    except StoreAway as error:
        raise FailTuple(str(error)) from error


def work(acker: Acker, bolt: Callable[[Tuple, bytes, Any], None]) -> None:
    """Run a bolt on its queue until all lines are done."""
    channel = connect()
    for method, properties, body in channel.consume(bolt.__name__, auto_ack=True, inactivity_timeout=0.1):
        if len(done) == len(LINES):
            return
        if method:
            with acker.receive(properties.headers, component=bolt.__name__) as tup:
                bolt(tup, body, channel)


def connect() -> Any:
    """Connect to RabbitMQ and declare the queues."""
    channel = pika.BlockingConnection(pika.URLParameters(RABBITMQ_URL)).channel()
    for queue in ("lines", "split", "count"):
        channel.queue_declare(queue, durable=True)
    return channel


def main() -> None:
    """Queue the lines, then run the spout and the bolts until each line is acked."""
    channel = connect()
    for message_id, text in LINES.items():
        body = json.dumps({"id": message_id, "text": text})
        channel.basic_publish("", "lines", body, pika.BasicProperties(message_id=message_id, delivery_mode=2))
    with Acker.from_env() as acker:
        bolts = [threading.Thread(target=work, args=(acker, bolt)) for bolt in (split, count)]
        for bolt in bolts:
            bolt.start()
        spout = RabbitSpout(
            acker,
            spout="lines",
            url=RABBITMQ_URL,
            queue="lines",
            send=send,
            requeue_delay=0.1,
            on_completed=lambda completion, line: done.add(line.message_id) if completion.acked else None,
        )
        spout.run(stop=lambda: len(done) == len(LINES))
        for bolt in bolts:
            bolt.join()
    print("done", *sorted(done))
    print(dict(sorted(store.counts().items())))


if __name__ == "__main__":
    main()
