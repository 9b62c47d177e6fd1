"""End a running import with Dramatiq: ``python -m examples.comparison.end_with_dramatiq``."""

import threading

import dramatiq
import redis
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend

from examples.comparison.rows import ENDED_AFTER, MANY_ROWS, load_row_slowly
from examples.comparison.store import RABBITMQ_URL, REDIS_URL

broker = RabbitmqBroker(url=RABBITMQ_URL)
broker.add_middleware(GroupCallbacks(RedisBackend(url=REDIS_URL)))
dramatiq.set_broker(broker)

store, reported = redis.Redis.from_url(REDIS_URL), threading.Event()


@dramatiq.actor(queue_name="dramatiq-many-rows")
def load(import_id: str, row: int) -> None:
    """Import a row, unless a mark of ours says that the import has ended: Dramatiq takes no message back."""
    if store.exists(f"ended:{import_id}"):
        return
    load_row_slowly(row)
    if store.incr(f"imported:{import_id}") == ENDED_AFTER:
        store.set(f"ended:{import_id}", 1, ex=86_400)


@dramatiq.actor(queue_name="dramatiq-many-imports")
def report(import_id: str) -> None:
    """The callback of the group."""
    print(f"{int(store.get(f'imported:{import_id}') or 0)} of {len(MANY_ROWS)} rows imported")
    reported.set()


def main() -> None:
    """Send the group, and run a worker until its callback was called."""
    group = dramatiq.group([load.message("import-2", row) for row in MANY_ROWS])
    group.add_completion_callback(report.message("import-2"))
    group.run()
    worker = dramatiq.Worker(broker, worker_threads=2)
    worker.start()
    reported.wait()
    worker.stop()
    broker.close()


if __name__ == "__main__":
    main()
