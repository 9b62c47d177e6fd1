"""Trees of Celery tasks, the worker and what sends them: with Celery's chords, or tracked by Acker."""

import os
from typing import Any

import redis
from acker_client import Acker
from acker_client.integrations.celery import track
from celery import Celery, group
from celery.signals import worker_ready
from celery.utils import uuid
from kombu.transport import redis as redis_transport

from bench.peers import growing
from bench.peers.growing import BRANCHES, FailsForGoodError, leaves_of, report, work
from bench.peers.sending import Doubling

PORT = os.environ["BENCH_QUEUE_PORT"]
VARIANT = os.environ["BENCH_VARIANT"]
REDELIVERY = {"visibility_timeout": 5, "unacked_restore_throttle": 1}
"""Tasks of a killed worker are delivered again after 5 seconds; a worker looks for them every 10 seconds, not 100."""

done = redis.Redis(port=int(PORT), db=15)
app = Celery("bench.peers.celery_trees", broker=f"redis://127.0.0.1:{PORT}/3", backend=f"redis://127.0.0.1:{PORT}/4")
app.conf.update(
    worker_prefetch_multiplier=8,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    task_ignore_result=VARIANT != "chords",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_transport_options=REDELIVERY,
)
acker = Acker(os.environ["BENCH_ACKER_URL"], topology="bench") if VARIANT == "acker" else None
if acker is not None:
    track(app, acker)
doubling = Doubling()
TRIES = {"autoretry_for": (FailsForGoodError,), "max_retries": growing.RETRIES, "default_retry_delay": 1}


class DoublingChannel(redis_transport.Channel):
    """Puts each hundredth message into its queue again, as one that is delivered a second time."""

    def _put(self, queue: str, message: Any, **options: Any) -> None:
        put: Any = super()._put
        put(queue, message, **options)
        if doubling.is_due():
            again = message | {"properties": message["properties"] | {"delivery_tag": uuid()}}
            put(queue, again, **options)


redis_transport.Transport.Channel = DoublingChannel


@worker_ready.connect  # type: ignore[untyped-decorator]
def ready(**_: object) -> None:
    """Count a worker."""
    done.incr("ready")


@app.task(bind=True)  # type: ignore[untyped-decorator]
def start(self: Any, root: int) -> Any:
    """Publish the branches of a root."""
    work(done, root, "start")
    return publish(self, [branch.s(root, number) for number in range(BRANCHES)])


@app.task(bind=True)  # type: ignore[untyped-decorator]
def branch(self: Any, root: int, number: int) -> Any:
    """Publish the leaves of a branch."""
    work(done, root, f"branch {number}")
    return publish(self, [leaf.s(root, number, own) for own in leaves_of(number)])


@app.task(**TRIES)  # type: ignore[untyped-decorator]
def leaf(root: int, number: int, own: int) -> None:
    """Do the work of a leaf."""
    work(done, root, f"leaf {number} {own}")


@app.task  # type: ignore[untyped-decorator]
def finished(root: int) -> None:
    """Run when the first task, and all that replaced it, is done."""
    report(done, root, growing.ACKED)


@app.task  # type: ignore[untyped-decorator]
def failed(*given: Any) -> None:
    """Run when a task has failed; Celery gives the arguments of its own before the root, or not."""
    report(done, given[-1], growing.FAILED)


def publish(task: Any, children: list[Any]) -> Any:
    """Publish the children of a task that runs. A chain waits for them only if they take its place.

    What is to run when they fail is given to each: a task that is replaced passes on its own to the whole only.
    """
    if VARIANT == "chords":
        return task.replace(group(child.on_error(failed.s(child.args[0])) for child in children))
    for child in children:
        child.delay()
    return None


class CelerySender(growing.Sender):
    """Sends roots to Celery."""

    def send(self, root: int) -> None:
        """Send a first task: with chords as a chain, whose end runs when all that grew out of its start is done."""
        if VARIANT == "chords":
            (start.s(root) | finished.si(root)).apply_async(link_error=failed.s(root))
        else:
            start.delay(root)


if __name__ == "__main__":
    CelerySender(done, acker and acker.shared_spout("jobs")).main()
