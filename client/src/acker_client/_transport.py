"""The httpx side: makes clients and requests, and turns responses and failures into those of the core."""

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from acker_client import _validate
from acker_client._core.responses import NoResponse, Response
from acker_client._proxy import proxy_to
from acker_client.errors import ClientClosed, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from acker_client._core.requests import Request
    from acker_client._proxy import Proxy
    from acker_client.config import ClientConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where an acker is: its URL, the API key, and a transport instead of httpx's own."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    transport: Any = None

    @property
    def proxy(self) -> "Proxy | None":
        """The proxy on the way; a transport of the program goes its own way. Raises `UsageError`."""
        return None if self.transport is not None else proxy_to(self.url)

    @property
    def is_direct(self) -> bool:
        """Whether nothing but httpx's own transport stands between the client and the acker."""
        return self.transport is None and self.proxy is None

    def client_factory(self, config: "ClientConfig") -> "Callable[[], httpx.Client]":
        """Give a function that makes a client. Raises `UsageError` for an invalid URL or proxy."""
        options = self._options(config)
        return lambda: httpx.Client(transport=self.transport, verify=_tls(options["base_url"]), **options)

    def async_client_factory(self, config: "ClientConfig") -> "Callable[[], httpx.AsyncClient]":
        """Give a function that makes a client of an event loop. Raises `UsageError` for an invalid URL or proxy."""
        options = self._options(config)
        return lambda: httpx.AsyncClient(transport=self.transport, verify=_tls(options["base_url"]), **options)

    def _options(self, config: "ClientConfig") -> dict[str, Any]:
        try:
            url = httpx.URL(self.url)
        except (httpx.InvalidURL, TypeError) as error:
            raise UsageError(f"the acker's address {self.url!r} is not a URL: {error}") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise UsageError(f"the acker's address must be an http or https URL, not {self.url!r}")
        _validate.text("api_key", self.api_key)
        headers = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        proxy = self.proxy
        return {
            "base_url": url,
            "headers": headers,
            "timeout": config.request_timeout,
            "proxy": None if proxy is None else proxy.url,
            "trust_env": False,  # it would look for proxies by another rule
        }


def _tls(url: httpx.URL) -> ssl.SSLContext:
    """Make a context of TLS; without TLS an empty one, since httpx takes tens of milliseconds to read certificates."""
    return httpx.create_ssl_context() if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def build_request(client: httpx.Client | httpx.AsyncClient, request: "Request") -> httpx.Request:
    """Build one attempt of a request: always the same bytes. A long poll gets its wait on top of the timeout."""
    timeout_s = client.timeout.read
    assert timeout_s is not None, "the factory set it"
    return client.build_request(
        request.method,
        request.path,
        content=request.body or None,
        headers=request.headers(),
        timeout=timeout_s + request.wait_s,
    )


def to_response(response: httpx.Response, proxy: "Proxy | None" = None) -> Response:
    """Take from a response what the client reads; ``proxy`` is the one through which it came."""
    after = response.headers.get("Retry-After", "")
    return Response(status=response.status_code, body=response.content, retry_after=after, proxy=proxy)


def no_response(error: httpx.RequestError, proxy: "Proxy | None" = None) -> NoResponse:
    """Describe a request that got no response; what httpx itself refuses to send is not retried."""
    retryable = not isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol)
    not_connected = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError)
    refused_by = _origin(error.request.url) if not_connected else ""
    return NoResponse(error=error, retryable=retryable, refused_by=refused_by, proxy=proxy if not_connected else None)


def connection_reset(error: AttributeError) -> NoResponse:
    """Describe a connection that was reset as it was made. Raises any other error again.

    uvloop takes the socket away from such a connection; anyio asks it for its peer, and httpx lets that error through.
    """
    if error.name != "getpeername" or error.obj is not None:
        raise error
    return NoResponse(error=httpx.ConnectError("the connection was reset"))


def closed_error(client: httpx.Client | httpx.AsyncClient, error: RuntimeError) -> Exception:
    """Give `ClientClosed` if the httpx client is closed, else the error itself."""
    return ClientClosed("the acker is closed") if client.is_closed else error


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode()}"
