"""The pipeline with groups of Dramatiq, over RabbitMQ and Redis: ``python -m examples.comparison.with_dramatiq``."""

import time

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend

from examples.comparison.store import LINES, RABBITMQ_URL, REDIS_URL, Store

broker = RabbitmqBroker(url=RABBITMQ_URL)
broker.add_middleware(GroupCallbacks(RedisBackend(url=REDIS_URL)))
dramatiq.set_broker(broker)

store, done = Store(), set[str]()


@dramatiq.actor(queue_name="dramatiq-split", min_backoff=100)
def split(message_id: str, text: str) -> None:
    """A group of all words of the line: the group must know its size before it runs."""
    words = [count.message(f"{message_id}/{position}", word) for position, word in enumerate(text.split())]
    if not words:  # an empty group with a callback raises
        line_done.send(message_id)
        return
    group = dramatiq.group(words)
    group.add_completion_callback(line_done.message(message_id))
    group.run()


@dramatiq.actor(queue_name="dramatiq-count", min_backoff=100)
def count(key: str, word: str) -> None:
    """Count a word; Dramatiq runs it again while the store is away."""
    if not word.isalpha():
        print(f"dropped: {word!r} is not a word")
        return
    store.add(key, word)


@dramatiq.actor(queue_name="dramatiq-done")
def line_done(message_id: str) -> None:
    """The callback of the group."""
    done.add(message_id)


def main() -> None:
    """Queue the lines, then run the workers until each line is done."""
    for message_id, text in LINES.items():
        split.send(message_id, text)
    worker = dramatiq.Worker(broker, worker_threads=2)
    worker.start()
    while len(done) < len(LINES):
        time.sleep(0.05)
    worker.stop()
    broker.close()
    print("done", *sorted(done))
    print(dict(sorted(store.counts().items())))


if __name__ == "__main__":
    main()
