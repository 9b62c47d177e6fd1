"""Sends signed requests to the receivers of webhooks and reads their responses."""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import certifi
import httpcore2
from acker_protocol.signature import signed_headers

from acker_service.delivery.egress import EgressPolicy
from acker_service.delivery.egress_backend import DestinationDenied, EgressGuardedBackend, Resolve, Resolver
from acker_service.delivery.payload import WebhookMessage
from acker_service.delivery.response import DeliveryResult, ReceiverResponse, classify, no_response
from acker_service.topologies.callback import read_address

KEEP_ALIVE_S = 4.0
"""How long an idle connection is kept: less than servers keep it (uvicorn 5 s), so that this side closes it first."""

_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "acker"}

_log = logging.getLogger(__name__)


class UnreadableResponse(Exception):
    """A response that cannot be interpreted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """What one receiver may use of this process."""

    connect_timeout_s: float = 5.0
    request_timeout_s: float = 30.0
    """For the whole request, connecting included."""
    max_response_bytes: int = 1_048_576
    max_in_flight: int = 4
    """Concurrent requests to one receiver."""
    retry_after_max_s: float = 3_600.0
    """A longer ``Retry-After`` is clamped to this."""


class WebhookClient:
    """Creates endpoints, which share the trusted certificates (200 ms to load). One client per process."""

    def __init__(
        self,
        *,
        egress_policy: EgressPolicy,
        limits: RequestLimits | None = None,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits or RequestLimits()
        self.clock = clock
        self._tls = tls or _trusting_context()
        self._backend = EgressGuardedBackend(egress_policy=egress_policy, resolve=resolve or Resolver())

    def endpoint(self, url: str) -> "Endpoint":
        """Create the endpoint of one webhook. Raises ``ValueError`` for a URL that `read_callback` refuses."""
        # httpcore2 reads no proxies from the environment and follows no redirects, unlike httpx.
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._tls,
            network_backend=self._backend,
            max_connections=self.limits.max_in_flight,
            keepalive_expiry=KEEP_ALIVE_S,
        )
        return Endpoint(url, pool=pool, limits=self.limits, clock=self.clock)


class Endpoint:
    """The receiver of one webhook, with a connection pool of its own: an endpoint that hangs delays no other."""

    def __init__(
        self, url: str, *, pool: httpcore2.AsyncConnectionPool, limits: RequestLimits, clock: Callable[[], float]
    ) -> None:
        address = read_address(url)
        self.url = url
        self._limits = limits
        self._clock = clock
        self._pool = pool
        self._url = httpcore2.URL(
            scheme=address.scheme, host=address.host, port=address.port, target=address.target.encode()
        )
        self._headers = {"Host": address.authority, **_HEADERS}
        self._extensions = {"timeout": _timeouts(limits), "sni_hostname": address.name}
        self._slots = asyncio.Semaphore(limits.max_in_flight)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; a request under way fails."""
        await self._pool.aclose()

    async def post(self, message: WebhookMessage, *, secrets: Sequence[str]) -> DeliveryResult:
        """Post a message once, signed with every secret. An error is a result too; only a cancellation is raised.

        At most ``max_in_flight`` requests run at once; the timeout of a further one begins when it gets a slot.
        """
        async with self._slots:
            try:
                async with asyncio.timeout(self._limits.request_timeout_s):
                    response = await self._send(message, secrets)
            except Exception as error:  # noqa: BLE001 - one receiver must not end the delivery to others
                return no_response(message.ids, self._describe(error))
        return classify(response, message.ids, now=self._clock(), wait_max_s=self._limits.retry_after_max_s)

    async def _send(self, message: WebhookMessage, secrets: Sequence[str]) -> ReceiverResponse:
        signed = signed_headers(secrets, message=message.message_id, timestamp=int(self._clock()), body=message.body)
        headers = list((self._headers | signed).items())
        async with self._pool.stream(
            "POST", self._url, headers=headers, content=message.body, extensions=self._extensions
        ) as response:
            return await self._read(response)

    async def _read(self, response: httpcore2.Response) -> ReceiverResponse:
        """Read the parts of a response that `classify` needs: the body of a 2xx only."""
        headers = {name.lower(): value.decode("latin-1") for name, value in response.headers}
        if not 200 <= response.status < 300:
            return ReceiverResponse(status=response.status, retry_after=headers.get(b"retry-after", ""))
        if headers.get(b"content-encoding", "identity").lower() != "identity":
            raise UnreadableResponse(f"answered {response.status} compressed, though that was not accepted")
        delimited = b"content-length" in headers or b"transfer-encoding" in headers
        return ReceiverResponse(status=response.status, body=await self._read_body(response), delimited=delimited)

    async def _read_body(self, response: httpcore2.Response) -> bytes:
        body = bytearray()
        async for part in response.aiter_stream():
            body += part
            if len(body) > self._limits.max_response_bytes:
                # The rest may hold a list of completions to retry, so a truncated body is no success.
                raise UnreadableResponse(
                    f"answered {response.status} with more than {self._limits.max_response_bytes} bytes"
                )
        return bytes(body)

    def _describe(self, error: Exception) -> str:
        """Describe an error without quoting anything received: the peer may be an internal server."""
        match error:
            case DestinationDenied() | UnreadableResponse():
                return str(error)
            case httpcore2.ConnectTimeout():
                return f"no connection within {self._limits.connect_timeout_s:g} s"
            case httpcore2.ConnectError():
                return f"no connection: {error}"
            case TimeoutError() | httpcore2.TimeoutException():
                return f"no whole answer within {self._limits.request_timeout_s:g} s"
            case httpcore2.ProtocolError() | httpcore2.NetworkError() | AttributeError(name="getpeername", obj=None):
                # The last: uvloop takes the socket from a connection that is reset, and anyio asks it for its peer.
                return "the answer broke off, or was not HTTP"
        _log.error("a post to %s failed unexpectedly", self._headers["Host"], exc_info=error)
        return f"failed unexpectedly: {type(error).__name__}"


def _trusting_context() -> ssl.SSLContext:
    """Trust what the system trusts, and what certifi lists: a container may have no certificates of its own."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _timeouts(limits: RequestLimits) -> dict[str, Any]:
    return {
        "connect": limits.connect_timeout_s,
        "read": limits.request_timeout_s,
        "write": limits.request_timeout_s,
        "pool": limits.request_timeout_s,
    }
