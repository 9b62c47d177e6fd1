"""Declares path and query parameters, which openapi.yaml describes, and reads headers and bodies of requests."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from acker_protocol.errors import InvalidRequest, TooLarge, UnsupportedMediaType
from acker_protocol.wire.fields import LIMIT, REASON_CHARACTERS, WAIT_MS, abbreviate, nearest
from acker_protocol.wire.operations import CONTENT_TYPE
from fastapi import Path, Query, Request
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import ClientDisconnect
from starlette.types import Receive

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
TextPart = Annotated[str | None, Query(min_length=1, max_length=REASON_CHARACTERS)]
Force = Annotated[bool, Query()]
Discard = Annotated[bool, Query()]


class _OneRoot(StringConvertor):
    """What stands for one root in an address: anything but the word that has an address of its own."""

    regex = "(?!states$)[^/]+"


register_url_convertor("one_root", _OneRoot())


def first_of_each(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the first header of each name."""
    found = dict(headers)
    return found if len(found) == len(headers) else dict(reversed(headers))


def declared_parameters(request: Request) -> list[str]:
    """Return the names of the parameters that the route of a request declares for its query."""
    return [field.alias for field in request.scope["route"].dependant.query_params]


def check_query(names: Iterable[str], known: Sequence[str]) -> None:
    """Check that every parameter of a query is known. Raises `InvalidRequest` with the nearest name."""
    for name in names:
        if name not in known:
            hint = _hint(name, known)
            raise InvalidRequest(f"{abbreviate(name)} is not a parameter of the query here: {hint}")


def _hint(name: str, known: Sequence[str]) -> str:
    if not known:
        return "this address takes none"
    meant = nearest(name, known)
    return f"the parameters are {', '.join(known)}" if meant is None else f"did you mean {meant}?"


def check_content_type(given: str, *supported: str) -> str:
    """Return a content type without its parameters. Raises `UnsupportedMediaType` for any not supported."""
    if given in supported:
        return given
    plain = given.split(";", maxsplit=1)[0].strip().lower()
    if plain not in supported:
        hint = f"send {' or '.join(supported)} (with curl: -H 'Content-Type: {supported[0]}')"
        raise UnsupportedMediaType(f"the content type is {given or 'none'}; {hint}")
    return plain


def check_length(length: str, *, max_bytes: int) -> None:
    """Check the Content-Length of a body, "0" where it has none. Raises `TooLarge`."""
    if not length.isdecimal() or int(length) > max_bytes:
        raise TooLarge(f"the body has {length} bytes; at most {max_bytes} are taken")


async def read_body(receive: Receive, *, max_bytes: int) -> bytes:
    """Read a body part by part, and stop at the limit. Raises `TooLarge`, ``ClientDisconnect`` if it is cut off."""
    body, message = bytearray(), await receive()
    while message["type"] == "http.request":
        body += message.get("body", b"")
        check_size(len(body), max_bytes=max_bytes)
        if not message.get("more_body", False):
            return bytes(body)
        message = await receive()
    raise ClientDisconnect


def check_size(size: int, *, max_bytes: int) -> None:
    """Check the size of what has arrived of a body. Raises `TooLarge`."""
    if size > max_bytes:
        raise TooLarge(f"the body has more than {max_bytes} bytes")
