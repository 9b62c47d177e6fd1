"""Sends requests to one topology of an acker. The only module that imports the client's low-level parts."""

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from acker_client import calls, replies
from acker_client.calls import Answer as OperationResult
from acker_client.calls import Call
from acker_client.completions import Done as Completion
from acker_client.completions import Page, read_page
from acker_client.connection import Reach
from acker_client.errors import AckerError
from acker_client.errors import Misuse as UsageError
from acker_client.exchange import Exchange
from acker_client.placing import place
from acker_client.terms import Terms
from acker_client.thread_driver import Driver
from acker_protocol import routes
from acker_protocol.errors import Conflict, UnknownRoot, UnknownSpout
from acker_protocol.ids import format_id
from acker_protocol.operations import Operation, OperationState

if TYPE_CHECKING:
    import httpx

__all__ = [
    "AckerError",
    "Clock",
    "Completion",
    "OperationResult",
    "Page",
    "SystemClock",
    "TopologyClient",
    "UsageError",
]


class Clock(Protocol):
    """The time in seconds, and a way to let it pass; `acker_client.testing.Clock` is one for tests."""

    def clock(self) -> float:
        """Return the monotonic time in seconds."""

    def sleep(self, seconds: float) -> object:
        """Wait for some seconds."""


class SystemClock:
    """The clock of this machine."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


class TopologyClient:
    """Sends requests to one topology, and repeats each, with its idempotency key, until it is answered.

    A request is repeated for ``retry_timeout`` seconds; one attempt takes ``request_timeout`` seconds at most. Every
    method raises `ServiceError` for a refusal and `Unreachable` when no answer comes in time. For any number of
    threads.
    """

    def __init__(
        self,
        *,
        url: str,
        topology: str,
        token: str | None,
        retry_timeout: float,
        request_timeout: float = 10.0,
        transport: "httpx.BaseTransport | None" = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        retry_ms = round(retry_timeout * 1000)
        terms = Terms(retry_for_ms=retry_ms, place_for_ms=retry_ms, timeout_s=request_timeout, clock=clock.clock)
        reach = Reach(url=url, api_key=token, transport=transport)
        self.topology = topology
        self._exchange = Exchange(topology=topology, terms=terms)
        self._driver = Driver(reach.connector(terms), sleep=clock.sleep)

    def read_topology(self) -> dict[str, Any]:
        """Read the topology's configuration. Raises `UnknownTopology`."""
        return replies.document(self._send(calls.read_topology(self.topology)))

    def create_topology(self, settings: dict[str, int]) -> dict[str, Any]:
        """Create the topology, and return its configuration. Raises `Forbidden` without the scope admin."""
        body = json.dumps(settings).encode()
        return replies.document(self._send(Call(method="PUT", path=routes.topology(self.topology), body=body)))

    def apply(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Apply operations, and return their results in order.

        Operations that are not admitted are repeated until the time is over; those still refused are in the results.
        """
        try:
            return self._driver.run(place(self._exchange, operations))
        except Conflict as error:
            if len(operations) > 1 or error.code != OperationState.CONFLICT:
                raise
            # The service answers a single operation with an error where it answers a batch with a state.
            return [OperationResult(message=operations[0], word=OperationState.CONFLICT)]

    def root_is_known(self, root_id: int) -> bool:
        """Return whether the acker knows a root: early, pending or finished."""
        try:
            self._send(calls.read_root(self.topology, format_id(root_id)))
        except UnknownRoot:
            return False
        return True

    def set_webhook(self, spout_task: str, *, url: str, secret: str) -> None:
        """Register a webhook that receives the completions of a spout task."""
        self._send(calls.post_to(self.topology, spout_task, url=url, secret=secret))

    def read_completions(
        self, spout_task: str, *, after: str, until: str | None, limit: int, poll_timeout_ms: int
    ) -> Page | None:
        """Read a page of completions after a cursor ("" is the beginning), up to another; None for an unknown task."""
        call = calls.read_completions(
            self.topology, spout_task, after=after or None, until=until, limit=limit, wait_ms=poll_timeout_ms
        )
        try:
            return read_page(self._send(call))
        except UnknownSpout:
            return None

    def release(self, spout_task: str, cursor: str) -> None:
        """Release completions up to a cursor. Releasing twice does no harm."""
        try:
            self._send(calls.release(self.topology, spout_task, cursor=cursor))
        except UnknownSpout:
            return

    def count_unread(self, spout_task: str) -> int:
        """Return the number of completions that are not released; 0 for an unknown spout task."""
        try:
            return int(replies.document(self._send(calls.read_spout(self.topology, spout_task)))["unread"])
        except UnknownSpout:
            return 0

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()

    def _send(self, call: Call) -> replies.Reply:
        return self._driver.run(self._exchange.send(call))
