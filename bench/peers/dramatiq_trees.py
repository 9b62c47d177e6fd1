"""Trees of Dramatiq messages, the worker and what sends them: with Dramatiq's groups, or tracked by Acker."""

import os
from typing import Any
from uuid import uuid4

import dramatiq
import redis
from acker_client import Acker
from acker_client.integrations.dramatiq import AckerMiddleware
from dramatiq.brokers.redis import RedisBroker
from dramatiq.message import Message
from dramatiq.middleware import AgeLimit, GroupCallbacks, Middleware
from dramatiq.rate_limits import Barrier
from dramatiq.rate_limits.backends import RedisBackend

from bench.peers.growing import ACKED, BRANCHES, FAILED, RETRIES, Sender, leaves_of, report, work
from bench.peers.sending import Doubling

PORT = os.environ["BENCH_QUEUE_PORT"]
VARIANT = os.environ["BENCH_VARIANT"]
HEARTBEAT_MS = 4_000
"""After so long without a heartbeat, a worker's messages go to another one."""
doubling = Doubling()


class DoublingBroker(RedisBroker):
    """Puts each hundredth message into its queue again, as one that is delivered a second time."""

    def do_enqueue(self, queue: str, redis_id: str, encoded: bytes) -> None:
        """Put an encoded message into a queue."""
        put: Any = self._dispatch("enqueue")  # type: ignore[no-untyped-call]
        put(queue, redis_id, encoded)
        if doubling.is_due():
            again = str(uuid4())
            put(queue, again, Message.decode(encoded).copy(options={"redis_message_id": again}).encode())


class Ready(Middleware):
    """Says that the worker is ready."""

    def after_worker_boot(self, broker: Any, worker: Any) -> None:  # noqa: ARG002 - Dramatiq calls it so
        """Count a worker."""
        done.incr("ready")


done = redis.Redis(port=int(PORT), db=15)
barriers = RedisBackend(url=f"redis://127.0.0.1:{PORT}/2")
options: dict[str, Any] = {"heartbeat_timeout": HEARTBEAT_MS, "maintenance_chance": 1_000_000}
broker: Any = DoublingBroker(url=f"redis://127.0.0.1:{PORT}/1", **options)  # type: ignore[no-untyped-call]
broker.middleware = [own for own in broker.middleware if type(own).__name__ != "Prometheus"]
broker.add_middleware(Ready())
acker = Acker(os.environ["BENCH_ACKER_URL"], topology="bench") if VARIANT == "acker" else None
if VARIANT == "groups":
    broker.add_middleware(GroupCallbacks(barriers))
if acker is not None:
    broker.add_middleware(AckerMiddleware(acker), before=AgeLimit)
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=RETRIES)
def start(root: int) -> None:
    """Send the branches of a root."""
    work(done, root, "start")
    if VARIANT == "groups":
        tree(root).create(BRANCHES)
    for number in range(BRANCHES):
        branch.send(root, number)


@dramatiq.actor(max_retries=RETRIES)
def branch(root: int, number: int) -> None:
    """Send the leaves of a branch."""
    work(done, root, f"branch {number}")
    leaves = [leaf.message(root, number, own) for own in leaves_of(number)]
    if VARIANT == "groups":
        group = dramatiq.group(leaves)
        group.add_completion_callback(branch_finished.message(root))
        group.run()
    else:
        for message in leaves:
            broker.enqueue(message)


@dramatiq.actor(max_retries=RETRIES, min_backoff=1_000, on_failure="leaf_failed" if VARIANT == "groups" else None)
def leaf(root: int, number: int, own: int) -> None:
    """Do the work of a leaf."""
    work(done, root, f"leaf {number} {own}")


@dramatiq.actor(max_retries=RETRIES)
def branch_finished(root: int) -> None:
    """Run when the group of a branch is done: a group knows nothing of groups within it, so a barrier counts them."""
    if tree(root).wait(block=False):
        report(done, root, ACKED)


@dramatiq.actor(max_retries=RETRIES)
def leaf_failed(message: dict[str, Any], _: dict[str, Any]) -> None:
    """Run when a leaf has failed for good."""
    report(done, message["args"][0], FAILED)


def tree(root: int) -> Barrier:
    """Return the barrier that counts the branches of a root."""
    return Barrier(barriers, f"tree:{root}")


class DramatiqSender(Sender):
    """Sends roots to Dramatiq."""

    def send(self, root: int) -> None:
        """Send a first message."""
        start.send(root)


if __name__ == "__main__":
    DramatiqSender(done, acker and acker.shared_spout("jobs")).main()
