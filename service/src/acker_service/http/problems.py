"""Answers every error with a problem document (RFC 9457)."""

import json
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

from acker_protocol.errors import MEDIA_TYPE, InvalidRequest, MethodNotAllowed, NotFound, ServiceError, TooLarge
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from acker_service.http.request_id import HEADER, make_id

RETRY_AFTER_MS = {
    "max_spout_pending": 200,
    "mailbox_full": 1_000,
    "too_many_streams": 5_000,
    "store_full": 1_000,
    "overloaded": 1_000,
    "store_unavailable": 1_000,
}
"""How long a client waits before a retry, by the code of the error, unless the error itself says it."""

PROBLEM_CODE = "acker.problem"
"""The key in a request's scope that holds the code of its problem document, once that answer has begun."""

_log = logging.getLogger(__name__)


def document_of(error: ServiceError) -> dict[str, Any]:
    """Return the problem document of an error, with ``retry_after_ms`` where a retry helps."""
    delay = error.extra.get("retry_after_ms", RETRY_AFTER_MS.get(error.code))
    return error.document() | ({"retry_after_ms": delay} if delay else {})


def respond(error: ServiceError) -> JSONResponse:
    """Make the response of an error, with `Retry-After` where a retry helps."""
    document, headers = document_of(error), {}
    if delay := document.get("retry_after_ms"):
        headers["Retry-After"] = str(math.ceil(delay / 1000))
    if error.code == "unauthorized":
        headers["WWW-Authenticate"] = "Bearer"
    response = ProblemResponse(document, status_code=error.status, headers=headers, media_type=MEDIA_TYPE)
    response.code = error.code
    return response


def encode_refusal(error: ServiceError) -> bytes:
    """Encode the answer to a request that has no route: 431, or 400."""
    status = 431 if isinstance(error, TooLarge) else 400
    body = json.dumps(error.document() | {"status": status}).encode()
    head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
    return b"".join([STATUS_LINE[status], head.encode(), HEADER, b": ", make_id(), b"\r\n\r\n", body])


class ProblemResponse(JSONResponse):
    """A problem document as a response; it records its code in the request's scope, for the metrics."""

    code: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Record the code and send the response."""
        scope[PROBLEM_CODE] = self.code
        await super().__call__(scope, receive, send)


def install(app: FastAPI) -> None:
    """Answer every error of this app with a problem document."""
    handlers: dict[Any, Callable[[Request, Any], Awaitable[JSONResponse]]] = {
        ServiceError: _on_service_error,
        RequestValidationError: _on_invalid,
        HTTPException: _on_http,
        ClientDisconnect: _on_disconnect,
        Exception: _on_unexpected,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


async def _on_service_error(_: Request, error: ServiceError) -> JSONResponse:
    return respond(error)


async def _on_invalid(_: Request, error: RequestValidationError) -> JSONResponse:
    first = error.errors()[0]
    return respond(InvalidRequest(f"{first['loc'][-1]}: {first['msg']}"))


async def _on_http(request: Request, error: HTTPException) -> JSONResponse:
    kinds: dict[int, type[ServiceError]] = {404: NotFound, 405: MethodNotAllowed}
    kind = kinds.get(error.status_code, InvalidRequest)
    method = "GET" if request.method == "HEAD" else request.method  # as long as what GET is answered
    response = respond(kind(f"{method} {request.url.path}: {error.detail}"))
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers["Allow"] = ", ".join(_allowed(request))
    return response


def _allowed(request: Request) -> list[str]:
    """Return the methods of all routes that match an address; the router itself gives those of the first route only."""
    routes = iter_route_contexts(request.app.routes)
    allowed = (route.methods or () for route in routes if route.path_regex.match(request.url.path))
    return sorted(set().union(*allowed))


async def _on_disconnect(_: Request, __: ClientDisconnect) -> JSONResponse:
    return respond(InvalidRequest("the body was cut off"))


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    return respond_unexpected(request.method, request.url.path, error)


def respond_unexpected(method: str, path: str, error: BaseException) -> JSONResponse:
    """Log an error that nobody expects, and make the response."""
    _log.error("%s %s failed", method, path, exc_info=error)
    return respond(ServiceError("the acker met a fault of its own; it is in its log"))
