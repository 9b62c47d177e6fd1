"""Knows how a request's body is read: which types, up to which size."""

from typing import Any

from acker_protocol.problems import TooLarge, UnsupportedMediaType
from acker_protocol.wire.operations import decode_json
from fastapi import Request

JSON = "application/json"


async def read_json(request: Request, *, most: int) -> dict[str, Any]:
    """Read a body that must be a JSON object of at most ``most`` bytes.

    Raises `UnsupportedMediaType`, `TooLarge`, `Invalid`.
    """
    kind = request.headers.get("content-type", "")
    if kind.split(";")[0].strip().lower() != JSON:
        shown = kind or "none"
        raise UnsupportedMediaType(f"the content type is {shown}; send {JSON} (with curl: -H 'Content-Type: {JSON}')")
    return decode_json(await _read(request, most))


async def read_json_if_any(request: Request, *, most: int) -> dict[str, Any]:
    """Likewise, but no body and no content type is an empty object."""
    if "content-type" not in request.headers and not await _read(request, most):
        return {}
    return await read_json(request, most=most)


async def _read(request: Request, most: int) -> bytes:
    """Read a body of known length or chunked; one that is too large is left unread."""
    length = request.headers.get("content-length", "0")
    body = bytearray()
    if not length.isdecimal() or int(length) > most:
        raise TooLarge(f"the body has {length} bytes; at most {most} are taken")
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise TooLarge(f"the body has more than {most} bytes")
    return bytes(body)
