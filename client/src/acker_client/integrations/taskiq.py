"""Tracks tasks of taskiq: all tasks that grow out of a root are one tree. ::

    broker = AioPikaBroker(url).with_middlewares(AckerMiddleware(acker))

    async with spout.emit(message_id="42"):
        await resize.kiq("a.png")  # and whatever it starts, and its retries

The anchors travel in a label, so that the other side need not be taskiq. Needs ``acker-client[taskiq]``.
"""

import logging
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_protocol.routes import ANCHORS
from taskiq import TaskiqMiddleware
from taskiq.exceptions import NoResultError

from acker_client import propagate
from acker_client._core.names import valid_name
from acker_client.errors import AckerError, DropTuple, OperationsLost, UsageError
from acker_client.integrations._dedupe_window import check_dedupe_window
from acker_client.integrations._task_runs import KEY, Call, Run

if TYPE_CHECKING:
    from typing import Any

    from taskiq import TaskiqMessage, TaskiqResult

    from acker_client.asyncio.client import AsyncAcker
    from acker_client.tuple import AsyncTuple

__all__ = ["AckerMiddleware"]

_log = logging.getLogger("acker_client")


@dataclass(slots=True, kw_only=True)
class _Execution:
    """One execution of a task: its run, what was current around it, what it has raised, and whether it is skipped."""

    run: "Run[AsyncTuple] | None"
    around: propagate.AnchorParent | None
    raised: BaseException | None = None
    is_skipped: bool = False


class AckerMiddleware(TaskiqMiddleware):
    """Makes every task that runs a tuple, and every task that is started a child of what is current.

    A task that is delivered again has the same edge, and so have the tasks that it starts: each is known by its name,
    its arguments and the number of equal ones before it. For calls whose arguments differ between runs give a key:
    ``report.kicker().with_labels(acker_key="report").kiq(now())``.

    With ``flush_before_ack`` the ack of a tuple is delivered before taskiq acks the message, and the topology needs a
    dedupe window; else a worker does not start, and starting a task raises `UsageError`. ``strict`` refuses to start
    tasks where neither a tuple nor a root is current. ``skip_ended`` does not run tasks whose roots have all ended, and
    counts them in ``acker.stats().skipped``.

    It lets no error of the acker out of a hook of the worker, since taskiq would then neither ack the message nor give
    it back: acks that cannot be delivered are logged, and their roots time out.
    """

    def __init__(
        self, acker: "AsyncAcker", *, flush_before_ack: bool = True, strict: bool = False, skip_ended: bool = False
    ) -> None:
        super().__init__()
        self.acker = acker
        self.flush_before_ack = flush_before_ack
        self.strict = strict
        self.skip_ended = skip_ended
        self._execution: ContextVar[_Execution | None] = ContextVar("acker_taskiq_execution", default=None)
        self._fits = False

    async def startup(self) -> None:
        """Refuse to start a worker with a topology that does not fit."""
        if self.broker.is_worker_process:
            await self._check_topology()

    async def shutdown(self) -> None:
        """Deliver the last acks."""
        await self._flush()

    async def pre_send(self, message: "TaskiqMessage") -> "TaskiqMessage":
        """Anchor a task that is started. Raises `UsageError`."""
        key = message.labels.pop(KEY, None)
        parent = propagate.current()
        if parent is None:
            if self.strict and ANCHORS not in message.labels:
                raise UsageError(
                    f"{message.task_name} is started where neither a tuple nor a root is current (strict=True)"
                )
            return message  # with the anchors of one that was scheduled
        message.labels.pop(ANCHORS, None)
        run = self._run()
        if run is None:
            await self._check_topology()
            message.labels.update(parent.headers(key))
        elif message.task_id != run.task_id:
            await self._check_topology()
            message.labels[ANCHORS] = run.anchor_child(_call(message, key))
        elif not run.tup.closed:  # a retry; others may follow in the same error
            message.labels[ANCHORS] = run.anchor_continuation(publishes_more=True)
        return message

    async def pre_execute(self, message: "TaskiqMessage") -> "TaskiqMessage":
        """Make the tuple of a task current; nothing is, for a task without anchors."""
        run = self._receive(message)
        around = propagate.enter(None if run is None else run.tup)
        execution = _Execution(run=run, around=around)
        self._execution.set(execution)
        if self.skip_ended and run is not None and await run.tup.skip_if_ended():
            execution.is_skipped = True
            self._make_skippable(message.task_name)
        return message

    async def on_error(
        self,
        message: "TaskiqMessage",  # noqa: ARG002
        result: "TaskiqResult[Any]",  # noqa: ARG002
        exception: BaseException,
    ) -> None:
        """Note what a task has raised, before another middleware replaces it."""
        execution = self._execution.get()
        if execution is not None:
            execution.raised = exception

    async def post_execute(self, message: "TaskiqMessage", result: "TaskiqResult[Any]") -> None:  # noqa: ARG002
        """End the tuple before taskiq acks the message."""
        execution = self._execution.get()
        if execution is None:
            return
        self._execution.set(None)
        propagate.leave(execution.around)
        if execution.run is not None:
            try:
                await _end(execution.run, execution.raised, result.error)
            except AckerError:
                _log.exception("a tuple was not ended: its roots time out")
            if self.flush_before_ack:
                await self._flush()

    def _make_skippable(self, name: str) -> None:
        """Let taskiq get `_skip` for the function of a task in executions that are skipped.

        No hook of a middleware keeps a task from running; but taskiq reads the function after ``pre_execute``.
        """
        task = self.broker.find_task(name)
        if task is None or isinstance(vars(type(task)).get("original_func"), property):
            return
        own, kind = task.original_func, type(task)
        function = property(lambda _: _skip if self._is_skipped() else own)
        task.__class__ = type(kind.__name__, (kind,), {"original_func": function})

    def _is_skipped(self) -> bool:
        execution = self._execution.get()
        return execution is not None and execution.is_skipped

    def _run(self) -> "Run[AsyncTuple] | None":
        """Return the run whose tuple is current."""
        execution = self._execution.get()
        run = None if execution is None else execution.run
        return run if run is not None and run.tup is propagate.current() else None

    def _receive(self, message: "TaskiqMessage") -> "Run[AsyncTuple] | None":
        name = message.task_name
        try:
            if propagate.extract(message.labels) is None:
                return None
            tup = self.acker.receive(message.labels, component=valid_name(name.rpartition(":")[2]))
        except AckerError:
            _log.exception("the anchors of task %s cannot be read: it runs, and its tree times out", name)
            return None
        tup.derive_as(name)
        return Run(tup, task_id=message.task_id, value=str(message.labels[ANCHORS]))

    async def _check_topology(self) -> None:
        """Raise `UsageError` for a topology without a dedupe window, once; where no acker answers, later."""
        if self._fits:
            return
        try:
            topology = await self.acker.topologies.get(self.acker.topology)
        except AckerError as error:
            _log.warning("it is not known yet whether the topology has a dedupe window: %s", error)
        else:
            check_dedupe_window(topology, redelivery_s=0, flush_before_ack=self.flush_before_ack)
            self._fits = True

    async def _flush(self) -> None:
        try:
            await self.acker.flush()
        except AckerError:
            _log.exception("acks were lost: their roots time out")


async def _skip(*_: object, **__: object) -> None:
    """Run instead of a task that is skipped: its message is acked, and it has no result."""
    raise NoResultError


async def _end(run: "Run[AsyncTuple]", raised: BaseException | None, error: BaseException | None) -> None:
    """Ack, fail or drop the tuple of a run; leave it open if a middleware sends a retry that carries its edge."""
    tup = run.tup
    if tup.closed:
        return
    if isinstance(error, NoResultError) and raised is not error and not run.was_continued:
        return  # the retry is scheduled, and carries the edge of this run
    if isinstance(error, DropTuple):
        async with tup:
            raise error
    acked = error is None or run.was_continued or isinstance(error, NoResultError)
    for _ in range(2):  # again if it did nothing but raise what earlier acks came to
        try:
            await (tup.ack() if acked else tup.fail(str(error) or type(error).__name__))
        except OperationsLost:
            _log.exception("acks were lost: their roots time out")
        else:
            return


def _call(message: "TaskiqMessage", key: str | None) -> Call:
    return Call(task=message.task_name, task_id=message.task_id, args=message.args, kwargs=message.kwargs, key=key)
