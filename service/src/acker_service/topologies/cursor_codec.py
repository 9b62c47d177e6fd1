"""Encodes positions in the shards of a topology as opaque cursors that callers hold."""

import base64
import binascii
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from acker_protocol.errors import InvalidRequest

_HEAD = struct.Struct(">B8s")


@dataclass(frozen=True, slots=True)
class CursorCodec:
    """One format of cursors: its number, and the layout of a row of integers, one row a shard."""

    format: int
    row: struct.Struct

    def encode(self, incarnation: str, rows: Iterable[tuple[int, ...]]) -> str:
        """Encode rows for one incarnation of a topology."""
        packed = _HEAD.pack(self.format, bytes.fromhex(incarnation)) + b"".join(self.row.pack(*row) for row in rows)
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    def decode(self, text: str, incarnation: str) -> list[tuple[int, ...]] | None:
        """Decode the rows; None for a cursor of another incarnation or format. Raises `InvalidRequest`."""
        try:
            packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
            number, raw_incarnation = _HEAD.unpack_from(packed)
            rows = list(self.row.iter_unpack(packed[_HEAD.size :]))
        except (ValueError, binascii.Error, struct.error):
            raise InvalidRequest("cursor is not one that was given here") from None
        return rows if (number, raw_incarnation.hex()) == (self.format, incarnation) else None
