"""HEAD: what GET would answer, without a body and without the work that only the body needs."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from acker_service.http.parameters import JSON
from acker_service.topologies.registry import TopologyRegistry

METHOD = "HEAD"


class _Route(APIRoute):
    """A route; one that answers GET answers HEAD too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.methods and "GET" in self.methods:
            self.methods.add(METHOD)


class Router(APIRouter):
    """A router whose routes answer HEAD wherever they answer GET."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(route_class=_Route, **kwargs)


class HeadAnswered(Exception):
    """The answer to a HEAD is known: these headers, beside those that every answer has."""

    def __init__(self, media_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(media_type)
        self.media_type = media_type
        self.headers = headers


def is_head(request: Request) -> bool:
    """Whether a request asks for no body."""
    return request.method == METHOD


def end_head(request: Request, *, media_type: str = JSON, headers: Mapping[str, str] | None = None) -> None:
    """End the answer here if the request is a HEAD: what follows is work for the body.

    The answer names no length, which only the body would tell. Raises `HeadAnswered`.
    """
    if is_head(request):
        raise HeadAnswered(media_type, headers or {})


async def refresh_for_head(request: Request, registry: TopologyRegistry, topology: str) -> None:
    """Read a topology anew if the request is a HEAD, which asks no shard and so would not find it deleted.

    Raises `UnknownTopology`.
    """
    if is_head(request):
        await registry.refresh(topology)


def install(app: FastAPI) -> None:
    """Answer each HEAD of this app that ends before the work for its body."""
    app.add_exception_handler(HeadAnswered, _respond)


async def _respond(_: Request, answered: Exception) -> Response:
    assert isinstance(answered, HeadAnswered)
    response = Response(media_type=answered.media_type, headers=answered.headers)
    del response.headers["Content-Length"]
    return response
