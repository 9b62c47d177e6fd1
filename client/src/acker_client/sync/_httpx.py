"""Requests of threads by httpx: through a transport of the program, or through a proxy."""

from typing import TYPE_CHECKING

import httpx

from acker_client import _transport

if TYPE_CHECKING:
    from acker_client._core.requests import Request
    from acker_client._core.responses import NoResponse, Response


class HttpxSender:
    """Sends requests by an httpx client."""

    def __init__(self, route: _transport.Route) -> None:
        self._route = route
        self._client = httpx.Client(**route.httpx_options())

    def send(self, request: "Request") -> "Response | NoResponse":
        """Send a request once. Raises `ClientClosed`."""
        client, route = self._client, self._route
        try:
            return _transport.to_response(client.send(_transport.build_request(client, request, route)), route.proxy)
        except httpx.RequestError as error:
            return _transport.no_response(error, route)
        except RuntimeError:
            if client.is_closed:
                raise _transport.closed() from None
            raise

    def close(self) -> None:
        """Close the client, and with it the transport."""
        self._client.close()
