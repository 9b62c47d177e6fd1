"""The tasks for Dramatiq, its worker and what sends them; it runs in the Python of `bench.peers.install`.

The worker is `dramatiq bench.peers.dramatiq_jobs`, the sender `python -m bench.peers.dramatiq_jobs`. `bench.peers.work`
starts both and describes the variables that they read.
"""

import os
import threading
from collections.abc import Iterator
from typing import Any

import dramatiq
import redis
from acker_client import Acker
from acker_client.tuple import Tuple
from acker_protocol.routes import ANCHORS
from dramatiq.brokers.redis import RedisBroker
from dramatiq.message import generate_unique_id
from dramatiq.middleware import AgeLimit, GroupCallbacks, Middleware
from dramatiq.rate_limits.backends import RedisBackend

from bench.peers.sending import FAULTS, Job, Sender, leaf_done, root_finished

PORT = os.environ["BENCH_QUEUE_PORT"]
VARIANT = os.environ["BENCH_VARIANT"]
"""``untracked``, ``groups``, or Acker: ``safe`` flushes before each ack of the queue, ``folded`` does not."""
OPTION = "acker_anchors"
HEARTBEAT_MS = 4_000
"""In a run with faults: after so long without a heartbeat, a worker's messages go to another one."""

acker = Acker(os.environ["BENCH_ACKER_URL"], topology="bench") if VARIANT in ("safe", "folded") else None


class AckerMiddleware(Middleware):
    """Acks the tuple of a message that was processed: its header is an option of the message."""

    def __init__(self, client: Acker) -> None:
        self._client = client
        self._here = threading.local()

    @property
    def actor_options(self) -> set[str]:
        """The options that actors and messages may have."""
        return {OPTION}

    def before_process_message(self, broker: Any, message: Any) -> None:  # noqa: ARG002 - Dramatiq calls it so
        """Receive its tuple."""
        value = message.options.get(OPTION)
        self._here.tup = self._client.receive({ANCHORS: value} if value else {}, component=message.actor_name)

    def after_process_message(
        self,
        broker: Any,  # noqa: ARG002
        message: Any,  # noqa: ARG002
        *,
        result: Any = None,  # noqa: ARG002
        exception: BaseException | None = None,
    ) -> None:
        """Ack it, unless the actor raised: then Dramatiq sends the message again, with the same anchors."""
        tup: Tuple = self._here.tup
        if exception is None:
            tup.ack()

    def before_ack(self, broker: Any, message: Any) -> None:  # noqa: ARG002
        """Deliver the ack before the queue forgets the message: a death in between would strand its edge."""
        if VARIANT == "safe":
            self._client.flush()


class Ready(Middleware):
    """Says that the worker is ready."""

    def after_worker_boot(self, broker: Any, worker: Any) -> None:  # noqa: ARG002
        """Count a worker."""
        done.incr("ready")


done = redis.Redis(port=int(PORT), db=15)
maintenance = {"heartbeat_timeout": HEARTBEAT_MS, "maintenance_chance": 1_000_000} if FAULTS else {}
broker = RedisBroker(url=f"redis://127.0.0.1:{PORT}/1", **maintenance)
broker.middleware = [own for own in broker.middleware if type(own).__name__ != "Prometheus"]
broker.add_middleware(Ready())
if VARIANT == "groups":
    broker.add_middleware(GroupCallbacks(RedisBackend(url=f"redis://127.0.0.1:{PORT}/2")))
if acker is not None:
    broker.add_middleware(AckerMiddleware(acker), before=AgeLimit)
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=3)
def leaf(root: int, number: int) -> None:
    """Do the work of a task."""
    leaf_done(done, root, number)


@dramatiq.actor(max_retries=3)
def finished(root: int) -> None:
    """Run when a group is done."""
    root_finished(done, root)


class Dramatiq(Sender):
    """Sends jobs to Dramatiq."""

    def send(self, job: Job) -> None:
        """Send the tasks of a job; each of those that are delivered twice goes out a second time as a copy."""
        if VARIANT == "groups":
            group = dramatiq.group(leaf.message(job.root, number) for number in range(job.tasks))
            group.add_completion_callback(finished.message(job.root))
            group.run()
            for child in group.children:
                self._again(child)
        elif acker is None:
            for message in self._messages(job):
                broker.enqueue(message)
        else:
            with acker.shared_spout("jobs").emit(message_id=str(job.root)) as root:
                for message in self._messages(job):
                    anchors = root.headers(key=str(message.args[1]))[ANCHORS]
                    self._twice(message.copy(options={OPTION: anchors}))

    def completed(self) -> Iterator[int]:
        """Yield the roots that Acker reports."""
        assert acker is not None
        for completion in acker.shared_spout("jobs").completions(
            page_size=1_000, poll_timeout=1.0, until=self.left_s()
        ):
            if completion.acked:
                yield int(completion.message_id or 0)

    def _messages(self, job: Job) -> list[Any]:
        return [leaf.message(job.root, number) for number in range(job.tasks)]

    def _twice(self, message: Any) -> None:
        broker.enqueue(message)
        self._again(message)

    def _again(self, message: Any) -> None:
        if self.is_doubled():
            broker.enqueue(message.copy(message_id=generate_unique_id()))


if __name__ == "__main__":
    Dramatiq(done, by_completions=acker is not None).main()
