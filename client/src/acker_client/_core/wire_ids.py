"""The ids of an ack as they travel: as text in the header, and as bytes in a packed batch.

Each function has two bodies: these, and those of ``wire_ids.pxd``, which take their place in the compiled hot path.
"""

import struct
from binascii import unhexlify
from typing import Any

from acker_protocol.anchors import ANCHOR_LENGTH
from acker_protocol.wire.packed import ACK, OUTSTANDING_GIVEN

_two_ids = struct.Struct(">QQ")
_pack_two, _unpack_two = _two_ids.pack, _two_ids.unpack

_pack_ack = struct.Struct(">IiQQQ16xI").pack
"""A record of `packed.RECORD` for an ack: op and flags as one number, and zeros for what an ack has not."""
_COUNTED = ACK << 16 | OUTSTANDING_GIVEN


def read_two(value: Any, prefix: str) -> tuple[int, int]:
    """Read the header's value of one anchor: return its root id and its edge id.

    One is zero for any other value, and may be for one that has no letter among its digits.
    """
    start = len(prefix)
    if type(value) is not str or len(value) != start + ANCHOR_LENGTH or not value.startswith(prefix):
        return 0, 0
    digits = value[start : start + 16] + value[start + 17 :]
    if value[start + 16] != "-" or not digits.islower():
        return 0, 0
    try:
        root, edge = _unpack_two(unhexlify(digits))
    except ValueError:
        return 0, 0
    return root, edge


def write_two(prefix: str, root: int, edge: int) -> str:
    """Write the header's value of one anchor."""
    return prefix + _pack_two(root, edge).hex("-", 8)


def pack_ack(records: bytearray, root: int, ack_val: int, edge: int, outstanding: int, component: int) -> None:
    """Add the record of an ack; ``component`` is the number of a string."""
    records += _pack_ack(_COUNTED, outstanding, root, ack_val, edge, component)


def id_bytes(value: int) -> bytes:
    """Write a number of 64 bits as 8 bytes."""
    return value.to_bytes(8, "big")


def first_id(content: bytes) -> int:
    """Read the first 8 bytes as a number."""
    return int.from_bytes(content[:8], "big")
