"""Writes problem responses: one for each status, with its possible codes."""

import inspect
import json
from collections.abc import Iterable
from http import HTTPStatus

from acker_protocol.errors import MEDIA_TYPE, InvalidRequest, ServiceError, TooLarge

from acker_service.http.errors import RETRY_AFTER_MS, respond
from acker_service.http.openapi.shapes import Json, integer, opened, ref

BEFORE = {HTTPStatus.BAD_REQUEST: InvalidRequest, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: TooLarge}
"""Errors of any address before the request is parsed: malformed HTTP, or a head that is too large."""

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
    """Write the responses of these errors, by status."""
    by_status: dict[int, list[type[ServiceError]]] = {int(status): [kind] for status, kind in BEFORE.items()}
    for kind in sorted(set(kinds), key=lambda kind: (kind.status, kind.code)):
        by_status.setdefault(kind.status, []).append(kind)
    return {status: response(status, some) for status, some in by_status.items()}


def name(status: int, response: Json) -> str:
    """Give the name of a response in the document: its status and codes."""
    return ".".join([str(status), *response["content"][MEDIA_TYPE]["examples"]])


def response(status: int, kinds: list[type[ServiceError]]) -> Json:
    """Write the response for errors of one status."""
    schema = opened({"status": {"const": status}, "code": {"enum": [kind.code for kind in kinds]}})
    waits = {"Retry-After": _RETRY_AFTER} if all(kind.code in RETRY_AFTER_MS for kind in kinds) else {}
    headers = _HEADERS.get(status, {}) | waits
    content = {
        "schema": {"allOf": [ref("Problem"), schema]},
        "examples": {kind.code: {"summary": kind.title, "value": _example(status, kind)} for kind in kinds},
    }
    return {
        "description": "\n".join(f"- `{kind.code}`: {_first_paragraph(kind)}" for kind in kinds),
        **({"headers": headers} if headers else {}),
        "content": {MEDIA_TYPE: content},
    }


def _example(status: int, kind: type[ServiceError]) -> Json:
    document: Json = json.loads(bytes(respond(kind(_first_paragraph(kind))).body))
    return document | {"status": status}


def _first_paragraph(kind: type[ServiceError]) -> str:
    return inspect.getdoc(kind).partition("\n\n")[0].replace("\n", " ")  # type: ignore[union-attr]
