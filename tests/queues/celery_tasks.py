"""The tasks of the tests; ``python -m tests.queues.celery_tasks emit`` is a spout."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from acker_client import AsyncAcker, DropTuple, UsageError, propagate
from acker_client.integrations.celery import track
from celery import Celery, Task, chain, chord, group, signals
from celery.exceptions import Ignore, Reject

from tests.queues import marks
from tests.queues.marks import count, die_once, done, slowly

VISIBILITY_TIMEOUT_S = 5

app = Celery("tests.queues.celery_tasks", broker=marks.BROKER, backend=marks._MARKS)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": VISIBILITY_TIMEOUT_S} if marks.BROKER.startswith("redis") else {},
    task_acks_late=True,
    task_default_queue=marks.TOPOLOGY,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    result_backend_transport_options={"global_keyprefix": marks.TOPOLOGY},
)
track(app, marks.make_acker(), strict=True)


@signals.task_postrun.connect(weak=False)
def die_after_the_ack(task: Any = None, args: Any = (), **_: Any) -> None:
    """Kill the process between the ack of the tuple and the queue's ack."""
    if task.name.endswith("dies_after_its_ack"):
        die_once(args[0], "the queue's ack")


@signals.task_success.connect(weak=False)
def die_at_the_end(sender: Any = None, **_: Any) -> None:
    """Kill the process when a task has published what follows it, before the ack of its tuple."""
    if sender.name.endswith(("dies_at_its_end", "deadly_step")):
        die_once(sender.request.args[0], "its end")


@app.task
def leaf(root: str, work: Any) -> None:
    slowly(root, str(work))


@app.task
def fan(root: str, depth: int) -> None:
    if depth:
        for _ in range(2):
            fan.delay(root, depth - 1)
    else:
        done(root, "leaves")


@app.task(time_limit=1)
def takes_too_long(root: str) -> None:
    leaf.delay(root, "child")
    time.sleep(600)


@app.task(bind=True, max_retries=5)
def retries(self: Task, root: str) -> None:
    if count(root, "tries") < 3:
        raise self.retry(countdown=0.05, exc=ValueError("again"))
    slowly(root, "work")


@app.task(bind=True, autoretry_for=(ValueError,), max_retries=5, retry_backoff=False, default_retry_delay=0.05)
def sends_and_retries(self: Task, root: str) -> None:
    leaf.delay(root, f"child of try {self.request.retries}")
    if self.request.retries < 2:
        raise ValueError("again")


@app.task(autoretry_for=(ValueError,), max_retries=1, default_retry_delay=0.05)
def fails(root: str) -> None:
    count(root, "tries")
    raise ValueError("for good")


@app.task(bind=True, autoretry_for=(ValueError,), max_retries=1, default_retry_delay=0.05)
def row(self: Task, root: str, number: int) -> None:
    """Import a row: one fails for good, one is rejected, two succeed with their second run."""
    if number == 3:
        leaf.delay(root, f"note of try {self.request.retries}")
        raise ValueError("row 3 has no price")
    if number == 7:
        raise Reject("row 7 is no row", requeue=False)
    if number == 11 and count(root, "runs of row 11") == 1:
        raise ValueError("the store is away")
    if number == 13 and count(root, "runs of row 13") == 1:
        raise Reject("later", requeue=True)
    (slowly if number == 29 else done)(root, f"row {number}")


@app.task
def imports(root: str) -> None:
    for number in range(30):
        row.delay(root, number)
    app.send_task("unknown", (root,))


@app.task
def drops(root: str) -> None:
    leaf.delay(root, "child")
    raise DropTuple("no such price")


@app.task
def dies(root: str) -> None:
    leaf.delay(root, "child")
    die_once(root, "the middle")


@app.task
def dies_and_reorders(root: str) -> None:
    if count(root, "runs") == 1:
        leaf.delay(root, "B")
        die_once(root, "the middle")
    leaf.delay(root, "A")
    leaf.delay(root, "B")


@app.task(ignore_result=True)
def dies_at_its_end(root: str) -> None:
    leaf.delay(root, "child")


@app.task
def stores_its_result_and_dies_at_its_end(root: str) -> None:
    leaf.delay(root, "child")


@app.task
def dies_after_its_ack(root: str) -> None:
    leaf.delay(root, "child")


@app.task
def differs_between_runs(root: str) -> None:
    leaf.apply_async((root, f"at {time.time()}"), headers={"acker_key": "report"})
    die_once(root, "the middle")


@app.task
def equal_calls(root: str) -> None:
    for _ in range(3):
        leaf.delay(root, "equal")


@app.task
def value(root: str, number: int) -> int:
    done(root, f"value {number}")
    return number


@app.task
def body(results: Any, root: str) -> None:
    slowly(root, "body")


@app.task
def makes_chord(root: str) -> None:
    chord([value.s(root, number) for number in range(3)], body.s(root)).delay()


@app.task
def makes_deadly_chord(root: str) -> None:
    chord([dies_at_its_end.s(root)], body.s(root)).delay()


@app.task
def makes_nested_chord(root: str) -> None:
    inner = chord([value.s(root, 1), value.s(root, 2)], total.s(root))
    chord([inner, chain(value.si(root, 3), value.si(root, 4)), value.s(root, 5)], body.s(root)).delay()


@app.task
def total(results: Any, root: str) -> int:
    done(root, "total")
    return 0


@app.task(ignore_result=True)
def deadly_step(root: str) -> int:
    return count(root, "steps")


@app.task
def line(step: Any, root: str) -> None:
    slowly(root, f"line {step}")


@app.task(bind=True)
def replaces(self: Task, root: str) -> None:
    raise self.replace(leaf.si(root, "replacement"))


@app.task(bind=True)
def sends_and_replaces(self: Task, root: str) -> None:
    leaf.delay(root, "child")
    raise self.replace(leaf.si(root, "replacement"))


@app.task(bind=True)
def replaces_by_group(self: Task, root: str) -> None:
    raise self.replace(group(leaf.si(root, number) for number in range(3)))


@app.task(bind=True)
def grows_chord(self: Task, root: str) -> None:
    self.add_to_chord(value.s(root, 9))


@app.task(bind=True)
def requeues(self: Task, root: str) -> None:
    if count(root, "runs") == 1:
        raise Reject("later", requeue=True)
    done(root, "work")


@app.task(bind=True)
def stores_a_failure(self: Task, root: str) -> None:
    self.update_state(state="FAILURE", meta={"exc_type": "ValueError", "exc_message": ["no such page"]})
    raise Ignore


@app.task(bind=True)
def fails_its_tuple(self: Task, root: str) -> None:
    self.update_state(state="FAILURE", meta={"exc_type": "ValueError", "exc_message": ["no such page"]})
    propagate.current().fail("no such page")
    raise Ignore


@app.task(bind=True)
def rejects(self: Task, root: str) -> None:
    raise Reject("never", requeue=False)


@app.task(reject_on_worker_lost=False)
def is_lost(root: str) -> None:
    os._exit(1)


@app.task
def waits(root: str) -> None:
    done(root, "work")


for name in marks.FOREIGN_NAMES:
    app.task(leaf.run, name=name)


def sends_to_foreign_names(root: str) -> None:
    """Send to a task of each of these names."""
    for each in marks.FOREIGN_NAMES:
        app.send_task(each, (root, each))


async_acker = AsyncAcker(marks.ACKER_URL, topology=marks.TOPOLOGY) if marks.ACKER_URL else None


@app.task
def runs_loops(root: str) -> None:
    """Ack a child in each of three event loops, with the client of the module."""

    async def ack(headers: dict[str, str]) -> None:
        async with async_acker.receive(headers, component="in-a-loop"):
            done(root, "child")

    for number in range(3):
        asyncio.run(ack(propagate.current().headers(f"loop {number}")))


@app.task
def publishes_untracked(root: str) -> None:
    def publish() -> None:
        try:
            leaf.delay(root, "untracked")
        except UsageError:
            done(root, "refused")

    thread = threading.Thread(target=publish)
    thread.start()
    thread.join()


def delivers_twice(root: str) -> None:
    """Let the queue deliver a task twice."""
    headers: dict[str, Any] = {}
    propagate.inject(headers)
    named = {"acker_anchors": headers["Acker-Anchors"]}
    with propagate.use(None):
        for _ in range(2):
            dies_after_its_ack.apply_async((root,), headers=named)


SCENARIOS: dict[str, Callable[[str], Any]] = {
    "fan": lambda root: fan.delay(root, 4),
    "retries": retries.delay,
    "sends_and_retries": sends_and_retries.delay,
    "fails": fails.delay,
    "imports": imports.delay,
    "drops": drops.delay,
    "dies": dies.delay,
    "dies_and_reorders": dies_and_reorders.delay,
    "dies_at_its_end": dies_at_its_end.delay,
    "stores_its_result_and_dies_at_its_end": stores_its_result_and_dies_at_its_end.delay,
    "dies_after_its_ack": dies_after_its_ack.delay,
    "delivers_twice": delivers_twice,
    "differs_between_runs": differs_between_runs.delay,
    "equal_calls": equal_calls.delay,
    "chord": makes_chord.delay,
    "chord_of_the_root": makes_chord.run,
    "deadly_chord": makes_deadly_chord.delay,
    "nested_chord": makes_nested_chord.delay,
    "growing_chord": lambda root: chord([grows_chord.s(root), value.s(root, 1)], body.s(root)).delay(),
    "chain": lambda root: chain(value.s(root, 1), line.s(root)).delay(),
    "deadly_chain": lambda root: chain(deadly_step.s(root), line.s(root)).delay(),
    "link": lambda root: value.apply_async((root, 1), link=line.s(root)),
    "group": lambda root: group(leaf.s(root, number) for number in range(3)).delay(),
    "replaces": replaces.delay,
    "sends_and_replaces": sends_and_replaces.delay,
    "replaces_by_group": replaces_by_group.delay,
    "requeues": requeues.delay,
    "rejects": rejects.delay,
    "stores_a_failure": stores_a_failure.delay,
    "fails_its_tuple": fails_its_tuple.delay,
    "is_lost": is_lost.delay,
    "expires": lambda root: leaf.apply_async((root, "late"), countdown=0.2, expires=0.1),
    "foreign_names": sends_to_foreign_names,
    "unknown": lambda root: app.send_task("unknown", (root,)),
    "unknown_step": lambda root: chain(leaf.si(root, "before"), app.signature("unknown", immutable=True)).delay(),
    "not_accepted": lambda root: leaf.apply_async((root, "never"), serializer="pickle"),
    "not_readable": lambda root: leaf.apply_async((root, "never"), headers={"compression": "gzip"}),
    "runs_loops": runs_loops.delay,
    "takes_too_long": takes_too_long.delay,
    "publishes_untracked": publishes_untracked.delay,
    "waits": lambda root: waits.apply_async((root,), countdown=8),
}


if __name__ == "__main__":
    from tests.queues import celery_tasks  # noqa: PLW0406 - tasks are named after it, not after __main__

    marks.emit(celery_tasks.SCENARIOS, sys.argv[2:])
