"""The spout tasks of a client: the flows that emit roots, and the readers of completions."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

from acker_protocol.operations import REFUSED, Init

from acker_client._core.hot_path import open_batch
from acker_client._core.mailbox import MailboxReader, ReadOptions
from acker_client._core.spout_task import SpoutTask
from acker_client.root import EmitOptions, Root

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from acker_protocol.operations import OperationState

    from acker_client._core.batch import Batch
    from acker_client._core.effects import Flow, Remaining
    from acker_client._core.pubsub_reader import PubSubReader
    from acker_client._core.requests import OperationResult
    from acker_client._core.spout_task import Handled
    from acker_client._core.submitter import Submitter
    from acker_client._core.subscription import Connect
    from acker_client.config import ClientConfig


class Spouts:
    """The spout tasks of one client, one object for each name."""

    def __init__(self, submitter: "Submitter") -> None:
        self._submitter = submitter
        self._session = submitter.session
        self._tasks: dict[str, SpoutTask] = {}
        self._root_class: type[Root] = Root
        self._handled: Handled | None = None

    @property
    def config(self) -> "ClientConfig":
        """The configuration of the client."""
        return self._session.config

    def task(self, name: str, *, own: bool) -> SpoutTask:
        """Return the spout task of this name."""
        return self._tasks.setdefault(name, SpoutTask(self._session, name=name, own=own, handled=self._handled))

    def observe(self, root_class: type[Root], handled: "Handled | None") -> None:
        """Make roots of this class from now on, and call ``handled`` with completions that were handled."""
        self._root_class = root_class
        self._handled = handled
        for task in self._tasks.values():
            task.handled = handled

    def after_fork(self) -> None:
        """Leave the spout tasks to the parent of a fork: it awaits their roots, and reads the names of its own."""
        for task in self._tasks.values():
            task.after_fork()
        self._tasks = {name: task for name, task in self._tasks.items() if not task.own}

    def make_root(self, task: SpoutTask, options: EmitOptions, *, attempt: int = 1) -> Root:
        """Make a root, which is to be admitted. Raises `OperationsLost` and `UsageError`."""
        self._submitter.flusher.buffer.raise_failures()
        task.check_not_forked()
        return self._root_class(topology=self._session.topology, spout_task=task.name, options=options, attempt=attempt)

    def admit_root(self, task: SpoutTask, root: Root) -> "Remaining[None]":
        """Let a root be emitted, once there is a free slot for it. Raises `MaxSpoutPending`."""
        return task.admit(in_batch=open_batch(self._submitter) is not None) if root.tracked else None

    def commit_root(self, task: SpoutTask, root: Root) -> "Remaining[list[OperationState]]":
        """Send the init of a root whose block ended without an exception; an open batch collects it."""
        batch = open_batch(self._submitter)
        if batch is None:
            return self._send_init(task, root)
        if root.tracked:
            task.track(root)
        batch.operations.add(root.init_operation(self._submitter.is_traced))
        task.release()
        return None

    @contextmanager
    def root_scope(self, task: SpoutTask, root: Root) -> "Iterator[Root]":
        """Keep a root open and current for its emit block; an exception there frees its slot."""
        root.begin_block()
        try:
            yield root
        except BaseException:
            task.release()
            raise
        finally:
            root.end_block()

    def send_batch(self, batch: "Batch") -> "Flow[None]":
        """Send a batch; roots that were refused are not followed."""
        try:
            yield from self._submitter.send_batch(batch)
        finally:
            self._note_results(batch.results)

    def mailbox(self, task: SpoutTask, options: ReadOptions) -> MailboxReader:
        """Begin to read a spout task's completions. Raises `UsageError`."""
        task.check_not_forked()
        return MailboxReader(self._session, task=task, options=options)

    def pubsub_reader(
        self, task: SpoutTask, redis_url: str, connect: "Connect", options: ReadOptions
    ) -> "PubSubReader":
        """Begin to read a spout task's completions as Redis publishes them. Raises `UsageError`."""
        from acker_client._core.pubsub_reader import PubSubReader  # noqa: PLC0415 - few programs subscribe
        from acker_client._core.subscription import Subscription, spout_channel  # noqa: PLC0415

        task.check_not_forked()
        channel = spout_channel(
            redis_url,
            topology=self._session.topology,
            spout_task=task.name,
            timeout_s=self._session.config.request_timeout,
        )
        return PubSubReader(self._session, task=task, subscription=Subscription(channel, connect), options=options)

    def _send_init(self, task: SpoutTask, root: Root) -> "Flow[list[OperationState]]":
        if root.tracked:
            task.track(root)
        try:
            states = yield from self._submitter.send(root.init_operation(self._submitter.is_traced))
        except BaseException:
            task.pending.drop(root.root_id)
            raise
        finally:
            task.release()
        task.pending.begin(root.root_id)
        return states

    def _note_results(self, results: "Iterable[OperationResult]") -> None:
        """Note which roots of a batch have begun, and follow those no more that were refused."""
        for result in results:
            if isinstance(result.operation, Init):
                task, root_id = self._tasks[result.operation.spout_task], result.operation.root_id
                if result.state in REFUSED:
                    task.drop_refused(f"{root_id:016x}")
                elif task.pending:
                    task.pending.begin(f"{root_id:016x}")
