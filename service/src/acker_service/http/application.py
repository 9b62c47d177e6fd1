"""The application: names each request, refuses those of foreign web pages, answers operations in front of FastAPI."""

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from acker_service.http.exchange import Exchanges
from acker_service.http.http_metrics import OTHER
from acker_service.http.origins import OriginCheck
from acker_service.http.request_id import REQUEST_ID_KEY, named
from acker_service.metrics.logs import log_request


class Application(FastAPI):
    """FastAPI, with a check of origins and the addresses of operations in front of all its layers.

    ``exchanges`` None: it has no such addresses.
    """

    origins: OriginCheck
    exchanges: Exchanges | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; what it logs has its id."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        if REQUEST_ID_KEY not in scope:
            send = named(scope, send)
        logged, exchanges = log_request(scope[REQUEST_ID_KEY]), self.exchanges
        address = None if exchanges is None else exchanges.operations.find(scope["path"])
        try:
            if (refusal := self.origins.refusal(scope)) is not None:
                route = OTHER if address is None else address.route.template
                await self.origins.refuse(refusal, scope, receive, send, route=route)
            elif exchanges is None or address is None:
                await super().__call__(scope, receive, send)
            else:
                await exchanges.serve(address, scope, receive, send)
        finally:
            logged.id = None
