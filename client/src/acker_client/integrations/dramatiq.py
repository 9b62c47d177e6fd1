"""Tracks Dramatiq messages: all messages that grow out of a root are one tree. Call it where they are sent and run::

    broker.add_middleware(AckerMiddleware(acker), before=AgeLimit)  # the first of all middleware

    with spout.emit(message_id="42"):
        resize.send("a.png")  # and whatever it sends, retries, groups and pipelines

Needs ``acker-client[dramatiq]``.
"""

import math
from collections import OrderedDict
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from dramatiq.message import Message
from dramatiq.middleware import Middleware, MiddlewareError, SkipMessage
from dramatiq.worker import WORKER_TIMEOUT

from acker_client import propagate
from acker_client.errors import AckerError, DropTuple, UsageError
from acker_client.integrations._task_runs import KEY, NAME, Call, TaskRuns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dramatiq import Broker, MessageProxy

    from acker_client.sync.client import Acker

__all__ = ["AckerMiddleware", "NotTracked"]

CALLBACKS = "group_completion_callbacks"
PIPE_TARGET = "pipe_target"
IDLE_SHARE = 0.75
"""An idle worker fetches after half to the whole of its timeout, at random."""
MAINTENANCE_SCALE = 1_000_000
"""A broker's maintenance chance is so many of a million commands."""
CERTAINTY = 0.99
MAX_CALLBACKS = 1_000
"""Callbacks whose anchors are remembered while the messages of their groups are sent."""


class NotTracked(UsageError, MiddlewareError):
    """A message was not sent, since it could not be anchored; Dramatiq raises no other error of a middleware."""


class AckerMiddleware(Middleware):
    """Anchors messages that are sent, and acks or fails the tuples of those that were processed.

    Add it before all other middleware: what Retries, Pipelines and callbacks send is then part of the run. A message
    that is delivered again has the same edge, and so have the messages that it sends: each is known by its actor, its
    arguments and the number of equal ones before it. For calls whose arguments differ between runs give a key:
    ``actor.send_with_options(args=(now(),), acker_key="report")``.

    With ``flush_before_ack`` each ack is delivered before the queue forgets the message, and the topology needs a
    dedupe window, longer than it takes until the broker delivers a message of a killed worker again; else a worker does
    not start and nothing is sent. Without, acks linger, and a tree whose worker dies times out. ``strict`` refuses to
    send where neither a tuple nor a root is current, as in a thread that an actor has started. ``skip_ended`` skips
    messages whose roots have all ended, and counts them in ``acker.stats().skipped``.

    Sending raises `NotTracked` for what cannot be anchored.
    """

    def __init__(
        self, acker: "Acker", *, flush_before_ack: bool = True, strict: bool = False, skip_ended: bool = False
    ) -> None:
        self._broker: Any = None
        self._fetch_interval_s = IDLE_SHARE * WORKER_TIMEOUT / 1000
        self._runs = TaskRuns(
            acker,
            flush_before_ack=flush_before_ack,
            strict=strict,
            redelivery_s=self._redelivery_s,
            skip_ended=skip_ended,
        )
        self._ended: ContextVar[str] = ContextVar("acker_ended_message", default="")
        self._callbacks: OrderedDict[tuple[str, str], str | None] = OrderedDict()
        self._sending: ContextVar[Message[Any] | None] = ContextVar("acker_sending_message", default=None)

    @property
    def actor_options(self) -> set[str]:
        """The options that messages may have."""
        return {NAME, KEY}

    def before_worker_boot(self, broker: "Broker", worker: Any) -> None:
        """Refuse to start with a topology that does not fit."""
        self._broker = broker
        self._fetch_interval_s = IDLE_SHARE * worker.worker_timeout / 1000
        try:
            self._runs.topology()
        except AckerError as error:
            raise NotTracked(str(error)) from error

    def after_worker_shutdown(self, broker: "Broker", worker: Any) -> None:  # noqa: ARG002
        """Deliver the last acks."""
        self._runs.flush()

    def before_enqueue(self, broker: "Broker", message: "Message[Any]", delay: int | None) -> None:
        """Anchor a message that is sent."""
        self._broker = broker
        if self._sending.get() is message:
            return  # the broker tries again to send it, on another connection
        try:
            value = self._anchor(message, _call(message, delay_s=(delay or 0) / 1000))
        except AckerError as error:
            raise NotTracked(f"{message.actor_name} was not sent: {error}") from error
        message.options.pop(KEY, None)
        message.options.pop(NAME, None)
        if value:
            message.options[NAME] = value
            self._sending.set(message)

    def after_enqueue(self, broker: "Broker", message: "Message[Any]", delay: int | None) -> None:  # noqa: ARG002
        """Note that it was sent."""
        self._sending.set(None)

    def before_delay_message(self, broker: "Broker", message: "MessageProxy") -> None:  # noqa: ARG002
        """Keep the roots of a message alive that waits in this worker."""
        if value := message.options.get(NAME):
            until = message.options["eta"] / 1000
            self._runs.keep_alive(value, task=message.actor_name, until=until)

    def before_process_message(self, broker: "Broker", message: "MessageProxy") -> None:  # noqa: ARG002
        """Make its tuple current. Raises `SkipMessage` if all its roots have ended and such messages are skipped."""
        self._runs.begin(
            message.options.get(NAME),
            task=message.actor_name,
            task_id=message.message_id,
            given_ids=_ids([message.options.get(PIPE_TARGET)]),
            anchored_ids=_ids(message.options.get(CALLBACKS)),
        )
        if self._runs.skip_if_ended():
            raise SkipMessage("all its roots have ended")

    def after_process_message(
        self,
        broker: "Broker",  # noqa: ARG002
        message: "MessageProxy",
        *,
        result: Any = None,  # noqa: ARG002
        exception: BaseException | None = None,
    ) -> None:
        """Ack its tuple, or fail it if the actor raised and no retry was sent; a `DropTuple` drops it."""
        self._ended.set(message.message_id)
        failed, drop = None, None
        if message.failed or (exception is not None and not self._runs.was_continued()):
            failed = str(exception or "") or type(exception).__name__
            drop = exception if isinstance(exception, DropTuple) else None
        self._runs.end(failed=failed, drop=drop, flush=self._runs.flush_before_ack)

    def after_skip_message(self, broker: "Broker", message: "MessageProxy") -> None:  # noqa: ARG002
        """Ack the tuple of a message that a middleware skips, or fail it if the message failed."""
        self._ended.set(message.message_id)
        self._runs.end(failed="skipped" if message.failed else None, flush=self._runs.flush_before_ack)

    def before_ack(self, broker: "Broker", message: "MessageProxy") -> None:  # noqa: ARG002
        """Deliver the acks first, unless the end of its run has."""
        if self._runs.flush_before_ack and NAME in message.options and self._ended.get() != message.message_id:
            self._runs.flush()

    def before_nack(self, broker: "Broker", message: "MessageProxy") -> None:  # noqa: ARG002
        """Fail the tuple of a message that becomes a dead letter without a run: its actor is not known here."""
        value = message.options.get(NAME)
        if value and self._ended.get() != message.message_id:
            self._runs.fail(value, task=message.actor_name, reason="no such actor")

    def _anchor(self, message: "Message[Any]", call: Call) -> str | None:
        """Return the value that a message carries; None where it is not tracked. Raises `AckerError`."""
        run = self._runs.current()
        carried: str | None = message.options.get(NAME)
        if carried and propagate.current() is None:
            return carried  # a delayed message, which the worker moves to its queue now
        if run is not None and message.message_id == run.task_id:
            return self._runs.continue_run(run, call, publishes_more=self._has_failure_callback(message))
        if run is not None and carried and message.message_id in run.anchored_ids:
            return carried
        value = self._runs.anchor(call)
        if value:
            self._anchor_callbacks(message.options)
        return value

    def _anchor_callbacks(self, options: dict[str, Any]) -> None:
        """Anchor the callbacks of a group to what runs the group, in all of its messages and in pipelines within it.

        Not to the message that comes last: delivered again it would not send them, and so not name their edges.
        """
        if target := options.get(PIPE_TARGET):
            options[PIPE_TARGET] = target = target | {"options": dict(target["options"])}
            self._anchor_callbacks(target["options"])
        if callbacks := options.get(CALLBACKS):
            group = options["group_completion_uuid"]
            options[CALLBACKS] = [self._with_anchors(group, callback) for callback in callbacks]

    def _with_anchors(self, group: str, callback: dict[str, Any]) -> dict[str, Any]:
        if NAME in callback["options"]:
            return callback
        one = (group, callback["message_id"])
        if one not in self._callbacks:
            if len(self._callbacks) == MAX_CALLBACKS:
                self._callbacks.popitem(last=False)
            self._callbacks[one] = self._runs.anchor(_call(Message(**callback)))
        return callback | {"options": callback["options"] | {NAME: self._callbacks[one]}}

    def _has_failure_callback(self, message: "Message[Any]") -> bool:
        """Whether Dramatiq sends another message for this one after the retry."""
        options = self._broker.get_actor(message.actor_name).options
        return bool(message.options.get("on_failure") or options.get("on_failure"))

    def _redelivery_s(self) -> float:
        """Return the seconds within which `CERTAINTY` of the messages of a killed worker come again.

        With Redis they do so in a maintenance after the heartbeat's timeout. Each fetch of an idle worker is one by
        chance; other brokers have none, and wait for the connection to end.
        """
        if not hasattr(self._broker, "maintenance_chance"):
            return 0.0
        chance = min(self._broker.maintenance_chance / MAINTENANCE_SCALE, 1.0)
        if chance <= 0:
            return math.inf
        fetches = 1 if chance == 1 else math.log(1 - CERTAINTY) / math.log1p(-chance)
        return float(self._broker.heartbeat_timeout / 1000 + fetches * self._fetch_interval_s)


def _call(message: "Message[Any]", *, delay_s: float = 0.0) -> Call:
    return Call(
        task=message.actor_name,
        task_id=message.message_id,
        args=message.args,
        kwargs=message.kwargs,
        delay=delay_s,
        key=message.options.get(KEY),
    )


def _ids(messages: "Iterable[dict[str, Any] | None] | None") -> frozenset[str]:
    return frozenset(message["message_id"] for message in messages or () if message)
