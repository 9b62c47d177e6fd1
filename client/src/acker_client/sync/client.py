"""The client for programs of threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Self

from acker_client._client_base import BaseClient
from acker_client._core.batch import Batch, collecting
from acker_client._core.collection import DEFAULT_SPOUT, Collection
from acker_client._transport import Endpoint
from acker_client.config import DEFAULT_TOPOLOGY, SYSTEM_CLOCK, ClientConfig
from acker_client.propagate import use
from acker_client.sync.driver import Driver
from acker_client.sync.spout import Spout
from acker_client.tuple import Tuple

if TYPE_CHECKING:
    from acker_protocol.anchors import Headers
    from acker_protocol.operations import OperationState

    from acker_client._core.effects import Flow
    from acker_client._core.submitter import OnDrop
    from acker_client._http_library import Transport
    from acker_client.config import Clock, OnError, OnFull
    from acker_client.failures import Failures
    from acker_client.root import EndOnName
    from acker_client.roots import Roots
    from acker_client.spout_tasks import SpoutTasks
    from acker_client.topologies import Topologies


class Acker(BaseClient):
    """The acker at ``url``, for one topology and any number of threads.

    Close it, or use it as a context manager. ::

        with Acker("http://127.0.0.1:8700", topology="orders") as acker:
            with acker.receive(headers, component="split") as tup:
                queue.send(word, headers=tup.headers(key="0"))

    ``api_key`` is sent as a bearer token. `ClientConfig` says what the further keywords mean; times are in seconds.
    ``on_drop`` is called with the tuple and the `DropTuple` (by default a warning is logged); with a
    ``transport``, which is a transport or a client of httpx or httpx2, requests go by it; a client stays open.

    Acks wait for ``linger`` and are sent together, at the latest by ``flush()``, ``close()`` and at the end of the
    interpreter. What cannot be delivered is counted, and raised by the next call as `OperationsLost`. After a fork the
    parent keeps what is buffered, and the child begins empty.
    """

    def __init__(
        self,
        url: str,
        topology: str = DEFAULT_TOPOLOGY,
        api_key: str | None = None,
        *,
        retry_timeout: float = 60.0,
        emit_timeout: float = 30.0,
        request_timeout: float = 10.0,
        startup_timeout: float | None = 5.0,
        linger: float = 0.005,
        batch_size: int = 1_000,
        buffer_size: int = 10_000,
        on_full: "OnFull" = "block",
        on_drop: "OnDrop | None" = None,
        transport: "Transport | None" = None,
        clock: "Clock" = SYSTEM_CLOCK,
    ) -> None:
        config = ClientConfig(
            retry_timeout=retry_timeout,
            emit_timeout=emit_timeout,
            request_timeout=request_timeout,
            startup_timeout=startup_timeout,
            linger=linger,
            batch_size=batch_size,
            buffer_size=buffer_size,
            on_full=on_full,
            clock=clock,
        )
        endpoint = Endpoint(url=url, api_key=api_key, transport=transport)
        self._driver = Driver(endpoint, config)
        super().__init__(
            topology, endpoint=endpoint, config=config, on_drop=on_drop, driver=self._driver, tuple_class=Tuple
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def flush(self) -> None:
        """Send what is buffered, and return when all of it is answered. Raises `OperationsLost`."""
        self._driver.flush(self._submitter.flusher)

    def close(self) -> None:
        """Flush, and close the connections. Raises `OperationsLost`.

        An ack that waits for space, or comes later, raises `ClientClosed`, and its tuple stays open.
        """
        self._submitter.flusher.close()
        try:
            self.flush()
        finally:
            self._driver.close()

    @cached_property
    def topologies(self) -> "Topologies":
        """The topologies of the service: create, get, update, delete."""
        from acker_client.topologies import Topologies  # noqa: PLC0415 - few programs need it

        return Topologies(self._session, self._driver.run)

    @cached_property
    def roots(self) -> "Roots":
        """The roots of the topology: get, fail."""
        from acker_client.roots import Roots  # noqa: PLC0415 - few programs need it

        return Roots(self._session, self._driver.run)

    @cached_property
    def spouts(self) -> "SpoutTasks":
        """The spout tasks of the topology: list, get, delete; their callbacks and dead letters."""
        from acker_client.spout_tasks import SpoutTasks  # noqa: PLC0415 - few programs need it

        return SpoutTasks(self._session, self._driver.run)

    @cached_property
    def failures(self) -> "Failures":
        """The roots of the topology that failed or timed out: list."""
        from acker_client.failures import Failures  # noqa: PLC0415 - few programs need it

        return Failures(self._session, self._driver.run)

    def spout(self, name: str) -> Spout:
        """Return a spout task of this process alone: its name is ``name`` with the host and the process added.

        It is ephemeral: the service removes it some time after the process has ended.
        """
        return Spout(task=self._own_spout_task(name), spouts=self._spouts, driver=self._driver)

    def shared_spout(self, name: str) -> Spout:
        """Return the spout task of just this name, for processes that emit while one of them, or a webhook, reads."""
        return Spout(task=self._shared_spout_task(name), spouts=self._spouts, driver=self._driver)

    def receive(
        self, headers: "Headers", *, component: str, on_error: "OnError" = "fail", repeatable: bool = False
    ) -> Tuple:
        """Return the tuple of a received message; without the anchors header it is not tracked.

        With ``with`` it is current in the block (`acker_client.propagate`) and acked when the block ends. If the block
        raises, ``on_error="fail"`` fails the tuple, and ``"leave_open"`` sends nothing: the message has to be
        redelivered. Without ``with``, end it by its ``ack()`` or ``fail()``.

        ``repeatable=True`` promises that a re-run makes the same children in the same order: then children without a
        key have the same edges again. Raises `InvalidHeader` for a header that cannot be read or is of another
        topology, and `UsageError`.
        """
        received: Tuple = self._context.receive(headers, component, on_error, repeatable)
        return received

    def ack(self, tup: Tuple, *, flush: bool = False) -> "list[OperationState]":
        """Ack a tuple: with ``linger=0`` one state per anchor, else an empty list, since the acks are sent later.

        ``flush=True`` sends what is buffered now, as `flush` does: it costs less than the two calls. Waits where the
        buffer is full, or raises `BufferFull`. Raises `OperationsLost` for earlier acks, and then does nothing; with
        ``flush`` also for what it has flushed, and then the tuple is closed.
        """
        remaining = self._context.ack(tup, flush)
        states = [] if remaining is None else self._driver.run(remaining)
        if flush:
            self._driver.flush(self._submitter.flusher)
        return states

    def fail(self, tup: Tuple, *, reason: str | None = None) -> "list[OperationState]":
        """Fail every root of a tuple, now: one state per root, an empty list where a batch collects them."""
        return self._driver.run(self._submitter.fail(tup, reason=reason))

    def reset_timeout(self, tup: Tuple) -> "list[OperationState]":
        """Return every root of a tuple its message timeout again, one state per root; at once, also within a batch."""
        return self._driver.run(self._submitter.reset_timeout(tup))

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Collect all acks, fails and inits of the block, in this thread, and send them together when it ends.

        After an exception too, since each operation was complete; not at an end of the program. Raises `BatchError` for
        those not accepted. What was not sent times out and is replayed.
        """
        try:
            with collecting(self._submitter) as batch:
                yield batch
        except Exception:
            self._driver.run(self._spouts.send_batch(batch))
            raise
        self._driver.run(self._spouts.send_batch(batch))

    @contextmanager
    def collect(
        self,
        message_id: str,
        *,
        spout: str = DEFAULT_SPOUT,
        message_timeout: float | None = None,
        end_on: "EndOnName | None" = None,
    ) -> Iterator[Collection]:
        """Collect a batch under one root: it completes when the block has ended and all children are acked.

        ``spout`` is the shared spout task whose reader gets the completion. The init is sent before the block, with one
        edge that holds the root open; the end of the block acks that edge with all children. The timeout is reset
        meanwhile. If the block raises, the root fails; if the process dies, it times out. The batch is current in its
        block (`acker_client.propagate`).

        With ``end_on="all_ended"`` a child that fails does not end the batch: it completes as above, and says how many
        failed. A block that raises counts as one of them.
        """
        from acker_client.sync.keep_alive import kept_alive  # noqa: PLC0415 - few programs need it

        with self.shared_spout(spout).emit(message_id, message_timeout=message_timeout, end_on=end_on) as root:
            held = root.headers()
        tup = self.receive(held, component=spout)
        collection = Collection(tup, message_id=message_id, root_id=root.root_id)
        with tup, kept_alive(tup, topologies=self.topologies, roots=self.roots), use(collection):
            try:
                yield collection
            finally:
                collection.seal()
        self.flush()

    def _reset_driver(self) -> None:
        self._driver.reset()

    def _run_at_exit(self, flow: "Flow[None]") -> None:
        self._driver.run(flow)
