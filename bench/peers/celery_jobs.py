"""The tasks for Celery, its worker and what sends them; it runs in the Python of `bench.peers.install`."""

import json
import os

import redis
from celery import Celery, chord
from celery.signals import worker_ready

from bench.peers.sending import FAULTS, Job, Sender, leaf_done, root_finished

PORT = os.environ["BENCH_QUEUE_PORT"]
VARIANT = os.environ["BENCH_VARIANT"]
VISIBILITY_S = 5
"""In a run with faults: after so long the tasks of a killed worker are delivered again."""
QUEUE = "celery"

done = redis.Redis(port=int(PORT), db=15)
queue = redis.Redis(port=int(PORT), db=3)
app = Celery("bench.peers.celery_jobs", broker=f"redis://127.0.0.1:{PORT}/3", backend=f"redis://127.0.0.1:{PORT}/4")
app.conf.update(
    worker_prefetch_multiplier=8,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    task_ignore_result=VARIANT == "untracked",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_transport_options={"visibility_timeout": VISIBILITY_S} if FAULTS else {},
)


@worker_ready.connect  # type: ignore[untyped-decorator]
def ready(**_: object) -> None:
    """Count a worker."""
    done.incr("ready")


@app.task  # type: ignore[untyped-decorator]
def leaf(root: int, number: int) -> None:
    """Do the work of a task."""
    leaf_done(done, root, number)


@app.task  # type: ignore[untyped-decorator]
def finished(results: list[None], root: int) -> None:  # noqa: ARG001 - a chord's body is called so
    """Run when a chord is done."""
    root_finished(done, root)


class CelerySender(Sender):
    """Sends jobs to Celery."""

    def send(self, job: Job) -> None:
        """Send the tasks of a job, as a chord or each by itself."""
        if VARIANT == "chords":
            chord(leaf.s(job.root, number) for number in range(job.tasks))(finished.s(job.root))
        else:
            for number in range(job.tasks):
                leaf.delay(job.root, number)

    def after_all(self) -> None:
        """Let each hundredth message that still waits be delivered a second time, as it is."""
        if FAULTS:
            waiting = [message for message in queue.lrange(QUEUE, 0, -1) if json.loads(message)]
            for message in waiting:
                if self.is_doubled():
                    queue.lpush(QUEUE, message)


if __name__ == "__main__":
    CelerySender(done).main()
