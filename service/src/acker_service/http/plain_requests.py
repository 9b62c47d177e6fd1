"""Reads requests to operations that come in their plain form: whole, in one piece, with nothing that needs a parser.

Nearly all requests of clients are plain, and those of one client differ in few lines. So a head is split into lines,
and each is looked up among the lines that were read before. Whatever is not plain is left to the parser of HTTP: a body
in chunks, a head in pieces, several requests at once, a header that is there twice, `Expect`, HTTP/1.0.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from acker_service.http.operations import Address, Headers

MAX_HEAD_BYTES = 8_192
"""How long a plain head may be."""
MAX_LINES = 64
"""How many headers it may have."""
MAX_KNOWN = 4_096
"""How many lines are remembered with what they say."""
MAX_KNOWN_BYTES = 512
"""How long a line may be to be remembered."""

_END = b"\r\n\r\n"
_REQUEST = re.compile(rb"POST (/[A-Za-z0-9._/-]{1,255})(?:\?([A-Za-z0-9=&_-]{0,64}))? HTTP/1\.1")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([!-~](?:[ -~]*[!-~])?)")

Known = dict[bytes, tuple[bytes, bytes]]
"""Lines, and the two things that each says."""

_OWN = frozenset((b"idempotency-key", b"x-request-id", b"traceparent"))
"""Headers that hardly two requests have alike: their lines are not remembered, or they would push out all others."""
_NOT_PLAIN = frozenset((b"transfer-encoding", b"expect", b"upgrade", b"trailer", b"te"))


@dataclass(slots=True)
class PlainRequest:
    """A POST to an address of operations. ``headers`` has one value of each name, in lower case."""

    address: Address
    query: bytes
    headers: Headers
    body: bytes


class PlainRequests:
    """Reads plain requests; ``find`` gives the address of operations that a path is, None for another path.

    A head that is longer than ``max_head_bytes`` is not plain: the parser of HTTP says whether it may be so long.
    """

    def __init__(self, find: Callable[[str], Address | None], *, max_head_bytes: int = MAX_HEAD_BYTES) -> None:
        self._find = find
        self._max_head_bytes = min(max_head_bytes, MAX_HEAD_BYTES)
        self._firsts: Known = {}
        self._lines: Known = {}

    def read(self, data: bytes) -> PlainRequest | None:
        """Read a request; None for bytes that are not one plain request to an address of operations."""
        end = data.find(_END, 0, self._max_head_bytes)
        if end < 0:
            return None
        first, *lines = data[:end].split(b"\r\n")
        known, headers = self._lines, dict[bytes, bytes]()
        path, query = self._firsts.get(first) or _read_first(first, self._firsts)
        if not path or len(lines) > MAX_LINES:
            return None
        for line in lines:
            name, value = known.get(line) or _read_header(line, known)
            headers[name] = value
        body = data[end + len(_END) :]
        if len(headers) != len(lines) or b"" in headers or not _is_plain(headers, len(body)):
            return None
        address = self._find(path.decode("ascii"))
        return None if address is None else PlainRequest(address, query, headers, body)


def _read_first(line: bytes, known: Known) -> tuple[bytes, bytes]:
    """Return the path and the query that the first line names; nothing where it has another form."""
    found = _REQUEST.fullmatch(line)
    return (b"", b"") if found is None else _remember(line, (found[1], found[2] or b""), known)


def _read_header(line: bytes, known: Known) -> tuple[bytes, bytes]:
    """Return the name, in lower case, and the value of a header; nothing where it has another form."""
    found = _HEADER.fullmatch(line)
    if found is None:
        return b"", b""
    pair = found[1].lower(), found[2]
    return pair if pair[0] in _OWN else _remember(line, pair, known)


def _remember(line: bytes, pair: tuple[bytes, bytes], known: Known) -> tuple[bytes, bytes]:
    if len(line) <= MAX_KNOWN_BYTES:
        if len(known) >= MAX_KNOWN:
            known.clear()
        known[line] = pair
    return pair


def _is_plain(headers: Headers, size: int) -> bool:
    """Whether the body of a request is all that follows its head, and the connection stays as it is."""
    length = headers.get(b"content-length", b"")
    return (
        length.isdigit()
        and len(length) <= len(str(size)) + 1
        and int(length) == size
        and _NOT_PLAIN.isdisjoint(headers)
        and headers.get(b"connection", b"keep-alive").lower() == b"keep-alive"
    )
