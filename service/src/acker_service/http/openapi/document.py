"""Knows the whole document: what the routes themselves tell, and beside each what is described of it."""

from collections.abc import Iterator

from acker_protocol.errors import MethodNotAllowed, NotFound
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
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
_ROOMS = (*_FIXED, operations)


def operation_id(route: APIRoute) -> str:
    """Name an endpoint as its route is called; hand it to FastAPI as ``generate_unique_id_function``."""
    return route.name.replace("-", "_")


def install(app: FastAPI, *, max_batch: int) -> None:
    """Let the app answer `/openapi.json`, with all routes that it has; where no keys are configured, none is needed."""
    router = APIRouter(tags=["health"])

    @router.get("/openapi.json")
    async def openapi() -> JSONResponse:
        """Give this document; it asks for no key."""
        app.openapi_schema = app.openapi_schema or document(app, max_batch=max_batch)
        return JSONResponse(app.openapi_schema)

    app.include_router(router)


def document(app: FastAPI, *, max_batch: int) -> Json:
    """Write the document. Raises ``KeyError`` for a route that is not described."""
    written = get_openapi(title=app.title, version=app.version, description=ABOUT, tags=TAGS, routes=app.routes)
    described = _described(max_batch)
    responses = _anywhere()
    for path, operation in _operations(written):
        own = described[operation["operationId"]]
        told = problems.responses(causes(path, operation, own))
        named = {status: problems.name(status, response) for status, response in told.items()}
        responses |= {named[status]: response for status, response in told.items()}
        _complete(operation, own, named)
    if app.state.keys is None:
        _open(written)
    written["components"] |= {"schemas": _schemas(), "responses": dict(sorted(responses.items()))}
    return written | {"webhooks": callbacks.WEBHOOKS}


def _described(max_batch: int) -> dict[str, Described]:
    fixed = {name: one for room in _FIXED for name, one in room.DESCRIBED.items()}
    return fixed | operations.described(max_batch)


def _schemas() -> Json:
    schemas = shapes.SCHEMAS | {"Problem": problems.SCHEMA}
    for room in _ROOMS:
        schemas = schemas | room.SCHEMAS
    return dict(sorted(schemas.items()))


def _anywhere() -> Json:
    """Give what is answered where there is no endpoint."""
    responses = {kind.status: problems.response(kind.status, [kind]) for kind in (NotFound, MethodNotAllowed)}
    return {problems.name(status, response): response for status, response in responses.items()}


def _operations(written: Json) -> Iterator[tuple[str, Json]]:
    for path, item in written["paths"].items():
        for operation in item.values():
            yield path, operation


def _open(written: Json) -> None:
    """Let a key be shown, but not asked for."""
    for _, operation in _operations(written):
        if "security" in operation:
            operation["security"].append({})


def _complete(operation: Json, own: Described, problems_named: dict[int, str]) -> None:
    """Put into an operation what is described of it, and what may go wrong."""
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
