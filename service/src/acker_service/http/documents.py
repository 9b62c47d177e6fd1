"""Reads the documents that requests have as their bodies."""

from typing import Any

from acker_protocol.wire.operations import decode_json
from fastapi import Request

from acker_service.http.auth import check_again
from acker_service.http.parameters import JSON, check_content_type, check_length, read_body


async def read_json(request: Request, *, max_bytes: int) -> dict[str, Any]:
    """Read a body that must be a JSON object of at most ``max_bytes`` bytes.

    Raises `UnsupportedMediaType`, `TooLarge`, `InvalidRequest`, and what `check_again` raises.
    """
    check_content_type(request.headers.get("content-type", ""), JSON)
    return decode_json(await _read_body(request, max_bytes=max_bytes))


async def read_json_if_any(request: Request, *, max_bytes: int) -> dict[str, Any]:
    """Read a JSON object as `read_json` does; a request without a body is an empty one, whatever its content type."""
    body = await _read_body(request, max_bytes=max_bytes)
    if not body:
        return {}
    check_content_type(request.headers.get("content-type", ""), JSON)
    return decode_json(body)


async def _read_body(request: Request, *, max_bytes: int) -> bytes:
    check_length(request.headers.get("content-length", "0"), max_bytes=max_bytes)
    body = await read_body(request.receive, max_bytes=max_bytes)
    # rule: a request is not carried out whose key was removed while its body arrived
    check_again(request)
    return body
