"""The 64-bit ids of roots and edges: parse, format, draw and derive them.

An id is an ``int`` from 1 to 2**64 - 1; on the wire it is a string of 16 lowercase hex digits. An *ack val* is the XOR
of edge ids, written the same way, and may be zero.
"""

import hashlib
import hmac
import os
import re
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SPOUT_EDGE = 0
"""The parent edge of an edge that a spout derives: a spout tuple has no parent."""

_HEX = re.compile(r"[0-9a-f]{16}", re.ASCII)


def parse_ack_val(text: str) -> int:
    """Read 16 lowercase hex digits. Raises ``ValueError`` for anything else."""
    if not _HEX.fullmatch(text):
        raise ValueError("must be a string of 16 lowercase hex digits")
    return int(text, 16)


def parse_id(text: str) -> int:
    """Read a root id or an edge id: as an ack val, but never zero. Raises ``ValueError``."""
    value = parse_ack_val(text)
    if not value:
        raise ValueError("must not be zero")
    return value


def format_id(value: int) -> str:
    """Write an id or an ack val as 16 lowercase hex digits."""
    return f"{value:016x}"


def fold(ids: "Iterable[int]") -> int:
    """Return the XOR of these ids, zero for none: the ack val of a set of edges."""
    return reduce(xor, ids, 0)


def draw_id(entropy: "Callable[[int], bytes]" = os.urandom) -> int:
    """Draw a new id from a cryptographic source.

    Never zero. Two of a million ids of 64 random bits collide with a probability of 3e-8; with Storm's 48-bit
    generator it is 2e-3.
    """
    while not (value := int.from_bytes(entropy(8), "big")):
        pass
    return value


def derive_edge(*, root_id: int, parent_edge: int, component: str, name: str) -> int:
    """Derive the edge id of a child, so that a re-run of the same work gives the same id.

    The first 8 bytes of HMAC-SHA256, keyed with the root id (8 bytes, big-endian), over the parent edge id (8
    bytes; a spout's edge has the parent ``SPOUT_EDGE``), the component in UTF-8, one zero byte and the name in
    UTF-8. If they are zero, the first 8 bytes of the HMAC of the whole digest, and so on. ``name`` is a business key of
    the child within its parent.
    """
    key = root_id.to_bytes(8, "big")
    digest = _hmac(key, parent_edge.to_bytes(8, "big") + component.encode() + b"\0" + name.encode())
    while not (value := int.from_bytes(digest[:8], "big")):
        digest = _hmac(key, digest)
    return value


def completion_id(*, incarnation: str, root_id: int, started_ms: int, outcome: str) -> str:
    """Return the id of a completion: 32 hex digits, the same for every delivery of it."""
    text = f"{incarnation}:{format_id(root_id)}:{started_ms}:{outcome}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")
