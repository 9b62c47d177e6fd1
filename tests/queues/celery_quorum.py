"""Tasks on a quorum queue, whose exchange is of the type QUEUES_EXCHANGE; ``… emit`` is a spout."""

import os
import sys
from typing import Any

from acker_client import UsageError
from acker_client.integrations.celery import track
from celery import Celery, Task
from kombu import Exchange, Queue

from tests.queues import marks
from tests.queues.marks import count, done

LONG_S, SHORT_S = 8, 2

app = Celery("tests.queues.celery_quorum", broker=marks.BROKER, backend=marks._MARKS)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
    task_acks_late=True,
    task_default_queue=marks.TOPOLOGY,
    task_queues=[
        Queue(
            marks.TOPOLOGY,
            Exchange(f"{marks.TOPOLOGY}-exchange", type=os.environ.get("QUEUES_EXCHANGE", "topic")),
            routing_key=marks.TOPOLOGY,
            queue_arguments={"x-queue-type": "quorum"},
        )
    ],
    worker_prefetch_multiplier=1,
    result_backend_transport_options={"global_keyprefix": marks.TOPOLOGY},
)
track(app, marks.make_acker(), strict=True)


@app.task
def leaf(root: str, work: str) -> None:
    done(root, work)


@app.task
def publishes(root: str, countdown: float) -> None:
    publish(root, countdown=countdown)


@app.task(bind=True, max_retries=1)
def retries(self: Task, root: str, countdown: float) -> None:
    if count(root, "runs") == 1:
        raise self.retry(countdown=countdown)
    done(root, "late")


def publish(root: str, **options: Any) -> None:
    """Publish a task that waits, and note that it was refused."""
    try:
        leaf.apply_async((root, "late"), **options)
    except UsageError as error:
        done(root, "refused" if "the exchange of the queue direct" in str(error) else str(error))


if __name__ == "__main__":
    from tests.queues import celery_quorum  # noqa: PLW0406 - tasks are named after it, not after __main__

    scenarios = {"now": lambda root: celery_quorum.leaf.delay(root, "now")}
    for name, seconds in (("long", LONG_S), ("short", SHORT_S)):
        scenarios |= {
            f"{name} wait of a root": lambda root, s=seconds: celery_quorum.publish(root, countdown=s),
            f"{name} wait of a task": lambda root, s=seconds: celery_quorum.publishes.delay(root, s),
            f"{name} wait of a retry": lambda root, s=seconds: celery_quorum.retries.delay(root, s),
        }
    marks.emit(scenarios, sys.argv[2:])
