"""A task that Celery requeues at its hard time limit; ``python -m tests.queues.celery_requeues emit`` is a spout."""

import sys
import time

from acker_client.integrations.celery import track
from celery import Celery

from tests.queues import marks

app = Celery("tests.queues.celery_requeues", broker=marks.BROKER, backend=marks._MARKS)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 5} if marks.BROKER.startswith("redis") else {},
    task_acks_late=True,
    task_acks_on_failure_or_timeout=False,
    task_default_queue=marks.TOPOLOGY,
    worker_prefetch_multiplier=1,
    result_backend_transport_options={"global_keyprefix": marks.TOPOLOGY},
)
track(app, marks.make_acker())


@app.task(time_limit=1)
def takes_too_long(root: str) -> None:
    marks.count(root, "runs")
    time.sleep(600)


if __name__ == "__main__":
    from tests.queues import celery_requeues  # noqa: PLW0406 - tasks are named after it, not after __main__

    marks.emit({"takes_too_long": celery_requeues.takes_too_long.delay}, sys.argv[2:])
