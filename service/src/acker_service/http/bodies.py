"""Knows how a request's body is read: which types, up to which size."""

from typing import Any

from acker_protocol.errors import TooLarge, UnsupportedMediaType
from acker_protocol.wire.operations import CONTENT_TYPE, decode_json
from fastapi import Request

JSON = CONTENT_TYPE


async def read_json(request: Request, *, most: int) -> dict[str, Any]:
    """Read a body that must be a JSON object of at most ``most`` bytes.

    Raises `UnsupportedMediaType`, `TooLarge`, `Invalid`.
    """
    content_type(request, JSON)
    return decode_json(await read(request, most=most))


def content_type(request: Request, *taken: str) -> str:
    """Give which of the content types that are taken here a request has. Raises `UnsupportedMediaType`."""
    kind = request.headers.get("content-type", "")
    plain = kind.split(";")[0].strip().lower()
    if plain not in taken:
        hint = f"send {' or '.join(taken)} (with curl: -H 'Content-Type: {taken[0]}')"
        raise UnsupportedMediaType(f"the content type is {kind or 'none'}; {hint}")
    return plain


async def read_json_if_any(request: Request, *, most: int) -> dict[str, Any]:
    """Likewise, but no body and no content type is an empty object."""
    if "content-type" not in request.headers and not await read(request, most=most):
        return {}
    return await read_json(request, most=most)


async def read(request: Request, *, most: int) -> bytes:
    """Read a body of known length or chunked; one that is too large is left unread. Raises `TooLarge`."""
    length = request.headers.get("content-length", "0")
    body = bytearray()
    if not length.isdecimal() or int(length) > most:
        raise TooLarge(f"the body has {length} bytes; at most {most} are taken")
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise TooLarge(f"the body has more than {most} bytes")
    return bytes(body)
