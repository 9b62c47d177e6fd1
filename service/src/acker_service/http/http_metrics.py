"""Counts requests and measures the time until their answers begin."""

import time

from acker_protocol.errors import ServiceError
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acker_service.http.problems import PROBLEM_CODE
from acker_service.metrics.instruments import HttpMetrics

OTHER = "other"
"""The label of every address without a route, and of every unknown method."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def install(app: FastAPI, *, metrics: HttpMetrics) -> None:
    """Count the requests of this app; install it last, so that it wraps every middleware that refuses requests."""
    app.add_middleware(MetricsMiddleware, metrics=metrics)


class MetricsMiddleware:
    """Counts a request before its answer is sent, so that a client that has the answer finds it counted."""

    def __init__(self, app: ASGIApp, *, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; one that raises before its answer counts as 500, which an outer layer answers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, answered = time.perf_counter(), False

        async def count_and_send(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                self._count(scope, message["status"], started)
            await send(message)

        try:
            await self._app(scope, receive, count_and_send)
        except Exception:
            if not answered:
                self._metrics.problems[ServiceError.code].inc()
                self._count(scope, 500, started)
            raise

    def _count(self, scope: Scope, status: int, started: float) -> None:
        route = getattr(scope.get("route"), "path_format", OTHER)
        count_answer(self._metrics, route, scope["method"], status, scope.get(PROBLEM_CODE), started)


def count_answer(
    metrics: HttpMetrics, route: str, method: str, status: int, problem: str | None, started: float
) -> None:
    """Count an answer that begins now; ``problem`` is the code of its problem document, if it is one."""
    if method not in _METHODS:
        method = OTHER
    if problem is not None:
        metrics.problems[problem].inc()
    metrics.requests[route, method, str(status)].inc()
    metrics.request_seconds[route, method].observe(time.perf_counter() - started)
