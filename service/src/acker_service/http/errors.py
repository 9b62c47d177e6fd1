"""Turns everything that goes wrong into problem documents (RFC 9457)."""

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

from acker_protocol.errors import MEDIA_TYPE, InvalidRequest, MethodNotAllowed, NotFound, ServiceError
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

RETRY_AFTER_MS = {"max_spout_pending": 200, "mailbox_full": 1_000, "store_full": 1_000, "overloaded": 1_000}
RETRY_AFTER_MS["store_unavailable"] = 1_000

_CODE = "acker.problem"
_log = logging.getLogger(__name__)


def respond(problem: ServiceError) -> JSONResponse:
    """Write a problem as a response, with `Retry-After` where waiting helps."""
    document, headers = problem.document(), {}
    if delay := RETRY_AFTER_MS.get(problem.code):
        document["retry_after_ms"] = delay
        headers["Retry-After"] = str(math.ceil(delay / 1000))
    if problem.code == "unauthorized":
        headers["WWW-Authenticate"] = "Bearer"
    response = ProblemResponse(document, status_code=problem.status, headers=headers, media_type=MEDIA_TYPE)
    response.code = problem.code
    return response


def code_of(scope: Scope) -> str | None:
    """Give the code of the problem that a request is answered with, once its answer begins."""
    code: str | None = scope.get(_CODE)
    return code


class ProblemResponse(JSONResponse):
    """A problem as a response; it notes its code in the request, for whoever counts."""

    code: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        scope[_CODE] = self.code
        await super().__call__(scope, receive, send)


def install(app: FastAPI) -> None:
    """Answer every fault of this app with a problem document."""
    handlers: dict[Any, Callable[[Request, Any], Awaitable[JSONResponse]]] = {
        ServiceError: _on_problem,
        RequestValidationError: _on_invalid,
        HTTPException: _on_http,
        ClientDisconnect: _on_cut,
        Exception: _on_fault,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


async def _on_problem(_: Request, problem: ServiceError) -> JSONResponse:
    return respond(problem)


async def _on_invalid(_: Request, fault: RequestValidationError) -> JSONResponse:
    first = fault.errors()[0]
    return respond(InvalidRequest(f"{first['loc'][-1]}: {first['msg']}"))


async def _on_http(request: Request, fault: HTTPException) -> JSONResponse:
    kinds: dict[int, type[ServiceError]] = {404: NotFound, 405: MethodNotAllowed}
    kind = kinds.get(fault.status_code, InvalidRequest)
    response = respond(kind(f"{request.method} {request.url.path}: {fault.detail}"))
    response.headers.update(fault.headers or {})
    if fault.status_code == 405:
        response.headers["Allow"] = ", ".join(_allowed(request))
    return response


def _allowed(request: Request) -> list[str]:
    """Give the methods of all routes of an address; the router tells those of the first one only."""
    routes = iter_route_contexts(request.app.routes)
    allowed = (route.methods or () for route in routes if route.path_regex.match(request.url.path))
    return sorted(set().union(*allowed))


async def _on_cut(_: Request, __: ClientDisconnect) -> JSONResponse:
    return respond(InvalidRequest("the body was cut off"))


async def _on_fault(request: Request, fault: Exception) -> JSONResponse:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=fault)
    return respond(ServiceError("the acker met a fault of its own; it is in its log"))
