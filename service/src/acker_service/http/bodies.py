"""Reads request bodies: checks the content type and bounds the size."""

from typing import Any

from acker_protocol.errors import TooLarge, UnsupportedMediaType
from acker_protocol.wire.operations import CONTENT_TYPE, decode_json
from fastapi import Request

JSON = CONTENT_TYPE


async def read_json(request: Request, *, max_bytes: int) -> dict[str, Any]:
    """Read a body that must be a JSON object of at most ``max_bytes`` bytes.

    Raises `UnsupportedMediaType`, `TooLarge`, `InvalidRequest`.
    """
    content_type(request, JSON)
    return decode_json(await read(request, max_bytes=max_bytes))


def content_type(request: Request, *supported: str) -> str:
    """Give the content type of a request, without parameters. Raises `UnsupportedMediaType` for any not supported."""
    kind = request.headers.get("content-type", "")
    plain = kind.split(";")[0].strip().lower()
    if plain not in supported:
        hint = f"send {' or '.join(supported)} (with curl: -H 'Content-Type: {supported[0]}')"
        raise UnsupportedMediaType(f"the content type is {kind or 'none'}; {hint}")
    return plain


async def read_json_if_any(request: Request, *, max_bytes: int) -> dict[str, Any]:
    """Read a JSON object; a request without a body and a content type is an empty one."""
    if "content-type" not in request.headers and not await read(request, max_bytes=max_bytes):
        return {}
    return await read_json(request, max_bytes=max_bytes)


async def read(request: Request, *, max_bytes: int) -> bytes:
    """Read a body of known length or chunked; one that is too large is not read to its end. Raises `TooLarge`."""
    length = request.headers.get("content-length", "0")
    body = bytearray()
    if not length.isdecimal() or int(length) > max_bytes:
        raise TooLarge(f"the body has {length} bytes; at most {max_bytes} are taken")
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise TooLarge(f"the body has more than {max_bytes} bytes")
    return bytes(body)
