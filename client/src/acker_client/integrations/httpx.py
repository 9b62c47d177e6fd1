"""Lets the requests of an httpx client carry the anchors of the current tuple. ::

    http = httpx.Client(event_hooks={"request": [inject_request]})  # AsyncClient: ainject_request
    with acker.receive(headers, component="order"):
        http.post("http://billing/charges", json=charge, extensions={KEY: "charge"})

Each request is a child of the tuple, with an edge of its own, random unless it has a key. So hook a client that calls
services that ack, and use another for the rest. One `httpx.Request` keeps its edge however often it is sent: through
redirects, authentication challenges, retries of a transport. A new request for the same work is a second child: the
first edge then stays open until its receiver acks it, if there is one; under the same key it is `DuplicateKey`.

A service that takes anchors only with proof needs a hook with its secret, ``partial(inject_request, secret=SECRET)``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from acker_protocol.routes import ANCHORS

from acker_client.propagate import inject, sign

if TYPE_CHECKING:
    import httpx

__all__ = ["KEY", "ainject_request", "inject_request"]

KEY = "acker.key"
"""The extension of an httpx request that holds the child's key, from which its edge ids are derived."""


_INJECTED = "acker.injected"
"""The extension of a request that holds the anchors which the hook gave it."""


def inject_request(request: "httpx.Request", *, secret: str | Sequence[str] | None = None) -> None:
    """Anchor a request to the current tuple, unless it has anchors. Raises `DuplicateKey` and `TupleClosed`.

    With a ``secret`` the anchors are signed, anew each time that the request is sent. Those that it has already are
    not: a program that passes on what strangers sent would prove it. Raises `UsageError` for one that is short.
    """
    has_anchors = ANCHORS in request.headers
    inject(request.headers, request.extensions.get(KEY))
    if secret is None or ANCHORS not in request.headers:
        return
    anchors = request.headers[ANCHORS]
    if not has_anchors:
        request.extensions[_INJECTED] = anchors
    if request.extensions.get(_INJECTED) == anchors:
        request.headers.update(sign({ANCHORS: anchors}, secret=secret))


async def ainject_request(request: "httpx.Request", *, secret: str | Sequence[str] | None = None) -> None:
    """As `inject_request`, as the hook of an `httpx.AsyncClient`."""
    inject_request(request, secret=secret)
