"""Knows how a post reaches the receiver of a webhook, and hears its answer."""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import httpcore
from acker_protocol.signature import signed_headers

from acker_service.delivery.dns import Resolve, Resolver
from acker_service.delivery.egress import EgressPolicy
from acker_service.delivery.egress_backend import DestinationDenied, EgressGuardedBackend
from acker_service.delivery.payload import WebhookMessage
from acker_service.delivery.response import DeliveryResult, ReceiverResponse, classify, no_response
from acker_service.topologies.callback import read_address

KEEP_ALIVE_S = 4.0
"""How long an idle connection is kept: less than servers do (uvicorn 5 s), so that it is not theirs to close."""

_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "acker"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """What one receiver may take of this process: time for a connection and for a whole post, bytes, posts at once."""

    connect_timeout_s: float = 5.0
    request_timeout_s: float = 30.0
    max_response_bytes: int = 1_048_576
    max_in_flight: int = 4
    retry_after_max_s: float = 3_600.0


class WebhookClient:
    """Makes destinations. One for a process: what is dear to make (200 ms for the trusted certificates) they share."""

    def __init__(
        self,
        *,
        allowed: EgressPolicy,
        bounds: RequestLimits | None = None,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.bounds, self.clock = bounds or RequestLimits(), clock
        self._tls = tls or httpcore.default_ssl_context()
        self._dialler = EgressGuardedBackend(allowed=allowed, resolve=resolve or Resolver())

    def endpoint(self, url: str) -> "Endpoint":
        """Make the destination of one webhook. Raises ``ValueError`` for a URL that `read_callback` would refuse."""
        # Neither proxies nor anything else of the environment is looked at here, nor are redirects followed.
        pool = httpcore.AsyncConnectionPool(
            ssl_context=self._tls,
            network_backend=self._dialler,
            max_connections=self.bounds.max_in_flight,
            keepalive_expiry=KEEP_ALIVE_S,
        )
        return Endpoint(url, pool=pool, bounds=self.bounds, clock=self.clock)


class Endpoint:
    """Where the posts of one webhook go. It has its own connections, so another that hangs is not noticed here."""

    def __init__(
        self, url: str, *, pool: httpcore.AsyncConnectionPool, bounds: RequestLimits, clock: Callable[[], float]
    ) -> None:
        address = read_address(url)
        self.url, self._bounds, self._clock, self._pool = url, bounds, clock, pool
        self._url = httpcore.URL(
            scheme=address.scheme, host=address.host, port=address.port, target=address.target.encode()
        )
        self._headers = {"Host": address.authority, **_HEADERS}
        self._extensions = {"timeout": _timeouts(bounds), "sni_hostname": address.name}
        self._slots = asyncio.Semaphore(bounds.max_in_flight)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; a post that is under way fails."""
        await self._pool.aclose()

    async def post(self, post: WebhookMessage, *, secrets: Sequence[str]) -> DeliveryResult:
        """Post once, signed with every secret, and say what came of it; whatever goes wrong is a verdict too.

        At most ``in_flight`` posts are under way; further ones wait here, which is not counted to their time.
        """
        async with self._slots:
            try:
                async with asyncio.timeout(self._bounds.request_timeout_s):
                    answer = await self._send(post, secrets)
            except Exception as fault:  # noqa: BLE001 - a receiver cannot end those who deliver to others as well
                return no_response(post.ids, self._describe(fault))
        return classify(answer, post.ids, now=self._clock(), wait_max_s=self._bounds.retry_after_max_s)

    async def _send(self, post: WebhookMessage, secrets: Sequence[str]) -> ReceiverResponse:
        signed = signed_headers(secrets, message=post.message_id, timestamp=int(self._clock()), body=post.body)
        headers = list((self._headers | signed).items())
        async with self._pool.stream(
            "POST", self._url, headers=headers, content=post.body, extensions=self._extensions
        ) as response:
            return await self._read(response)

    async def _read(self, response: httpcore.Response) -> ReceiverResponse:
        """Read what matters of an answer: the body only of a success."""
        headers = {name.lower(): value.decode("latin-1") for name, value in response.headers}
        if not 200 <= response.status < 300:
            return ReceiverResponse(status=response.status, retry_after=headers.get(b"retry-after", ""))
        if headers.get(b"content-encoding", "identity").lower() != "identity":
            raise UnreadableResponse(f"answered {response.status} compressed, though that was not accepted")
        delimited = b"content-length" in headers or b"transfer-encoding" in headers
        return ReceiverResponse(status=response.status, body=await self._body(response), delimited=delimited)

    async def _body(self, response: httpcore.Response) -> bytes:
        body = bytearray()
        async for part in response.aiter_stream():
            body += part
            if len(body) > self._bounds.max_response_bytes:
                # It may hold the list of those to send again, so it cannot be taken for a yes.
                raise UnreadableResponse(
                    f"answered {response.status} with more than {self._bounds.max_response_bytes} bytes"
                )
        return bytes(body)

    def _describe(self, fault: Exception) -> str:
        """Say what went wrong, without a word of what came over the line: no receiver may have said it."""
        match fault:
            case DestinationDenied() | UnreadableResponse():
                return str(fault)
            case httpcore.ConnectTimeout():
                return f"no connection within {self._bounds.connect_timeout_s:g} s"
            case httpcore.ConnectError():
                return f"no connection: {fault}"
            case TimeoutError() | httpcore.TimeoutException():
                return f"no whole answer within {self._bounds.request_timeout_s:g} s"
            case httpcore.ProtocolError() | httpcore.NetworkError() | AttributeError(name="getpeername", obj=None):
                # The last: uvloop takes the socket from a connection that is reset, and anyio asks it for its peer.
                return "the answer broke off, or was not HTTP"
        _log.error("a post to %s failed unexpectedly", self._headers["Host"], exc_info=fault)
        return f"failed unexpectedly: {type(fault).__name__}"


class UnreadableResponse(Exception):
    """An answer that cannot be understood."""


def _timeouts(bounds: RequestLimits) -> dict[str, Any]:
    return {
        "connect": bounds.connect_timeout_s,
        "read": bounds.request_timeout_s,
        "write": bounds.request_timeout_s,
        "pool": bounds.request_timeout_s,
    }
