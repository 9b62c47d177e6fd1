"""Knows httpx: how a call becomes its request, and its response or failure a reply."""

from typing import TYPE_CHECKING, Any

import httpx

from acker_client.errors import Misuse
from acker_client.replies import Lost, Reply

if TYPE_CHECKING:
    from acker_client.calls import Call
    from acker_client.terms import Terms


def options(url: str, *, api_key: str | None, terms: "Terms") -> dict[str, Any]:
    """Give the arguments of an httpx client for one acker. Raises `Misuse` for an address that is none."""
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as fault:
        raise Misuse(f"the acker's address {url!r} is not a URL: {fault}") from None
    if address.scheme not in ("http", "https") or not address.host:
        raise Misuse(f"the acker's address must be an http or https URL, not {url!r}")
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    return {"base_url": address, "headers": headers, "timeout": terms.timeout_s}


def request(client: httpx.Client | httpx.AsyncClient, call: "Call") -> httpx.Request:
    """Build one try of a call: always the same bytes. A call that waits on purpose is given that time as well."""
    patience_s = client.timeout.read
    assert patience_s is not None, "options() set it"
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


def lost(error: httpx.TransportError) -> Lost:
    """Say that no reply came. What httpx itself refuses to send is raised: no try would help."""
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
        raise error
    return Lost(error=error)
