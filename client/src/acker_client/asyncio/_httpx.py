"""Requests of tasks by httpx: through a transport of the program, or through a proxy."""

from typing import TYPE_CHECKING

import httpx

from acker_client import _transport

if TYPE_CHECKING:
    from acker_client._core.requests import Request
    from acker_client._core.responses import NoResponse, Response


class AsyncHttpxSender:
    """Sends requests by an httpx client."""

    def __init__(self, route: _transport.Route) -> None:
        self._route = route
        self._client = httpx.AsyncClient(**route.httpx_options())

    async def send(self, request: "Request") -> "Response | NoResponse":
        """Send a request once. Raises `ClientClosed`."""
        client, route = self._client, self._route
        built = _transport.build_request(client, request, route)
        try:
            return _transport.to_response(await client.send(built), route.proxy)
        except httpx.RequestError as error:
            return _transport.no_response(error, route)
        except AttributeError as error:
            return _transport.connection_reset(error)
        except RuntimeError:
            if client.is_closed:
                raise _transport.closed() from None
            raise

    async def close(self) -> None:
        """Close the client, and with it the transport."""
        await self._client.aclose()

    async def leave_loop(self) -> None:
        """Leave the transport open: the client of the next event loop uses the same."""
