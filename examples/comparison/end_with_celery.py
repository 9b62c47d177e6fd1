"""End a running import with Celery, over Redis: ``python -m examples.comparison.end_with_celery``."""

import threading
import time

import redis
from celery import Celery, group
from celery.result import GroupResult

from examples.comparison.rows import ENDED_AFTER, MANY_ROWS, load_row_slowly
from examples.comparison.store import REDIS_URL

app = Celery("examples.comparison.end_with_celery", broker=REDIS_URL, backend=REDIS_URL)
app.conf.update(task_acks_late=True, broker_connection_retry_on_startup=True, worker_redirect_stdouts=False)
counts = redis.Redis.from_url(REDIS_URL)


@app.task  # type: ignore[untyped-decorator]
def load(row: int) -> None:
    """Import a row, and count it."""
    load_row_slowly(row)
    counts.incr("celery-imported")


def end(import_: GroupResult) -> None:
    """Revoke all tasks by their ids, wait until each has a result, and end the worker of this example."""
    while int(counts.get("celery-imported") or 0) < ENDED_AFTER:
        time.sleep(0.01)
    import_.revoke()
    while not import_.ready():
        time.sleep(1)
    print(f"{int(counts.get('celery-imported') or 0)} of {len(MANY_ROWS)} rows imported", flush=True)
    app.control.shutdown()


def main() -> None:
    """Send the rows, and run a worker while another thread ends the import."""
    import_ = group(load.s(row) for row in MANY_ROWS).apply_async()
    threading.Thread(target=end, args=[import_]).start()
    app.worker_main(["worker", "--pool", "solo", "--loglevel", "ERROR", "--without-gossip", "--without-mingle"])


if __name__ == "__main__":
    main()
