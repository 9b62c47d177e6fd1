"""What libraries on top of the client are made of, such as acker-spark; it may change in any release."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acker_protocol.errors import Conflict, UnknownRoot, UnknownSpout
from acker_protocol.ids import format_id
from acker_protocol.operations import Operation, OperationState

from acker_client import completions
from acker_client._core import requests, responses
from acker_client._core.delivery import deliver
from acker_client._core.requests import OperationResult, Request
from acker_client._core.responses import Response
from acker_client._core.retry import RetrySession
from acker_client._core.validate import to_milliseconds
from acker_client._transport import Endpoint
from acker_client.completions import Page
from acker_client.config import SYSTEM_CLOCK, ClientConfig, Clock
from acker_client.sync.driver import Driver

if TYPE_CHECKING:
    from acker_client._http_library import Transport

__all__ = ["Session", "to_milliseconds"]


class Session:
    """Sends requests to one topology, and repeats each, with its idempotency key, until it is answered.

    A request is repeated for ``retry_timeout`` seconds; one attempt takes ``request_timeout`` seconds at most. Where no
    acker has ever answered and none listens, it is repeated for ``startup_timeout`` seconds (None: as always). Every
    method raises `ServiceError` for a refusal and `RetriesExhausted` when no answer comes in time. For any number of
    threads.
    """

    def __init__(
        self,
        *,
        url: str,
        topology: str,
        api_key: str | None,
        retry_timeout: float,
        startup_timeout: float | None,
        request_timeout: float = 10.0,
        transport: "Transport | None" = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        config = ClientConfig(
            retry_timeout=retry_timeout,
            emit_timeout=retry_timeout,
            request_timeout=request_timeout,
            startup_timeout=startup_timeout,
            clock=clock,
        )
        endpoint = Endpoint(url=url, api_key=api_key, transport=transport)
        self.topology = topology
        self._session = RetrySession(topology=topology, config=config, address=url)
        self._driver = Driver(endpoint, config)

    def read_topology(self) -> dict[str, Any]:
        """Read the topology's configuration. Raises `UnknownTopology`."""
        return responses.document(self._send(requests.read_topology(self.topology)))

    def create_topology(self, settings: dict[str, int]) -> dict[str, Any]:
        """Create the topology, and return its configuration. Raises `Forbidden` without the scope admin."""
        return responses.document(self._send(requests.put_topology(self.topology, settings)))

    def apply(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Apply operations, and return their results in order.

        Operations that are not admitted are repeated until the time is over; those still refused are in the results.
        """
        try:
            return self._driver.run(deliver(self._session, operations))
        except Conflict as error:
            if len(operations) > 1 or error.code != OperationState.CONFLICT:
                raise
            # The service answers a single operation with an error where it answers a batch with a state.
            return [OperationResult(operation=operations[0], state=OperationState.CONFLICT)]

    def root_is_known(self, root_id: int) -> bool:
        """Return whether the acker knows a root: early, pending or finished."""
        try:
            self._send(requests.read_root(self.topology, format_id(root_id)))
        except UnknownRoot:
            return False
        return True

    def set_webhook(self, spout_task: str, *, url: str, secret: str) -> None:
        """Register a webhook that receives the completions of a spout task."""
        webhook = {"kind": "webhook", "url": url, "secret": secret}
        self._send(requests.set_callback(self.topology, spout_task, webhook))

    def read_page(
        self, spout_task: str, *, after: str, until: str | None, limit: int, poll_timeout_ms: int
    ) -> Page | None:
        """Read a page of completions after a cursor ("" is the beginning), up to another; None for an unknown task."""
        request = requests.read_completions(
            self.topology, spout_task, after=after or None, until=until, limit=limit, wait_ms=poll_timeout_ms
        )
        try:
            return completions.read_page(self._send(request))
        except UnknownSpout:
            return None

    def release(self, spout_task: str, cursor: str) -> None:
        """Release completions up to a cursor. Releasing twice does no harm."""
        try:
            self._send(requests.release(self.topology, spout_task, cursor=cursor))
        except UnknownSpout:
            return

    def count_unread(self, spout_task: str) -> int | None:
        """Return the number of completions that are not released; None for an unknown spout task."""
        try:
            return int(responses.document(self._send(requests.read_spout(self.topology, spout_task)))["unread"])
        except UnknownSpout:
            return None

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()

    def _send(self, request: Request) -> Response:
        return self._driver.run(self._session.send(request))
