"""The runs of tasks, whatever queue runs them: the edges of what they publish, and the operation that ends each."""

import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from acker_protocol.ids import format_id
from acker_protocol.routes import ANCHORS

from acker_client import propagate
from acker_client._core.names import valid_name
from acker_client._core.tuple_base import BaseTuple
from acker_client.errors import AckerError, DropTuple, OperationsLost, UnknownRoot, UsageError
from acker_client.integrations._dedupe_window import check_dedupe_window
from acker_client.integrations._timeout_keeper import TimeoutKeeper

if TYPE_CHECKING:
    from acker_protocol.anchors import Anchor

    from acker_client.sync.client import Acker
    from acker_client.topologies import Topology
    from acker_client.tuple import Tuple

NAME = "acker_anchors"
"""The name under which a queue's message carries the value of the anchors header."""
KEY = "acker_key"
"""The name of the option by which a caller gives a child its key."""
DIGEST_CHARACTERS = 16

_log = logging.getLogger("acker_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A task that is published: ``task_id`` is its message's, ``delay`` the seconds it waits, ``key`` its caller's."""

    task: str
    task_id: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any]
    delay: float = 0.0
    key: str | None = None


TupleT = TypeVar("TupleT", bound=BaseTuple)


class Run(Generic[TupleT]):
    """One run of a task whose message has anchors.

    ``given_ids`` are ids of tasks that the message itself names, such as the next one of a chain.
    ``anchored_ids`` are those that it names with their anchors, such as the callback of a group.

    ``was_continued`` says that another message carries the task on, ``is_left_open`` that it does so with this run's
    own edge, which this run must not ack then.
    """

    __slots__ = ("_calls", "anchored_ids", "given_ids", "is_left_open", "task_id", "tup", "value", "was_continued")

    def __init__(
        self,
        tup: TupleT,
        *,
        task_id: str,
        value: str,
        given_ids: frozenset[str] = frozenset(),
        anchored_ids: frozenset[str] = frozenset(),
    ) -> None:
        self.tup = tup
        self.task_id = task_id
        self.value = value
        self.given_ids = given_ids
        self.anchored_ids = anchored_ids
        self.was_continued = self.is_left_open = False
        self._calls: Counter[str] = Counter()

    def anchor_child(self, call: Call) -> str:
        """Anchor a task to this run. Raises `UsageError` once the run's own edge was given on.

        Its key is its task's name, a digest of its arguments and the number of equal calls by this run before it: the
        same in a run that makes its calls in another order. A task that the message itself names (the next of
        a chain) has results of this run among its arguments: its key leaves the digest out.
        """
        if self.is_left_open:
            raise UsageError(
                f"{call.task} is published after another message got the edge of {self.tup}: no ack would name its "
                "edge; publish it before the retry or the replacement"
            )
        return self.tup.headers(key=self._key(call))[ANCHORS]

    def anchor_continuation(self, *, publishes_more: bool = False) -> str:
        """Anchor the message that carries this run's task on: a retry or a replacement, under the same task id.

        It gets this run's own edge, and this run does not ack. Where the run has children, or may still publish some,
        it is a child instead: the ack of this run alone names their edges.
        """
        self.was_continued = True
        if self._calls or publishes_more:
            self._calls["retry"] += 1
            return self.tup.headers(key=f"retry#{self._calls['retry']}")[ANCHORS]
        self.is_left_open = True
        return self.value

    def _key(self, call: Call) -> str:
        if call.key is not None:
            self._calls[f"key:{call.key}"] += 1
            return f"key:{call.key}"
        if call.task_id in self.given_ids:
            kind = f"next:{call.task}"  # not its id: a parent that runs again draws another one
        else:
            kind = f"{call.task}:{digest(call.args, call.kwargs)}"
        self._calls[kind] += 1
        return f"{kind}#{self._calls[kind]}"


class TaskRuns:
    """The runs of this process, one at a time in each thread, task or greenlet.

    ``strict`` refuses to publish where neither a tuple nor a root is current. ``redelivery_s`` gives the seconds after
    which the queue delivers a message again that was not acked; 0 where it waits for the connection to end.
    ``skip_ended`` leaves out tasks whose roots have all ended.
    """

    def __init__(
        self,
        acker: "Acker",
        *,
        flush_before_ack: bool,
        strict: bool,
        redelivery_s: Callable[[], float],
        skip_ended: bool = False,
    ) -> None:
        self.acker = acker
        self.flush_before_ack = flush_before_ack
        self._strict = strict
        self._redelivery_s = redelivery_s
        self._skip_ended = skip_ended
        self._current: ContextVar[Run[Tuple] | None] = ContextVar("acker_task_run", default=None)
        self._topology: Topology | None = None
        self._keeper = TimeoutKeeper(self.topology)

    def current(self) -> "Run[Tuple] | None":
        """Return the run whose tuple is current; None where another tuple, a root or nothing is."""
        run = self._current.get()
        return run if run is not None and run.tup is propagate.current() else None

    def is_running(self) -> bool:
        """Whether a tracked task runs here."""
        return self._current.get() is not None

    def was_continued(self) -> bool:
        """Whether another message carries the task of this run on."""
        run = self._current.get()
        return run is not None and run.was_continued

    def topology(self) -> "Topology":
        """Return the topology, once it fits the queue. Raises `UsageError` for a dedupe window that is too short."""
        if self._topology is None:
            topology = self.acker.topologies.get(self.acker.topology)
            check_dedupe_window(topology, redelivery_s=self._redelivery_s(), flush_before_ack=self.flush_before_ack)
            self._topology = topology
        return self._topology

    def begin(
        self,
        value: str | None,
        *,
        task: str,
        task_id: str,
        given_ids: frozenset[str] = frozenset(),
        anchored_ids: frozenset[str] = frozenset(),
    ) -> None:
        """Make the tuple of a message current; nothing is, for a message without anchors. Raises `InvalidHeader`."""
        run = None
        if value:
            tup = self._receive(value, task)
            run = Run(tup, task_id=task_id, value=value, given_ids=given_ids, anchored_ids=anchored_ids)
        self._current.set(run)
        propagate.enter(None if run is None else run.tup)

    def skip_if_ended(self) -> bool:
        """Close the tuple of this run if its task is not to be run, since all its roots have ended; True if so."""
        run = self._current.get()
        return self._skip_ended and run is not None and run.tup.skip_if_ended()

    def end(
        self, *, failed: str | None = None, drop: DropTuple | None = None, left_open: bool = False, flush: bool = False
    ) -> bool:
        """Ack the tuple of this run, drop it (report, count and ack it), or fail it; False if there is none.

        Nothing is sent where its task goes on in another message, or ``left_open``: the queue delivers it again. With
        ``flush`` all acks are delivered before this returns, as by `flush`.
        """
        run = self._current.get()
        self._current.set(None)
        propagate.leave(None)
        if run is None:
            return False
        is_open = not (left_open or run.is_left_open or run.tup.closed)
        if is_open and drop is None and failed is None:
            _until_closed(run.tup, partial(run.tup.ack, flush=flush))
            return True
        if is_open and drop is not None:
            self.flush()  # so that the ack raises nothing of earlier ones
            _drop(run.tup, drop)
        elif is_open:
            _until_closed(run.tup, partial(run.tup.fail, failed))
        if flush:
            self.flush()
        return True

    def fail(self, value: str, *, task: str, reason: str) -> None:
        """Fail the tuple of a message that no run will end."""
        tup = self._receive(value, task)
        _until_closed(tup, partial(tup.fail, reason))

    def flush(self) -> None:
        """Deliver the acks before the queue forgets the message: a death in between would leave its edge open.

        What is lost is logged; its roots time out.
        """
        try:
            self.acker.flush()
        except AckerError:
            _log.exception("acks were lost: their roots time out")

    def anchor(self, call: Call) -> str | None:
        """Anchor a published task to what is current; None where nothing is tracked. Raises `UsageError`."""
        parent = propagate.current()
        if parent is None:
            if self._strict:
                raise UsageError(f"{call.task} is published where neither a tuple nor a root is current (strict=True)")
            return None
        self.topology()
        run = self.current()
        value = parent.headers(call.key).get(ANCHORS) if run is None else run.anchor_child(call)
        self._reset_for(run, call)
        return value

    def check_held(self, call: Call) -> None:
        """Raise `UsageError` if what is current times out while the broker holds a task, which no worker sees then."""
        topology, parent = self.topology(), propagate.current()
        if isinstance(parent, BaseTuple):
            if call.delay <= self._keeper.interval_s():
                return
            cast("Tuple", parent).reset_timeout()
            until = min(map(self._deadline, parent.anchors.anchors), default=math.inf)
        else:
            until = time.time() + (getattr(parent, "message_timeout", None) or topology.message_timeout)
        if time.time() + call.delay >= until:
            raise UsageError(
                f"{call.task} is to wait for {call.delay:g} s, and RabbitMQ itself holds it (a quorum queue whose "
                "exchange is not direct), so no worker resets the timeout of its roots, which is over then: make the "
                "message timeout longer than the delay, or the exchange of the queue direct, as "
                "task_default_exchange_type is by default"
            )

    def continue_run(self, run: "Run[Tuple]", call: Call, *, publishes_more: bool = False) -> str:
        """Anchor the message that carries a run's task on."""
        value = run.anchor_continuation(publishes_more=publishes_more)
        self._reset_for(run, call)
        return value

    def keep_alive(self, value: str, *, task: str, until: float) -> None:
        """Reset the timeout of a message's roots while this process holds it until a Unix time."""
        if until - time.time() > self._keeper.interval_s():
            self._keeper.keep(self._receive(value, task), until=until)

    def _receive(self, value: str, task: str) -> "Tuple":
        tup = self.acker.receive({ANCHORS: value}, component=valid_name(task))
        tup.derive_as(task)
        return tup

    def _deadline(self, anchor: "Anchor") -> float:
        """Return the Unix time at which a root times out, never for one that is over."""
        try:
            root = self.acker.roots.get(format_id(anchor.root_id))
        except UnknownRoot:
            return math.inf
        if root.state == "finished":
            return math.inf
        return root.deadline_at or time.time() + self.topology().message_timeout

    def _reset_for(self, run: "Run[Tuple] | None", call: Call) -> None:
        if run is not None and call.delay > self._keeper.interval_s():
            run.tup.reset_timeout()


def digest(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Digest arguments; what JSON does not know counts by its ``repr``, so it may differ in each run."""
    text = json.dumps([list(args), dict(kwargs)], sort_keys=True, default=repr, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def _drop(tup: "Tuple", drop: DropTuple) -> None:
    with tup:
        raise drop


def _until_closed(tup: "Tuple", operation: Callable[[], Any]) -> None:
    """Call the operation that ends a tuple; again if it did nothing but raise what earlier acks came to.

    What it raises once the tuple is closed is an error of what it has flushed, and logged as by `TaskRuns.flush`.
    """
    for is_last in (False, True):
        try:
            operation()
        except AckerError as error:
            if not tup.closed and (is_last or not isinstance(error, OperationsLost)):
                raise
            _log.exception("acks were lost: their roots time out")
        if tup.closed:
            return
