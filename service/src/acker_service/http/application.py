"""The application: names each request, and lets the fast path answer it in front of all layers of FastAPI."""

from collections.abc import Mapping

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from acker_service.http.exchange import CYCLE
from acker_service.http.fast_path import FastPath, FastRoute
from acker_service.http.load_shedding import Load
from acker_service.http.request_id import REQUEST_ID_KEY, named
from acker_service.metrics.logs import log_request
from acker_service.topologies.registry import TopologyRegistry


class Application(FastAPI):
    """FastAPI with a fast path in front of all its layers."""

    fast_path: FastPath | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the fast path if that takes it, else by its route; what it logs has its id."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        remaining: Receive | None = receive
        cycle = scope.pop(CYCLE, None)  # it refers to the scope: both would wait for the garbage collector
        if REQUEST_ID_KEY not in scope:
            send = named(scope, send)
        logged = log_request(scope[REQUEST_ID_KEY])
        try:
            if scope["method"] == "POST" and self.fast_path is not None:
                remaining = await self.fast_path.serve(scope, receive, send, cycle)
            if remaining is not None:
                await super().__call__(scope, remaining, send)
        finally:
            logged.id = None


def install(app: Application, routes: Mapping[str, FastRoute], *, registry: TopologyRegistry, load: Load) -> None:
    """Let a fast path answer some routes of an app."""
    app.fast_path = FastPath(routes, registry=registry, load=load, state=app.state)
