"""Knows how the requests of an httpx client carry the anchors of the tuple that is being worked on. ::

    http = httpx.Client(event_hooks={"request": [add_anchors]})  # AsyncClient: async_add_anchors
    with acker.execute(headers, component="order") as tuple_, carry(tuple_):
        http.post("http://billing/charges", json=charge, extensions={NAME: "charge"})

Each request is a child of the tuple, with an edge of its own, random unless it has a name. So hook a client that speaks
to services that ack, and use another for the rest. One `httpx.Request` keeps its edge however often it is sent: through
redirects, answers to a challenge, retries of a transport. A new request for the same work is a second child: the first
edge is then open until whoever got it acks, if anyone did; under the same name it is `NameTaken`.
"""

from typing import TYPE_CHECKING

from acker_protocol.routes import ANCHORS

from acker_client.current import carried, carry

if TYPE_CHECKING:
    import httpx

__all__ = ["NAME", "add_anchors", "async_add_anchors", "carry"]

NAME = "acker.name"
"""The extension of an httpx request that names the child, so that its edge ids are derived."""


def add_anchors(request: "httpx.Request") -> None:
    """Anchor a request to the tuple that is carried, unless it has anchors. Raises `NameTaken` and `TupleDone`."""
    tuple_ = carried()
    if tuple_ is not None and ANCHORS not in request.headers:
        request.headers.update(tuple_.anchor(request.extensions.get(NAME)).headers())


async def async_add_anchors(request: "httpx.Request") -> None:
    """As `add_anchors`, for an `httpx.AsyncClient`."""
    add_anchors(request)
