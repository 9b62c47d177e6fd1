"""An import with a group of Dramatiq, as ``python -m examples.comparison.import_with_dramatiq``."""

import threading

import dramatiq
import redis
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend

from examples.comparison.rows import ROWS, WrongRow, load_row
from examples.comparison.store import RABBITMQ_URL, REDIS_URL

broker = RabbitmqBroker(url=RABBITMQ_URL)
broker.add_middleware(GroupCallbacks(RedisBackend(url=REDIS_URL)))
dramatiq.set_broker(broker)

counts, ended = redis.Redis.from_url(REDIS_URL), threading.Event()


@dramatiq.actor(queue_name="dramatiq-rows")
def load(import_id: str, row: int) -> None:
    """Count a wrong row, and succeed: a message that failed would not be counted down, and no callback would come."""
    try:
        load_row(row)
    except WrongRow:
        counts.incr(f"failed:{import_id}")  # twice, if the message is delivered twice


@dramatiq.actor(queue_name="dramatiq-imports")
def report(import_id: str) -> None:
    """The callback of the group."""
    print(f"all rows have ended, {int(counts.get(f'failed:{import_id}') or 0)} failed")
    ended.set()


def main() -> None:
    """Send the group, and run a worker until its callback was called."""
    group = dramatiq.group([load.message("import-1", row) for row in ROWS])
    group.add_completion_callback(report.message("import-1"))
    group.run()
    worker = dramatiq.Worker(broker, worker_threads=2)
    worker.start()
    ended.wait()
    worker.stop()
    broker.close()


if __name__ == "__main__":
    main()
