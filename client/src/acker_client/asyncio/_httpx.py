"""Requests of tasks by httpx or httpx2: through a transport or a client of the program, or through a proxy."""

from typing import TYPE_CHECKING

from acker_client import _transport
from acker_client._http_library import errors
from acker_client.propagate import use

if TYPE_CHECKING:
    from acker_client._core.requests import Request
    from acker_client._core.responses import NoResponse, Response


class AsyncHttpxSender:
    """Sends requests by a client of its own, or by the one of the program, which it does not close."""

    def __init__(self, route: _transport.Route) -> None:
        self._route = route
        self._is_closed = False
        library = route.library
        self._is_own = not isinstance(route.transport, library.AsyncClient)
        self._client = library.AsyncClient(**route.httpx_options()) if self._is_own else route.transport

    async def send(self, request: "Request") -> "Response | NoResponse":
        """Send a request once. Raises `ClientClosed`."""
        client, route = self._client, self._route
        if self._is_closed:
            raise _transport.closed()
        built = _transport.build_request(client, request, route)
        try:
            with use(None):  # a client of the program may have the hook that anchors requests: these are no children
                return _transport.to_response(await client.send(built), route.proxy)
        except errors("RequestError") as error:
            return _transport.no_response(error, route)
        except AttributeError as error:
            return _transport.connection_reset(error)
        except RuntimeError:
            if client.is_closed:
                raise _transport.closed() from None
            raise

    async def close(self) -> None:
        """Close the client, and with it the transport."""
        self._is_closed = True
        if self._is_own:
            await self._client.aclose()

    async def leave_loop(self) -> None:
        """Leave the transport open: the client of the next event loop uses the same."""
