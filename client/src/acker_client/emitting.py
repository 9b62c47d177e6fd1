"""Knows how roots are emitted and how their spout tasks are read, as flows for a driver."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

from acker_protocol.operations import REFUSED, Init
from acker_protocol.redis_url import read_redis_url
from acker_protocol.routes import channel

from acker_client.batching import open_batch
from acker_client.errors import Misuse
from acker_client.mailbox import Mailbox, Pages, Reading
from acker_client.roots import Emission, Root
from acker_client.spout_tasks import SpoutTask
from acker_client.subscriber import Subscriber
from acker_client.subscription import Open, Station, Subscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from acker_client.batching import Batch
    from acker_client.calls import Answer
    from acker_client.flows import Flows, Words
    from acker_client.steps import Flow
    from acker_client.terms import Terms


class Emitting:
    """The spout tasks of one acker, each one time however often it is asked for."""

    def __init__(self, flows: "Flows") -> None:
        self._flows = flows
        self._exchange = flows.exchange
        self._tasks: dict[str, SpoutTask] = {}

    @property
    def terms(self) -> "Terms":
        """The terms on which roots are emitted."""
        return self._exchange.terms

    def task(self, name: str, *, own: bool) -> SpoutTask:
        """Give the spout task of this name."""
        return self._tasks.setdefault(name, SpoutTask(self._exchange, name=name, own=own))

    def start_anew(self) -> None:
        """Leave the spout tasks to the parent of a fork: it waits for their roots, and reads the names of its own."""
        for task in self._tasks.values():
            task.leave_to_parent()
        self._tasks = {name: task for name, task in self._tasks.items() if not task.own}

    def begin(self, task: SpoutTask, emission: Emission, *, attempt: int = 1) -> "Flow[Root]":
        """Take a new root into the hand, once there is a place for it; those of a batch find theirs on leaving it.

        Raises `Misuse` for what no init may say.
        """
        self._flows.lingering.outbox.tell()
        task.refuse_parents()
        root = Root(topology=self._exchange.topology, spout_task=task.name, emission=emission, attempt=attempt)
        if root.tracked:
            yield from task.register() if open_batch(self._flows) is not None else task.enter()
        return root

    def end(self, task: SpoutTask, root: Root) -> "Flow[Words]":
        """Place a root whose block was left without an exception."""
        if root.tracked:
            task.hold(root)
        try:
            return (yield from self._flows.apply(root.take_init()))
        except BaseException:
            task.pending.drop(root.root_id)
            raise
        finally:
            task.leave()

    @contextmanager
    def open(self, task: SpoutTask, root: Root) -> "Iterator[Root]":
        """Keep a root open for its emit block; an exception there gives its place back."""
        try:
            yield root
        except BaseException:
            task.leave()
            raise
        finally:
            root.close()

    def deliver(self, batch: "Batch") -> "Flow[None]":
        """Send a batch; the roots that found no place are not waited for."""
        try:
            yield from self._flows.deliver(batch)
        finally:
            self._drop(batch.answers)

    def mailbox(self, task: SpoutTask, reading: Reading) -> Mailbox:
        """Begin to read a spout task's completions. Raises `Misuse`."""
        task.refuse_parents()
        return Mailbox(self._exchange, task=task, reading=reading)

    def subscriber(self, task: SpoutTask, redis_url: str, open_wire: "Open", pages: Pages) -> Subscriber:
        """Begin to be told a spout task's completions by Redis. Raises `Misuse`."""
        task.refuse_parents()
        try:
            place = read_redis_url(redis_url)
        except ValueError as fault:
            raise Misuse(str(fault)) from None
        station = Station(
            url=redis_url,
            place=place,
            channel=channel(self._exchange.topology, task.name),
            patience_s=self._exchange.terms.timeout_s,
        )
        subscription = Subscription(station, open_wire)
        return Subscriber(self._exchange, task=task, subscription=subscription, **pages)

    def _drop(self, answers: "Iterable[Answer]") -> None:
        for answer in answers:
            if isinstance(answer.message, Init) and answer.word in REFUSED:
                self._tasks[answer.message.spout_task].pending.drop(f"{answer.message.root_id:016x}")
