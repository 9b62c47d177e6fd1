"""Tracks Celery tasks: all tasks that grow out of a root are one tree. Call it where tasks are published and run::

    track(app, acker)

    with spout.emit(message_id="42"):
        resize.delay("a.png")  # and whatever it publishes, retries, chains, groups and chords

Needs ``acker-client[celery]``.
"""

import inspect
import logging
import warnings
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from celery import Task, signals, states
from celery.app.task import extract_exec_options
from celery.bootsteps import Step
from celery.exceptions import Ignore
from celery.utils import uuid
from celery.utils.quorum_queues import detect_quorum_queues

from acker_client import propagate
from acker_client.errors import AckerError, DropTuple, UsageError
from acker_client.integrations._celery_reading import REQUEUED, acks_on_timeout, call_of, ids_in, visibility_timeout_s
from acker_client.integrations._celery_skipping import call_before_start
from acker_client.integrations._task_runs import KEY, NAME, Call, TaskRuns

if TYPE_CHECKING:
    from celery import Celery

    from acker_client.sync.client import Acker

__all__ = ["track"]

UNLOCK = "celery.chord_unlock"
UNKNOWN_TASK = "unknown"
"""Names the task of a message that names none."""
_log = logging.getLogger("acker_client")


def track(
    app: "Celery", acker: "Acker", *, flush_before_ack: bool = True, strict: bool = False, skip_ended: bool = False
) -> None:
    """Anchor the tasks that an application publishes, and ack or fail the tuples of those that it has run.

    A task that is delivered again has the same edge, and so have the tasks that it publishes: each is known by its
    name, its arguments and the number of equal ones before it. For calls whose arguments differ between runs give a
    key: ``report.apply_async([now()], headers={"acker_key": "report"})``.

    With ``flush_before_ack`` the ack of a task with ``acks_late`` is delivered before the queue forgets it, and the
    topology needs a dedupe window, longer than the broker's visibility timeout; else a worker does not start and
    nothing is published. Without, acks linger, and a tree whose worker dies times out. ``strict`` refuses to publish
    where neither a tuple nor a root is current, as in a thread that a task has started, and refuses settings by which
    Celery requeues a task for ever that reaches its hard time limit. ``skip_ended`` ignores tasks whose roots have all
    ended, and counts them in ``acker.stats().skipped`` of the process that would have run them.

    Call it once for an application. Publishing raises `UsageError` for what cannot be anchored.
    """
    if isinstance(getattr(app.send_task, "__self__", None), _Tracker):
        raise UsageError("the application is tracked already")
    tracker = _Tracker(app, acker, flush_before_ack=flush_before_ack, strict=strict, skip_ended=skip_ended)
    tracker.check_settings()
    app.send_task = tracker.send_task  # signals cannot refuse: Celery logs what their receivers raise
    signals.task_prerun.connect(tracker.begin, weak=False)
    signals.task_postrun.connect(tracker.end, weak=False)
    signals.task_failure.connect(tracker.fail_lost, weak=False)
    signals.task_revoked.connect(tracker.fail_revoked, weak=False)
    signals.task_unknown.connect(tracker.fail_unknown, weak=False)
    signals.task_rejected.connect(tracker.fail_refused, weak=False)
    app.steps["consumer"].add(_undecodable_step(tracker))
    signals.task_received.connect(tracker.keep_alive, weak=False)
    signals.worker_init.connect(tracker.check_topology, weak=False)
    if skip_ended:
        signals.worker_init.connect(tracker.skip_tasks, weak=False)
    for ending in (signals.worker_process_shutdown, signals.worker_shutdown):
        ending.connect(tracker.flush, weak=False)


class _Tracker:
    """The tracking of one application."""

    def __init__(
        self, app: "Celery", acker: "Acker", *, flush_before_ack: bool, strict: bool, skip_ended: bool = False
    ) -> None:
        self._app = app
        self._send = app.send_task
        self._strict = strict
        self._positions = list(inspect.signature(app.send_task).parameters)[3:]
        self._runs = TaskRuns(
            acker,
            flush_before_ack=flush_before_ack,
            strict=strict,
            redelivery_s=lambda: visibility_timeout_s(app),
            skip_ended=skip_ended,
        )
        self._bodies: ContextVar[tuple[object, dict[str, str | None]]] = ContextVar("acker_bodies")

    def check_settings(self) -> None:
        """Refuse settings by which every task that reaches its hard time limit is requeued; if strict."""
        for name in self._requeuing_settings():
            if self._strict:
                raise UsageError(f"{name}=False: {REQUEUED} (strict=True)")

    def send_task(self, name: str, args: Any = None, kwargs: Any = None, *positional: Any, **options: Any) -> Any:
        """Publish a task, with its anchors in its headers."""
        self._check_task(name)
        options |= dict(zip(self._positions, positional, strict=False))
        options["task_id"] = options.get("task_id") or uuid()
        headers = dict(options.get("headers") or {})
        call = call_of(name, args, kwargs, options, key=headers.pop(KEY, None))
        if call.delay > 0 and propagate.current() is not None and self._is_held_by_broker(call, options):
            self._runs.check_held(call)
        value = self._anchor(call, headers.pop(NAME, None))
        if value:
            options["headers"] = headers | {NAME: value}
            if propagate.current() is not None:
                args = self._anchor_bodies(name, args, options)
        elif options.get("headers"):
            options["headers"] = headers
        return self._send(name, args, kwargs, **options)

    def begin(self, task_id: str = "", task: Any = None, **_: Any) -> None:
        """Make the tuple of a task current."""
        request = task.request
        if task.app is not self._app or request.is_eager:
            return
        unlocked = request.args[1] if task.name == UNLOCK else None
        self._runs.begin(
            request.get(NAME),
            task=task.name,
            task_id=task_id,
            given_ids=frozenset(ids_in([request.chain, request.callbacks], anchored=False)),
            anchored_ids=frozenset(ids_in([request.chord, unlocked], anchored=True)),
        )

    def skip_tasks(self, **_: Any) -> None:
        """Let the tasks of this worker be skipped."""
        call_before_start(list(self._app.tasks.values()), self.skip_if_ended)

    def skip_if_ended(self, task: Any) -> None:
        """Raise `Ignore` for a task whose roots have all ended."""
        if task.app is self._app and not task.request.is_eager and self._runs.skip_if_ended():
            raise Ignore

    def end(self, task: Any = None, state: str | None = None, retval: Any = None, **_: Any) -> None:
        """Ack the tuple of a task, fail it, or drop it after a `DropTuple`; without a state its process ends."""
        if task.app is not self._app or task.request.is_eager:
            return
        failed, drop, left_open = None, None, state is None
        if state == states.REJECTED and getattr(retval, "requeue", False):
            left_open = True
        elif state in (states.FAILURE, states.REJECTED) or (state == states.RETRY and not self._runs.was_continued()):
            failed = str(retval) or type(retval).__name__
            drop = retval if isinstance(retval, DropTuple) else None
        flush = self._runs.flush_before_ack and task.acks_late
        self._runs.end(failed=failed, drop=drop, left_open=left_open, flush=flush)

    def fail_lost(self, sender: Any = None, task_id: str = "", exception: Any = None, **_: Any) -> None:
        """Fail the tuple of a task whose process has died, and which is not delivered again."""
        request = sender.request
        if sender.app is self._app and request.id == task_id and not self._runs.is_running():
            self._fail(request, sender.name, str(exception) or type(exception).__name__)

    def fail_revoked(self, sender: Any = None, request: Any = None, expired: bool = False, **_: Any) -> None:  # noqa: FBT001, FBT002
        """Fail the tuple of a task that was revoked, terminated or has expired."""
        if sender.app is self._app:
            self._fail(request, sender.name, "expired" if expired else "revoked")

    def fail_unknown(self, sender: Any = None, message: Any = None, **_: Any) -> None:
        """Fail the tuple of a task that this worker does not know."""
        if sender.app is self._app:
            self._fail_message(message, "no such task")

    def fail_refused(self, sender: Any = None, message: Any = None, exc: Any = None, **_: Any) -> None:
        """Fail the tuple of a message that this worker refuses or cannot read."""
        if sender.app is self._app:
            self._fail_message(message, str(exc or "") or "no task")

    def keep_alive(self, request: Any = None, **_: Any) -> None:
        """Keep the roots of a task alive that waits in this worker."""
        value = request.request_dict.get(NAME)
        if value and request.eta and request.app is self._app:
            self._runs.keep_alive(value, task=request.task_name, until=request.eta.timestamp())

    def check_topology(self, **_: Any) -> None:
        """Refuse to start with a topology that does not fit, or a task that would be requeued for ever."""
        try:
            self.check_settings()
            for name in self._app.tasks:
                self._check_task(name)
            for name in self._requeuing_settings():
                warnings.warn(f"{name}=False: {REQUEUED}", stacklevel=2)
            self._runs.topology()
        except AckerError as error:
            raise SystemExit(str(error)) from error

    def flush(self, **_: Any) -> None:
        """Deliver the last acks of a process."""
        self._runs.flush()

    def _is_held_by_broker(self, call: Call, options: dict[str, Any]) -> bool:
        """Whether a delayed task waits in RabbitMQ: Celery does so as soon as a queue is a quorum queue.

        A task whose exchange is direct waits in a worker all the same.
        """
        app = self._app
        if not detect_quorum_queues(app, app.connection_for_write().transport.driver_type)[0]:
            return False
        task = options.get("task_type") or app.tasks.get(call.task)
        defaults = {} if task is None else {name: value for name, value in extract_exec_options(task).items() if value}
        named = options.get("route_name") or call.task
        route = app.amqp.router.route(defaults | options, named, call.args, call.kwargs, task)
        queue = route.get("queue")
        return str(queue.exchange.type if queue else route.get("exchange_type")) != "direct"

    def _requeuing_settings(self) -> list[str]:
        names = ("task_acks_on_timeout", "task_acks_on_failure_or_timeout")
        return [name for name in names if self._app.conf.get(name) is False]

    def _check_task(self, name: str) -> None:
        task = self._app.tasks.get(name) if self._strict else None
        if task is not None and task.acks_late and not acks_on_timeout(task):
            settings = "acks_on_timeout=False or acks_on_failure_or_timeout=False"
            raise UsageError(f"{name} has {settings}: {REQUEUED} (strict=True)")

    def _fail(self, request: Any, task: str, reason: str) -> None:
        if value := request.get(NAME):
            self._runs.fail(value, task=task, reason=reason)

    def _fail_message(self, message: Any, reason: str) -> None:
        headers = message.headers or {}
        if headers.get(NAME):
            self._fail(headers, str(headers.get("task") or UNKNOWN_TASK), reason)

    def _anchor(self, call: Call, carried: str | None) -> str | None:
        """Return the value that a task carries; None where it is not tracked."""
        if carried and propagate.current() is None:
            return carried
        run = self._runs.current()
        if run is not None and call.task_id == run.task_id:
            return self._runs.continue_run(run, call, publishes_more=self._publishes_on_retry(call.task))
        if run is not None and carried and call.task_id in run.anchored_ids:
            return carried  # the body of a chord
        return self._runs.anchor(call)

    def _publishes_on_retry(self, task: str) -> bool:
        return type(self._app.tasks[task]).on_retry is not Task.on_retry if task in self._app.tasks else False

    def _anchor_bodies(self, name: str, args: Any, options: dict[str, Any]) -> Any:
        """Anchor the bodies of chords that a task's message names to what publishes the chord; give its arguments.

        Not to the task of the header that comes last: delivered again it would not publish the body, and so not name
        its edge.
        """
        parent = propagate.current()
        if self._bodies.get((None, {}))[0] is not parent:
            self._bodies.set((parent, {}))
        options |= self._with_bodies(
            {option: options[option] for option in ("chord", "chain", "link") if option in options}
        )
        if name == UNLOCK:
            return (args[0], self._with_body(args[1]), *args[2:])
        return args

    def _with_bodies(self, options: dict[str, Any]) -> dict[str, Any]:
        """Copy options of a signature, with anchors for the bodies in them."""
        found: dict[str, Any] = dict(options)
        if found.get("chord"):
            found["chord"] = self._with_body(found["chord"])
        for option in ("chain", "link"):
            if isinstance(found.get(option), list | tuple):
                found[option] = [self._copied(signature) for signature in found[option]]
            elif isinstance(found.get(option), dict):
                found[option] = self._copied(found[option])
        return found

    def _copied(self, signature: Any) -> Any:
        if not isinstance(signature, dict) or not signature.get("options"):
            return signature
        return dict(signature) | {"options": self._with_bodies(signature["options"])}

    def _with_body(self, body: Any) -> Any:
        """Copy the signature of a body, with its anchors; a body that is a group or a chain has none of its own."""
        copied = self._copied(body)
        options = copied.get("options") or {}
        headers, task_id = options.get("headers") or {}, options.get("task_id")
        if NAME in headers or not task_id or copied.get("subtask_type"):
            return copied
        values = self._bodies.get()[1]
        if task_id not in values:
            call = call_of(copied["task"], copied["args"], copied["kwargs"], options, key=headers.get(KEY))
            values[task_id] = self._runs.anchor(call)
        return copied | {"options": options | {"headers": headers | {NAME: values[task_id]}}}


def _undecodable_step(tracker: _Tracker) -> type[Step]:
    """Make the step of a consumer that fails the tuple of a message whose body cannot be decoded.

    Celery acks such a message, and sends no signal.
    """

    class Undecodable(Step):  # type: ignore[misc]  # Celery says nothing of its types
        def __init__(self, consumer: Any, **options: Any) -> None:
            super().__init__(consumer, **options)
            self._consumer = consumer
            self._handle = consumer.on_decode_error
            consumer.on_decode_error = self.fail

        def fail(self, message: Any, error: Exception) -> None:
            try:
                tracker.fail_refused(self._consumer, message, error)
            except AckerError:
                _log.exception("a tuple was not failed: its roots time out")
            self._handle(message, error)

    return Undecodable
