"""Counts requests as their answers begin, and how long that took."""

import time

from acker_protocol.errors import ServiceError
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acker_service.http.errors import code_of
from acker_service.metrics.http import HttpMetrics

OTHER = "other"
"""Stands for every address without a route, and for every method that is none of HTTP's."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def install(app: FastAPI, meters: HttpMetrics) -> None:
    """Count the requests of this app; to be installed last, around all that may refuse one."""
    app.add_middleware(MetricsMiddleware, meters=meters)


class MetricsMiddleware:
    """Counts before the answer goes out, so that whoever has it finds it counted."""

    def __init__(self, app: ASGIApp, *, meters: HttpMetrics) -> None:
        self._app, self._meters = app, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; one that ends without an answer is answered 500 around us."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answered = time.perf_counter(), False

        async def count_and_send(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                self._count(scope, message["status"], began)
            await send(message)

        try:
            await self._app(scope, receive, count_and_send)
        except Exception:
            if not answered:
                self._meters.problems[ServiceError.code].inc()
                self._count(scope, 500, began)
            raise

    def _count(self, scope: Scope, status: int, began: float) -> None:
        route = getattr(scope.get("route"), "path", OTHER)
        if (code := code_of(scope)) is not None:
            self._meters.problems[code].inc()
        method = scope["method"] if scope["method"] in _METHODS else OTHER
        self._meters.requests[route, method, str(status)].inc()
        self._meters.request_seconds[route, method].observe(time.perf_counter() - began)
