"""The connections of a `SparkAcker`: opened when first needed, and left out when it is pickled."""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from acker_spark._batch.heartbeat import Heartbeat
from acker_spark._batch.listener import CompletionListener
from acker_spark._batch.sender import OperationSender

if TYPE_CHECKING:
    import httpx
    from acker_client.config import Clock

    from acker_spark._batch.run import BatchReport
    from acker_spark._batch.topology import Topology
    from acker_spark.options import SparkAckerOptions

BEATS_PER_TIMEOUT = 3


class _ClientBase:
    """Has the connections to an acker; after `close` they open again when needed."""

    _sender: OperationSender | None
    _heartbeat_client: OperationSender | None
    _topology: "Topology | None"
    listener: CompletionListener
    """Reads the completions of the spout task."""

    def __init__(
        self,
        options: "SparkAckerOptions",
        *,
        on_batch: "Callable[[BatchReport], object] | None",
        transport: "httpx.BaseTransport | None",
        clock: "Clock",
    ) -> None:
        self.options = options
        self._on_batch = on_batch
        self._transport = transport
        self._clock = clock
        self._lock = Lock()
        self._disconnect()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the connections out: Spark Connect runs the function of a batch in another process."""
        left_out = ("_lock", "_sender", "_heartbeat_client", "_topology", "listener")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()
        self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and end the loops over completions; later calls open connections again."""
        with self._lock:
            self.listener.close()
            opened = self._sender, self._heartbeat_client
            self._disconnect()
        for sender in opened:
            if sender is not None:
                sender.close()

    @property
    def sender(self) -> OperationSender:
        """The sender for all threads and queries."""
        with self._lock:
            if self._sender is None:
                self._sender = self._open(self.options.retry_timeout, startup_timeout=self.options.startup_timeout)
            return self._sender

    @property
    def heartbeat_client(self) -> OperationSender:
        """A sender for heartbeats, which repeats a request only until the next heartbeat.

        An acker has answered before the first: one that is away then comes back.
        """
        retry_timeout = self.heartbeat_interval
        with self._lock:
            if self._heartbeat_client is None:
                self._heartbeat_client = self._open(retry_timeout, startup_timeout=None)
            return self._heartbeat_client

    @property
    def topology(self) -> "Topology":
        """The topology, read when first needed. Raises `IncompatibleTopology`."""
        found = self._topology
        if found is None:
            found = self._topology = self.sender.topology()
        return found

    @property
    def heartbeat_interval(self) -> float:
        """The seconds between two heartbeats of a batch."""
        timeout_ms = self.options.message_timeout_ms or self.topology.message_timeout_ms
        return timeout_ms / 1000 / BEATS_PER_TIMEOUT

    def heartbeat(self, beat: Callable[[], object]) -> Heartbeat:
        """Make the heartbeat of a batch, three for each message timeout."""
        return Heartbeat(beat, every=self.heartbeat_interval, lasting=self.options.heartbeat_for)

    def report(self, report: "BatchReport") -> None:
        """Call ``on_batch``."""
        if self._on_batch is not None:
            self._on_batch(report)

    def _open(self, retry_timeout: float, *, startup_timeout: float | None) -> OperationSender:
        return OperationSender(
            self.options,
            retry_timeout=retry_timeout,
            startup_timeout=startup_timeout,
            transport=self._transport,
            clock=self._clock,
        )

    def _disconnect(self) -> None:
        self._sender = None
        self._heartbeat_client = None
        self._topology = None
        self.listener = CompletionListener(self.options)
