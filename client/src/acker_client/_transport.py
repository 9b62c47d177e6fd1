"""The way to an acker, decided when a client is made, and what its requests and failures are in httpx's words.

httpx is httpx2 where that is installed; see `_http_library`.
"""

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from acker_client._core import validate
from acker_client._core.responses import NoResponse, Response
from acker_client._http_library import errors, httpx, library_of
from acker_client._proxy import proxy_to
from acker_client.errors import ClientClosed, UsageError

if TYPE_CHECKING:
    from acker_client._core.requests import Request
    from acker_client._proxy import Proxy
    from acker_client.config import ClientConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way to an acker: its URL, the headers and the timeout of each request, and what stands in between.

    That is a transport or a client of the program, or a proxy. Then httpx sends the requests, else the client's own
    connections.
    """

    url: httpx.URL
    headers: dict[str, str] = field(repr=False)
    timeout_s: float
    transport: Any = None
    proxy: "Proxy | None" = None

    @property
    def is_direct(self) -> bool:
        """Whether the client connects to the acker itself."""
        return self.transport is None and self.proxy is None

    @property
    def origin(self) -> str:
        """The acker's address without a path, for messages."""
        return f"{self.url.scheme}://{self.url.netloc.decode()}"

    @property
    def library(self) -> Any:
        """The library, httpx or httpx2, that sends what the client's own connections do not."""
        return library_of(self.transport)

    @property
    def address(self) -> str:
        """The acker's address before the path of a request, with a login if it has one."""
        return str(self.url).partition("?")[0].rstrip("/")

    def httpx_options(self) -> dict[str, Any]:
        """Return the arguments of an httpx client."""
        return {
            "timeout": self.timeout_s,
            "transport": self.transport,
            "proxy": None if self.proxy is None else self.proxy.url,
            "verify": self._tls(),
            "trust_env": False,  # it would look for proxies by another rule
        }

    def _tls(self) -> ssl.SSLContext:
        """Make a context of TLS; without TLS an empty one, since httpx takes tens of milliseconds for certificates."""
        is_secure = self.url.scheme == "https"
        return httpx.create_ssl_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where an acker is: its URL, the API key, and a transport or client that replaces the client's own connections."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    transport: Any = None

    def route(self, config: "ClientConfig") -> Route:
        """Find the way to the acker; a transport of the program goes its own way.

        Raises `UsageError` for an invalid URL or proxy.
        """
        try:
            url = httpx.URL(self.url)
        except (httpx.InvalidURL, TypeError) as error:
            raise UsageError(f"the acker's address {self.url!r} is not a URL: {error}") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise UsageError(f"the acker's address must be an http or https URL, not {self.url!r}")
        validate.text("api_key", self.api_key)
        return Route(
            url=url,
            headers={} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"},
            timeout_s=config.request_timeout,
            transport=self.transport,
            proxy=None if self.transport is not None else proxy_to(self.url),
        )


def build_request(client: Any, request: "Request", route: Route) -> Any:
    """Build one attempt of a request: always the same bytes. A long poll gets its wait on top of the timeout."""
    return client.build_request(
        request.method,
        f"{route.address}{request.path}",
        content=request.body or None,
        headers=route.headers | request.headers(),
        timeout=request.timeout_s(route.timeout_s),
    )


def to_response(response: httpx.Response, proxy: "Proxy | None" = None) -> Response:
    """Take from a response what the client reads; ``proxy`` is the one through which it came."""
    after = response.headers.get("Retry-After", "")
    return Response(status=response.status_code, body=response.content, retry_after=after, proxy=proxy)


def no_response(error: Exception, route: Route) -> NoResponse:
    """Describe a request that got no response; what cannot be sent at all is not retried."""
    retryable = not isinstance(error, errors("LocalProtocolError", "UnsupportedProtocol"))
    if not isinstance(error, errors("ConnectError", "ConnectTimeout", "ProxyError")):
        return NoResponse(error=error, retryable=retryable)
    return NoResponse(error=error, retryable=retryable, refused_by=route.origin, proxy=route.proxy)


def connection_reset(error: AttributeError) -> NoResponse:
    """Describe a connection that was reset as it was made. Raises any other error again.

    uvloop takes the socket away from such a connection; anyio asks it for its peer, and httpx lets that error through.
    """
    if error.name != "getpeername" or error.obj is not None:
        raise error
    return NoResponse(error=httpx.ConnectError("the connection was reset"))


def closed() -> ClientClosed:
    """Return the error of a request after the client was closed."""
    return ClientClosed("the acker is closed")
