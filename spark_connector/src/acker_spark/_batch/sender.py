"""Sends the operations of batches: in packed requests, each repeated with its idempotency key until answered.

While Redis applies one request the next is encoded here: a large batch goes out in several requests at a time.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from acker_client import OperationResult
from acker_client.config import SYSTEM_CLOCK, Clock
from acker_client.lowlevel import Session
from acker_protocol.operations import NOT_ADMITTED, Init

from acker_spark._batch.topology import Topology, read_or_create
from acker_spark.errors import PendingLimit

if TYPE_CHECKING:
    import httpx
    from acker_protocol.operations import Operation

    from acker_spark.options import SparkAckerOptions

REQUEST_SIZE, PARALLEL_REQUESTS = 2_500, 2
"""So many operations go in one request where there are more, and so many requests are in flight at a time."""


class OperationSender:
    """Sends operations to one topology, for any number of threads."""

    def __init__(
        self,
        options: "SparkAckerOptions",
        *,
        retry_timeout: float,
        startup_timeout: float | None,
        transport: "httpx.BaseTransport | None" = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._options = options
        self._session = Session(
            url=options.url,
            topology=options.topology,
            api_key=options.token,
            retry_timeout=retry_timeout,
            startup_timeout=startup_timeout,
            transport=transport,
            clock=clock,
        )

    def topology(self) -> Topology:
        """Read the topology, and create it if it does not exist. Raises `IncompatibleTopology`."""
        return read_or_create(self._session, self._options)

    def send(
        self, operations: Sequence["Operation"], *, on_sent: Callable[[int], object] = lambda _: None
    ) -> "list[OperationResult]":
        """Apply operations and return their results, in order; those that are not admitted are repeated.

        Only up to `REQUEST_SIZE` operations are applied in order: of more than these none may depend on another. They
        are several requests; ``on_sent`` gets the number of operations of each when it is answered. Raises
        `PendingLimit` for an ack or a fail that was refused until the end of the retries.
        """
        if len(operations) <= REQUEST_SIZE:
            return self._apply(operations) if operations else []
        parts = [operations[at : at + REQUEST_SIZE] for at in range(0, len(operations), REQUEST_SIZE)]
        found: list[OperationResult] = []
        with ThreadPoolExecutor(PARALLEL_REQUESTS, thread_name_prefix="acker-sender") as pool:
            for results in pool.map(self._apply, parts):
                found += results
                on_sent(len(results))
        return found

    def root_is_known(self, root_id: int) -> bool:
        """Return whether the acker knows a root: early, pending or finished."""
        return self._session.root_is_known(root_id)

    def set_webhook(self, url: str, secret: str) -> None:
        """Register a webhook for the completions of the spout task. Raises the `ServiceError` that refuses it."""
        self._session.set_webhook(self._options.spout_task, url=url, secret=secret)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _apply(self, operations: Sequence["Operation"]) -> "list[OperationResult]":
        results = self._session.apply(operations)
        _check_admitted(results)
        return results


def _check_admitted(results: Sequence[OperationResult]) -> None:
    for result in results:
        if result.state in NOT_ADMITTED and not isinstance(result.operation, Init):
            raise PendingLimit(
                f"an operation on root {result.operation.root_id:016x} was refused until the end of the retries: the "
                "store is full, or the topology has as many roots without their init as it may. Nothing is lost: when "
                "the query is started again it runs this batch again",
                retryable=True,
            )
