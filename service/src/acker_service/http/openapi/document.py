"""Builds the OpenAPI document from the routes and the descriptions beside them."""

import functools
from collections.abc import Iterator

from acker_protocol.errors import MethodNotAllowed, NotFound
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute

from acker_service.http.openapi import (
    callbacks,
    completions,
    dead_letters,
    health,
    operations,
    problems,
    roots,
    shapes,
    spouts,
    topologies,
)
from acker_service.http.openapi.causes import causes
from acker_service.http.openapi.described import Described
from acker_service.http.openapi.parameters import parameter
from acker_service.http.openapi.prose import ABOUT, TAGS
from acker_service.http.openapi.shapes import Json

_FIXED = (topologies, spouts, callbacks, roots, completions, dead_letters, health)
_MODULES = (*_FIXED, operations)


def operation_id(route: APIRoute) -> str:
    """Name an endpoint after its route; FastAPI's ``generate_unique_id_function``."""
    return route.name.replace("-", "_")


def install(app: FastAPI, *, max_batch: int) -> None:
    """Add the route `/openapi.json`, which describes all routes of the app and requires no key."""
    router = APIRouter(tags=["health"])

    @functools.cache
    def written() -> bytes:
        """Write the document once: it is large, and anybody may ask for it again and again."""
        return bytes(JSONResponse(document(app, max_batch=max_batch)).body)

    @router.get("/openapi.json")
    async def openapi() -> Response:
        """Give this document; it asks for no key."""
        return Response(written(), media_type="application/json")

    app.include_router(router)


def document(app: FastAPI, *, max_batch: int) -> Json:
    """Build the document. Raises ``KeyError`` for a route without a description."""
    written = get_openapi(title=app.title, version=app.version, description=ABOUT, tags=TAGS, routes=app.routes)
    described = _described(max_batch)
    responses = _general_responses()
    for path, operation in _operations(written):
        own = described[operation["operationId"]]
        found = problems.responses(causes(path, operation, own))
        named = {status: problems.name(status, response) for status, response in found.items()}
        responses |= {named[status]: response for status, response in found.items()}
        _complete(operation, own, named)
    if app.state.keys is None:
        _make_key_optional(written)
    written["components"] |= {"schemas": _schemas(), "responses": dict(sorted(responses.items()))}
    return written | {"webhooks": callbacks.WEBHOOKS}


def _described(max_batch: int) -> dict[str, Described]:
    fixed = {name: one for module in _FIXED for name, one in module.DESCRIBED.items()}
    return fixed | operations.described(max_batch)


def _schemas() -> Json:
    schemas = shapes.SCHEMAS | {"Problem": problems.SCHEMA}
    for module in _MODULES:
        schemas = schemas | module.SCHEMAS
    return dict(sorted(schemas.items()))


def _general_responses() -> Json:
    """Write the responses of addresses without an endpoint."""
    responses = {kind.status: problems.response(kind.status, [kind]) for kind in (NotFound, MethodNotAllowed)}
    return {problems.name(status, response): response for status, response in responses.items()}


def _operations(written: Json) -> Iterator[tuple[str, Json]]:
    for path, item in written["paths"].items():
        for operation in item.values():
            yield path, operation


def _make_key_optional(written: Json) -> None:
    """Make the key optional in every operation."""
    for _, operation in _operations(written):
        if "security" in operation:
            operation["security"].append({})


def _complete(operation: Json, own: Described, problems_named: dict[int, str]) -> None:
    """Complete an operation with its description and its problems."""
    answers = {status: {"$ref": f"#/components/responses/{name}"} for status, name in problems_named.items()}
    answers |= {answer.status: answer.document() for answer in own.answers}
    scopes = [f"Scope: `{name}`." for need in operation.get("security", ()) for name in need["key"]]
    operation["summary"] = own.summary
    operation["description"] = "\n\n".join(filter(None, (operation["description"], own.notes, *scopes)))
    operation["responses"] = {str(status): answers[status] for status in sorted(answers)}
    if "parameters" in operation:
        operation["parameters"] = [parameter(declared) for declared in operation["parameters"]]
    if own.body:
        operation["requestBody"] = own.body.document()
