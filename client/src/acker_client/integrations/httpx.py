"""Lets the requests of an httpx client carry the anchors of the current tuple. ::

    http = httpx.Client(event_hooks={"request": [inject_request]})  # AsyncClient: ainject_request
    with acker.receive(headers, component="order"):
        http.post("http://billing/charges", json=charge, extensions={KEY: "charge"})

Each request is a child of the tuple, with an edge of its own, random unless it has a key. So hook a client that calls
services that ack, and use another for the rest. One `httpx.Request` keeps its edge however often it is sent: through
redirects, authentication challenges, retries of a transport. A new request for the same work is a second child: the
first edge then stays open until its receiver acks it, if there is one; under the same key it is `DuplicateKey`.

A service that takes anchors only with proof needs a hook with its secret, ``partial(inject_request, secret=SECRET)``.
A redirect to another origin takes the anchors along without a signature, as httpx takes no ``Authorization`` along.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from acker_protocol.routes import ANCHORS, ANCHORS_SIGNATURE

from acker_client.propagate import inject, sign

if TYPE_CHECKING:
    import httpx

__all__ = ["KEY", "ainject_request", "inject_request"]

KEY = "acker.key"
"""The extension of an httpx request that holds the child's key, from which its edge ids are derived."""


_INJECTED = "acker.injected"
"""The extension of a request that holds the anchors which the hook gave it."""

_ORIGIN = "acker.origin"
"""The extension of a request that holds the origin which it was first sent to; None once it went to another."""

_PORTS = {"http": 80, "https": 443}


def inject_request(request: "httpx.Request", *, secret: str | Sequence[str] | None = None) -> None:
    """Anchor a request to the current tuple, unless it has anchors. Raises `DuplicateKey` and `TupleClosed`.

    With a ``secret`` the anchors are signed each time the request is sent, a repeat included. Anchors that the request
    had before are not signed: a program that passes on what strangers sent would vouch for it. A request that is
    redirected to another origin loses its signature, whoever made it. Raises `UsageError` for a secret that is short.
    """
    has_anchors = ANCHORS in request.headers
    inject(request.headers, request.extensions.get(KEY))
    if ANCHORS not in request.headers:
        return
    if _has_left_origin(request):
        request.headers.pop(ANCHORS_SIGNATURE, None)
    elif secret is not None:
        _sign(request, secret, has_anchors=has_anchors)


def _sign(request: "httpx.Request", secret: str | Sequence[str], *, has_anchors: bool) -> None:
    """Sign the anchors of a request, if the hook gave it them, now or when it was sent before."""
    anchors = request.headers[ANCHORS]
    if not has_anchors:
        request.extensions[_INJECTED] = anchors
    if request.extensions.get(_INJECTED) == anchors:
        request.headers.update(sign({ANCHORS: anchors}, secret=secret))


def _has_left_origin(request: "httpx.Request") -> bool:
    """Whether a request goes to another origin than at first, or did so once: the other one chose where it goes now.

    As for httpx, https with the same name is no other origin, both with their usual ports.
    """
    scheme, host, port = here = _origin(request.url)
    first = request.extensions.setdefault(_ORIGIN, here)
    is_upgrade = (scheme, port) == ("https", 443) and first == ("http", host, 80)
    if here != first and not is_upgrade:
        request.extensions[_ORIGIN] = None
        return True
    return False


def _origin(url: "httpx.URL") -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme)


async def ainject_request(request: "httpx.Request", *, secret: str | Sequence[str] | None = None) -> None:
    """As `inject_request`, as the hook of an `httpx.AsyncClient`."""
    inject_request(request, secret=secret)
