"""Serves the contract, `openapi.yaml`, as `/openapi.json`, filled in with what the app and its settings decide."""

import asyncio
import functools
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import yaml
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from acker_service.http.head import Router, end_head

Json = dict[str, Any]

_METHODS = frozenset({"get", "put", "post", "patch", "delete"})
_SHARED = "x-shared"
"""The member of the file that holds what it refers to by YAML anchors."""


def install(app: FastAPI, *, max_batch: int) -> None:
    """Add the route `/openapi.json`, which describes all routes of the app and requires no key."""
    router = Router(tags=["health"])

    @functools.cache
    def written() -> bytes:
        """Write the document once: it is large, and may be asked for again and again without a key."""
        return bytes(JSONResponse(document(app, max_batch=max_batch)).body)

    @router.get("/openapi.json")
    async def openapi(request: Request) -> Response:
        """Return the document; it is built on the first request, apart from the event loop."""
        end_head(request)
        return Response(await asyncio.to_thread(written), media_type="application/json")

    app.include_router(router)


def document(app: FastAPI, *, max_batch: int) -> Json:
    """Build the document of this app, in which a batch has at most ``max_batch`` operations."""
    written = read_contract()
    written["info"]["version"] = app.version
    written["components"]["schemas"]["Batch"]["properties"]["ops"]["maxItems"] = max_batch
    for operation in _operations(written["paths"]):
        _complete_security(operation, key_required=app.state.keys is not None)
    return written


def read_contract() -> Json:
    """Read the contract as it is written, for the default settings."""
    text = (files("acker_service.http") / "openapi.yaml").read_text(encoding="utf-8")
    written: Json = yaml.load(text, Loader=yaml.CSafeLoader)
    del written[_SHARED]
    return written


def _operations(paths: Json) -> Iterator[Json]:
    """Yield what the contract says of each method of its paths; of HEAD it says one sentence for all."""
    for path in paths.values():
        yield from (path[method] for method in path.keys() & _METHODS)


def _complete_security(operation: Json, *, key_required: bool) -> None:
    """Say which scope an operation needs, and that the key is optional if none is configured."""
    scopes = [scope for requirement in operation["security"] for scope in requirement["key"]]
    operation["description"] = "\n\n".join([operation["description"], *(f"Scope: `{scope}`." for scope in scopes)])
    if scopes and not key_required:
        operation["security"].append({})
