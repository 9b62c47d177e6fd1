"""Lets the requests of an httpx client carry the anchors of the current tuple. ::

    http = httpx.Client(event_hooks={"request": [inject_request]})  # AsyncClient: ainject_request
    with acker.receive(headers, component="order"):
        http.post("http://billing/charges", json=charge, extensions={KEY: "charge"})

Each request is a child of the tuple, with an edge of its own, random unless it has a key. So hook a client that calls
services that ack, and use another for the rest. One `httpx.Request` keeps its edge however often it is sent: through
redirects, authentication challenges, retries of a transport. A new request for the same work is a second child: the
first edge then stays open until its receiver acks it, if there is one; under the same key it is `DuplicateKey`.
"""

from typing import TYPE_CHECKING

from acker_client.propagate import inject

if TYPE_CHECKING:
    import httpx

__all__ = ["KEY", "ainject_request", "inject_request"]

KEY = "acker.key"
"""The extension of an httpx request that holds the child's key, from which its edge ids are derived."""


def inject_request(request: "httpx.Request") -> None:
    """Anchor a request to the current tuple, unless it has anchors. Raises `DuplicateKey` and `TupleClosed`."""
    inject(request.headers, request.extensions.get(KEY))


async def ainject_request(request: "httpx.Request") -> None:
    """As `inject_request`, as the hook of an `httpx.AsyncClient`."""
    inject_request(request)
