"""Declares path and query parameters, which openapi.yaml describes, and reads request bodies."""

from typing import Annotated, Any

from acker_protocol.errors import InvalidRequest, TooLarge, UnsupportedMediaType
from acker_protocol.wire.fields import LIMIT, WAIT_MS, abbreviate, nearest
from acker_protocol.wire.operations import CONTENT_TYPE, decode_json
from fastapi import Path, Query, Request

JSON = CONTENT_TYPE
MAX_DOCUMENT_BYTES = 65_536
"""The largest body that is no operation: configurations, callbacks and cursors are far smaller."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"

TopologyName = Annotated[str, Path(pattern=NAME)]
SpoutTask = Annotated[str, Path(pattern=NAME)]
RootId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
Limit = Annotated[int, Query(ge=LIMIT.start, le=LIMIT.stop - 1)]
WaitMs = Annotated[int, Query(ge=WAIT_MS.start, le=WAIT_MS.stop - 1)]
After = Annotated[str | None, Query()]
Name = Annotated[str | None, Query(pattern=NAME)]
Until = Annotated[str | None, Query()]
Peek = Annotated[bool, Query()]
Milliseconds = Annotated[int, Query(ge=0, le=2**53 - 1)]
Force = Annotated[bool, Query()]
Discard = Annotated[bool, Query()]


def check_query(request: Request) -> None:
    """Check that the route declares every parameter of the query. Raises `InvalidRequest` with the nearest name."""
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            hint = _hint(name, known)
            raise InvalidRequest(f"{abbreviate(name)} is not a parameter of the query here: {hint}")


def _hint(name: str, known: list[str]) -> str:
    if not known:
        return "this address takes none"
    meant = nearest(name, known)
    return f"the parameters are {', '.join(known)}" if meant is None else f"did you mean {meant}?"


async def read_json(request: Request, *, max_bytes: int) -> dict[str, Any]:
    """Read a body that must be a JSON object of at most ``max_bytes`` bytes.

    Raises `UnsupportedMediaType`, `TooLarge`, `InvalidRequest`.
    """
    content_type(request, JSON)
    return decode_json(await read_body(request, max_bytes=max_bytes))


def content_type(request: Request, *supported: str) -> str:
    """Give the content type of a request, without parameters. Raises `UnsupportedMediaType` for any not supported."""
    given = request.headers.get("content-type", "")
    plain = given.split(";")[0].strip().lower()
    if plain not in supported:
        hint = f"send {' or '.join(supported)} (with curl: -H 'Content-Type: {supported[0]}')"
        raise UnsupportedMediaType(f"the content type is {given or 'none'}; {hint}")
    return plain


async def read_json_if_any(request: Request, *, max_bytes: int) -> dict[str, Any]:
    """Read a JSON object as `read_json` does; a request without a body is an empty one, whatever its content type."""
    body = await read_body(request, max_bytes=max_bytes)
    if not body:
        return {}
    content_type(request, JSON)
    return decode_json(body)


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """Read a body, with or without Content-Length. Stop reading at the limit. Raises `TooLarge`."""
    length = request.headers.get("content-length", "0")
    body = bytearray()
    if not length.isdecimal() or int(length) > max_bytes:
        raise TooLarge(f"the body has {length} bytes; at most {max_bytes} are taken")
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise TooLarge(f"the body has more than {max_bytes} bytes")
    return bytes(body)
