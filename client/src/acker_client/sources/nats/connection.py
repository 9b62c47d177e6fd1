"""The connection to NATS, and what a consumer's configuration says of its messages."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from nats.aio.client import Client
from nats.errors import (
    AuthorizationError,
    BadSubjectError,
    ConnectionClosedError,
    ConnectionReconnectingError,
    Error,
    InvalidUserCredentialsError,
    MaxPayloadError,
)
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerInfo

from acker_client.errors import UsageError
from acker_client.sources._runner import RETRY_WAIT_S

CONNECT_S = 2.0
REQUEST_S = 5.0
"""How long to wait for the answer to a request."""
CHECK_INTERVAL_S = 0.25
"""How often to check what may have changed meanwhile."""
MIN_ACK_WAIT_S = 1.0

REFUSED = (AuthorizationError, BadSubjectError, InvalidUserCredentialsError, MaxPayloadError, UsageError)
NOT_ANSWERED = (Error, OSError, asyncio.TimeoutError)
DENIED = ("permissions violation", "authorization violation")
"""What the texts of refusals have. For a wrong login at the first connection nats-py has no class, and tries on."""

_log = logging.getLogger("acker_client")


def ack_wait_s(info: ConsumerInfo) -> float:
    """Return after how many seconds a consumer delivers a message again that is not acked. Raises `UsageError`.

    The steps of a backoff replace its ``ack_wait``; the server states the first one in its place.
    """
    config = info.config
    if config.ack_policy != AckPolicy.EXPLICIT or config.deliver_subject:
        raise UsageError(
            f"consumer {info.name} of stream {info.stream_name} has to be a pull consumer with the ack policy "
            f"explicit; it has {'a deliver_subject' if config.deliver_subject else f'the policy {config.ack_policy}'}"
        )
    found: float = min([*(config.backoff or ()), config.ack_wait or 0.0])
    if found < MIN_ACK_WAIT_S:
        raise UsageError(
            f"consumer {info.name} of stream {info.stream_name} delivers a message again after {found:g} s, by its "
            f"ack_wait or a step of its backoff: at least {MIN_ACK_WAIT_S:g} s are needed to keep a message"
        )
    return found


class Connection:
    """A connection to NATS, for the tasks of one event loop; nats-py makes it again when it is lost."""

    def __init__(self, servers: str | list[str], options: Mapping[str, Any]) -> None:
        self._servers = servers
        self._options = options
        self._client: Client | None = None
        self._max_payload = 0
        self.error: Exception | None = None
        """What NATS has refused for good."""

    @property
    def is_closed(self) -> bool:
        """Whether it was not opened yet, or nats-py has given it up."""
        return self._client is None or self._client.is_closed

    async def open(self, *, is_done: Callable[[], bool]) -> None:
        """Connect, however long it takes. Raises `ConnectionClosedError` when ``is_done()`` is true before."""
        options: dict[str, Any] = {
            "connect_timeout": CONNECT_S,
            "reconnect_time_wait": RETRY_WAIT_S,
            "max_reconnect_attempts": -1,
            "error_cb": self._on_error,
        } | dict(self._options)
        self._client = client = Client()
        connecting = asyncio.ensure_future(client.connect(self._servers, **options))
        while not (await asyncio.wait([connecting], timeout=CHECK_INTERVAL_S))[0]:
            if self.error is not None or is_done():
                connecting.cancel()
        if connecting.cancelled():
            raise ConnectionClosedError
        connecting.result()
        self._max_payload = client.max_payload

    @property
    def max_payload(self) -> int:
        """How many bytes the server takes in a message, as it said last."""
        if self._client is not None and self._client.is_connected:
            self._max_payload = self._client.max_payload
        return self._max_payload

    def client(self) -> Client:
        """Return the client. Raises `ConnectionReconnectingError` where it would only buffer what is sent."""
        if self._client is None or not self._client.is_connected:
            raise ConnectionReconnectingError
        return self._client

    def jetstream(self) -> JetStreamContext:
        """Return what asks JetStream. Raises `ConnectionReconnectingError`."""
        return self.client().jetstream(timeout=REQUEST_S)

    async def close(self) -> None:
        """Close it, within `CONNECT_S`."""
        if self._client is not None:
            with suppress(*NOT_ANSWERED):
                await asyncio.wait_for(self._client.close(), CONNECT_S)

    async def _on_error(self, error: Exception) -> None:
        """Log an error of the connection, or keep one that does not pass."""
        if isinstance(error, REFUSED) or any(denied in str(error).lower() for denied in DENIED):
            self.error = error
        else:
            _log.warning("the connection to NATS has an error: %r", error)
