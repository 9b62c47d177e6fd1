"""Names each request by its header `X-Request-Id`, or by an id made here, for its answer and its log lines."""

import itertools
import os
import re
from collections.abc import Iterable

from acker_protocol.routes import REQUEST_ID
from starlette.types import Message, Scope, Send

HEADER = REQUEST_ID.lower().encode()
REQUEST_ID_KEY = "acker.request_id"
"""The key in a request's scope that holds its id."""

_VALID = re.compile(rb"[!-~]{1,128}")
_PREFIX = os.urandom(4).hex().encode()
"""Tells the ids of this process from those of others; a random id for each request would take a system call."""
_numbers = itertools.count(int.from_bytes(os.urandom(4)))


def make_id() -> bytes:
    """Make an id: 16 hex digits, unique in this process for four billion requests."""
    return b"%s%08x" % (_PREFIX, next(_numbers) & 0xFFFFFFFF)


def identify(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the id in the first header of a request, if it is 1 to 128 visible ASCII characters; else make one."""
    for name, value in headers:
        if name == HEADER:
            return choose_id(value)
    return make_id()


def choose_id(given: bytes | None) -> bytes:
    """Return the id that a request gives, if it is 1 to 128 visible ASCII characters; else make one."""
    return given if given is not None and _VALID.fullmatch(given) else make_id()


def request_id(scope: Scope) -> str:
    """Return the id of a request."""
    return bytes(scope[REQUEST_ID_KEY]).decode("ascii")


def named(scope: Scope, send: Send) -> Send:
    """Name a request that no connection of ours received, and return a ``send`` that adds the header to its answer."""
    scope[REQUEST_ID_KEY] = identify(scope["headers"])

    async def send_named(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (HEADER, scope[REQUEST_ID_KEY])]
        await send(message)

    return send_named
