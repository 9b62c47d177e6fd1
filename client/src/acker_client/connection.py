"""Knows httpx: how a client is made, how a call becomes its request, and its response or failure a reply."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from acker_client import arguments
from acker_client.errors import Closed, Misuse
from acker_client.replies import Lost, Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from acker_client.calls import Call
    from acker_client.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How an acker is reached: its address, the key, and the transport if it is not httpx's own."""

    url: str
    api_key: str | None = None
    transport: Any = None

    def connector(self, terms: "Terms") -> "Callable[[], httpx.Client]":
        """Say how a client is made. Raises `Misuse` for an address that is none."""
        options = self._options(terms)
        return lambda: httpx.Client(transport=self.transport, **options)

    def async_connector(self, terms: "Terms") -> "Callable[[], httpx.AsyncClient]":
        """As ``connector``, for an event loop."""
        options = self._options(terms)
        return lambda: httpx.AsyncClient(transport=self.transport, **options)

    def _options(self, terms: "Terms") -> dict[str, Any]:
        try:
            address = httpx.URL(self.url)
        except (httpx.InvalidURL, TypeError) as fault:
            raise Misuse(f"the acker's address {self.url!r} is not a URL: {fault}") from None
        if address.scheme not in ("http", "https") or not address.host:
            raise Misuse(f"the acker's address must be an http or https URL, not {self.url!r}")
        arguments.text("api_key", self.api_key)
        headers = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        return {"base_url": address, "headers": headers, "timeout": terms.timeout_s}


def request(client: httpx.Client | httpx.AsyncClient, call: "Call") -> httpx.Request:
    """Build one try of a call: always the same bytes. A call that waits on purpose is given that time as well."""
    patience_s = client.timeout.read
    assert patience_s is not None, "a connector set it"
    return client.build_request(
        call.method,
        call.path,
        content=call.body or None,
        headers=call.headers(),
        timeout=patience_s + call.wait_s,
    )


def reply(response: httpx.Response) -> Reply:
    """Take from a response what the client reads."""
    after = response.headers.get("Retry-After", "")
    return Reply(status=response.status_code, body=response.content, retry_after=after)


def lost(error: httpx.RequestError) -> Lost:
    """Say that no reply came; for what httpx itself refuses to send, no further try would help."""
    again = not isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol)
    unmade = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    return Lost(error=error, again=again, nobody_at=_origin(error.request.url) if unmade else "")


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode()}"


def closed(client: httpx.Client | httpx.AsyncClient, error: RuntimeError) -> Exception:
    """Say that nothing can be sent any more, if that is what httpx says; else give the error as it is."""
    return Closed("the acker is closed") if client.is_closed else error


def reset(error: AttributeError) -> Lost:
    """Say that no reply came over a connection that was reset as it was made. Raises any other error again.

    uvloop takes the socket away from such a connection; anyio asks it for its peer, and httpx lets that pass.
    """
    if error.name != "getpeername" or error.obj is not None:
        raise error
    return Lost(error=httpx.ConnectError("the connection was reset"))
