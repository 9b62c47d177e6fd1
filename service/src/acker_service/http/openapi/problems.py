"""Knows how the document writes problems: a response for each status, with the codes that it may tell of."""

import inspect
import json
from collections.abc import Iterable
from http import HTTPStatus

from acker_protocol.errors import MEDIA_TYPE, InvalidRequest, ServiceError, TooLarge

from acker_service.http.errors import RETRY_AFTER_MS, respond
from acker_service.http.openapi.shapes import Json, integer, opened, ref

BEFORE = {HTTPStatus.BAD_REQUEST: InvalidRequest, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: TooLarge}
"""What any address may be answered before the request is understood: no HTTP, or a head that is too large."""

SCHEMA: Json = opened(
    {
        "type": {"type": "string", "pattern": "^urn:acker:problem:[a-z_]+$", "description": "The code, as a URN."},
        "title": {"type": "string", "description": "What is wrong, the same for all of a code."},
        "status": integer(range(400, 600), "The status of the answer."),
        "detail": {"type": "string", "description": "What is wrong here, for people."},
        "code": {"type": "string", "description": "What programs look at."},
        "retryable": {"type": "boolean", "description": "Whether the same request may be sent again, and may help."},
        "retry_after_ms": {"type": "integer", "minimum": 1, "description": "When, where that is known."},
        "index": {"type": "integer", "minimum": 0, "description": "Which operation of a batch is malformed, from 0."},
        "root_id": ref("Id") | {"description": "The root of the operation that was refused."},
    },
    *("type", "title", "status", "detail", "code", "retryable"),
    description="What is wrong (RFC 9457).",
)

_RETRY_AFTER: Json = {"required": True, "schema": {"type": "integer", "minimum": 1}, "description": "Seconds to wait."}
_CHALLENGE: Json = {"required": True, "schema": {"const": "Bearer"}, "description": "How to show a key."}
_ALLOW: Json = {"required": True, "schema": {"type": "string"}, "description": "The methods that are allowed."}
_HEADERS: dict[int, Json] = {401: {"WWW-Authenticate": _CHALLENGE}, 405: {"Allow": _ALLOW}}


def responses(kinds: Iterable[type[ServiceError]]) -> dict[int, Json]:
    """Write what may go wrong: a response by status, with its codes."""
    by_status: dict[int, list[type[ServiceError]]] = {int(status): [kind] for status, kind in BEFORE.items()}
    for kind in sorted(set(kinds), key=lambda kind: (kind.status, kind.code)):
        by_status.setdefault(kind.status, []).append(kind)
    return {status: response(status, some) for status, some in by_status.items()}


def name(status: int, response: Json) -> str:
    """Give the name under which the document has a response."""
    return ".".join([str(status), *response["content"][MEDIA_TYPE]["examples"]])


def response(status: int, kinds: list[type[ServiceError]]) -> Json:
    """Write a response that tells of one of these problems."""
    told = opened({"status": {"const": status}, "code": {"enum": [kind.code for kind in kinds]}})
    waits = {"Retry-After": _RETRY_AFTER} if all(kind.code in RETRY_AFTER_MS for kind in kinds) else {}
    headers = _HEADERS.get(status, {}) | waits
    content = {
        "schema": {"allOf": [ref("Problem"), told]},
        "examples": {kind.code: {"summary": kind.title, "value": _example(status, kind)} for kind in kinds},
    }
    return {
        "description": "\n".join(f"- `{kind.code}`: {_said(kind)}" for kind in kinds),
        **({"headers": headers} if headers else {}),
        "content": {MEDIA_TYPE: content},
    }


def _example(status: int, kind: type[ServiceError]) -> Json:
    document: Json = json.loads(bytes(respond(kind(_said(kind))).body))
    return document | {"status": status}


def _said(kind: type[ServiceError]) -> str:
    return inspect.getdoc(kind).partition("\n\n")[0].replace("\n", " ")  # type: ignore[union-attr]
