"""The actors of the tests: ``python -m tests.queues.dramatiq_tasks threads`` is a worker, ``… emit`` a spout."""

import sys

if __name__ == "__main__" and sys.argv[1] == "gevent":
    from gevent import monkey

    monkey.patch_all()

import contextvars
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import dramatiq
from acker_client import DropTuple, propagate
from acker_client.integrations.dramatiq import AckerMiddleware, NotTracked
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import AgeLimit, AsyncIO, CurrentMessage, GroupCallbacks, Middleware
from dramatiq.rate_limits.backends import RedisBackend

from tests.queues import marks
from tests.queues.marks import count, die_once, done, slowly

HEARTBEAT_MS = 3_000
MAINTENANCE_CHANCE = 10_000
"""One of a hundred commands, as docs/dramatiq.md has it."""
QUICK = {"min_backoff": 50, "max_backoff": 100}


class Deadly(Middleware):
    """Kills the worker between the end of an actor and the ack of its tuple."""

    def after_process_message(self, _broker: Any, message: Any, **_: Any) -> None:
        if message.actor_name in ("dies_at_its_end", "deadly_step"):
            die_once(message.args[0], "its end")

    def before_ack(self, _broker: Any, message: Any) -> None:
        if message.actor_name == "dies_after_its_ack":
            die_once(message.args[0], "the queue's ack")


def make_broker() -> Any:
    """Make the broker of these tests, without what needs a port of its own."""
    if marks.BROKER.startswith("redis"):
        broker: Any = RedisBroker(
            url=marks.BROKER,
            heartbeat_timeout=HEARTBEAT_MS,
            maintenance_chance=MAINTENANCE_CHANCE,
            namespace=marks.TOPOLOGY,
        )
    else:
        broker = RabbitmqBroker(url=marks.BROKER, confirm_delivery=True)
    broker.middleware = [each for each in broker.middleware if type(each).__name__ != "Prometheus"]
    broker.add_middleware(AckerMiddleware(marks.make_acker(), strict=True), before=AgeLimit)
    broker.add_middleware(Deadly(), after=AckerMiddleware)
    broker.add_middleware(GroupCallbacks(RedisBackend(url=marks._MARKS)))
    broker.add_middleware(AsyncIO())
    broker.add_middleware(CurrentMessage())
    dramatiq.set_broker(broker)
    return broker


broker = make_broker()
dramatiq.set_broker(broker)


def actor(**options: Any) -> Any:
    """Make an actor on the queue of this topology."""
    return dramatiq.actor(queue_name=marks.TOPOLOGY, **(QUICK | options))


@actor()
def leaf(root: str, work: Any) -> None:
    slowly(root, str(work))


@actor()
def fan(root: str, depth: int) -> None:
    if depth:
        for _ in range(2):
            fan.send(root, depth - 1)
    else:
        done(root, "leaves")


@actor(max_retries=5)
def retries(root: str) -> None:
    if count(root, "tries") < 3:
        raise ValueError("again")
    slowly(root, "work")


@actor(max_retries=5)
def sends_and_retries(root: str) -> None:
    message = CurrentMessage.get_current_message()
    tries = message.options.get("retries", 0) if message else 0
    leaf.send(root, f"child of try {tries}")
    if tries < 2:
        raise ValueError("again")


@actor(max_retries=5, on_failure="told_of_failure")
def retries_and_tells(root: str) -> None:
    if count(root, "tries") < 3:
        raise ValueError("again")


@actor()
def told_of_failure(message: dict[str, Any], _error: dict[str, str]) -> None:
    slowly(message["args"][0], f"told {message['options']['retries']}")


@actor(max_retries=1)
def fails(root: str) -> None:
    count(root, "tries")
    raise ValueError("for good")


@actor(max_retries=1)
def row(root: str, number: int) -> None:
    """Import a row: one fails for good, one succeeds with its second run."""
    if number == 3:
        message = CurrentMessage.get_current_message()
        assert message is not None
        leaf.send(root, f"note of try {message.options.get('retries', 0)}")
        raise ValueError("row 3 has no price")
    if number == 11 and count(root, "tries of row 11") == 1:
        raise ValueError("the store is away")
    (slowly if number == 29 else done)(root, f"row {number}")


@actor()
def imports(root: str) -> None:
    for number in range(30):
        if number == 7:
            aged.send_with_options(args=(root,), delay=50)
        else:
            row.send(root, number)
    sends_to_nobody(root)


@actor(throws=DropTuple)
def drops(root: str) -> None:
    leaf.send(root, "child")
    raise DropTuple("no such price")


@actor()
def dies(root: str) -> None:
    leaf.send(root, "child")
    die_once(root, "the middle")


@actor()
def dies_and_reorders(root: str) -> None:
    if count(root, "runs") == 1:
        leaf.send(root, "B")
        die_once(root, "the middle")
    leaf.send(root, "A")
    leaf.send(root, "B")


@actor()
def dies_at_its_end(root: str) -> None:
    count(root, "runs")
    leaf.send(root, "child")


@actor()
def dies_after_its_ack(root: str) -> None:
    count(root, "runs")
    leaf.send(root, "child")


@actor()
def differs_between_runs(root: str) -> None:
    leaf.send_with_options(args=(root, f"at {time.time()}"), acker_key="report")
    die_once(root, "the middle")


@actor()
def equal_calls(root: str) -> None:
    for _ in range(3):
        leaf.send(root, "equal")


@actor()
def callback(root: str) -> None:
    slowly(root, "callback")


@actor()
def makes_group(root: str) -> None:
    group = dramatiq.group([leaf.message(root, number) for number in range(3)])
    group.add_completion_callback(callback.message(root))
    group.run()


@actor()
def makes_deadly_group(root: str) -> None:
    group = dramatiq.group([dies_at_its_end.message(root)])
    group.add_completion_callback(callback.message(root))
    group.run()


@actor()
def makes_group_of_pipelines(root: str) -> None:
    lines = [step.message(root, line) | last_step.message_with_options(args=(root,)) for line in ("1", "2")]
    group = dramatiq.group([*lines, leaf.message(root, "3")])
    group.add_completion_callback(callback.message(root))
    group.run()


@actor()
def step(root: str, line: str) -> str:
    count(root, "steps")
    return line


@actor()
def deadly_step(root: str) -> str:
    return str(count(root, "steps"))


@actor()
def last_step(root: str, line: str) -> None:
    slowly(root, f"line {line}")


@actor(max_age=1)
def aged(root: str) -> None:
    done(root, "aged")


foreign = {name: actor(actor_name=name)(leaf.fn) for name in marks.FOREIGN_NAMES}


def sends_to_foreign_names(root: str) -> None:
    """Send to an actor of each of these names."""
    for name, each in foreign.items():
        each.send(root, name)


@actor()
async def asynchronous(root: str) -> None:
    leaf.send(root, "child")


@actor()
def starts_a_thread(root: str) -> None:
    def work() -> None:
        try:
            leaf.send(root, "untracked")
        except NotTracked:
            done(root, "refused")

    for target in (work, contextvars.copy_context().run):
        arguments = () if target is work else (lambda: leaf.send(root, "child"),)
        thread = threading.Thread(target=target, args=arguments)
        thread.start()
        thread.join()


@actor()
def waits(root: str) -> None:
    done(root, "work")


def sends_to_nobody(root: str) -> None:
    """Send to an actor that no worker knows."""
    broker.enqueue(leaf.message(root, "never").copy(actor_name="unknown"))


def delivers_twice(root: str) -> None:
    """Let the queue deliver a message twice."""
    sent = broker.enqueue(dies_after_its_ack.message(root))
    with propagate.use(None):
        broker.enqueue(sent.copy())


SCENARIOS: dict[str, Callable[[str], Any]] = {
    "fan": lambda root: fan.send(root, 4),
    "retries": retries.send,
    "sends_and_retries": sends_and_retries.send,
    "retries_and_tells": retries_and_tells.send,
    "fails": fails.send,
    "imports": imports.send,
    "drops": drops.send,
    "dies": dies.send,
    "dies_and_reorders": dies_and_reorders.send,
    "dies_at_its_end": dies_at_its_end.send,
    "dies_after_its_ack": dies_after_its_ack.send,
    "delivers_twice": delivers_twice,
    "differs_between_runs": differs_between_runs.send,
    "equal_calls": equal_calls.send,
    "group": makes_group.send,
    "group_of_the_root": makes_group.fn,
    "deadly_group": makes_deadly_group.send,
    "group_of_pipelines": makes_group_of_pipelines.send,
    "pipeline": lambda root: (step.message(root, "1") | last_step.message(root)).run(),
    "deadly_pipeline": lambda root: (deadly_step.message(root) | last_step.message(root)).run(),
    "aged": lambda root: aged.send_with_options(args=(root,), delay=50),
    "sends_to_nobody": sends_to_nobody,
    "foreign_names": sends_to_foreign_names,
    "asynchronous": asynchronous.send,
    "starts_a_thread": starts_a_thread.send,
    "waits": lambda root: waits.send_with_options(args=(root,), delay=8_000),
}


def work() -> None:
    """Run a worker until it is told to stop."""
    worker = dramatiq.Worker(broker, worker_threads=4, worker_timeout=100)
    worker.start()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    while not stopped.is_set():
        time.sleep(0.1)
    worker.stop(timeout=5_000)
    broker.close()


if __name__ == "__main__":
    if sys.argv[1] == "emit":
        marks.emit(SCENARIOS, sys.argv[2:])
    else:
        work()
