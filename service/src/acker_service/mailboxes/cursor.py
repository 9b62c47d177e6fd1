"""Knows cursors: places in a mailbox, as opaque texts that callers hold."""

import base64
import binascii
import struct
from dataclasses import dataclass, field

from acker_protocol.errors import InvalidRequest

from acker_service.topologies.stamp import Topology

_HEAD = struct.Struct(">B8s")
_POSITION = struct.Struct(">BQQI")
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Position:
    """A place in one shard's mailbox: so many completions of an entry (and all of those before it) are taken."""

    ms: int
    seq: int
    offset: int

    @property
    def entry(self) -> str:
        """The entry, as Redis writes it."""
        return f"{self.ms}-{self.seq}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A place in a whole mailbox: a position per shard; a shard that is left out stands at its beginning."""

    incarnation: str
    positions: dict[int, Position] = field(default_factory=dict)

    def encode(self) -> str:
        """Write it as the opaque text that callers hold."""
        packed = _HEAD.pack(_FORMAT, bytes.fromhex(self.incarnation))
        for shard, at in sorted(self.positions.items()):
            packed += _POSITION.pack(shard, at.ms, at.seq, at.offset)
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def decode_cursor(text: str | None, topology: Topology) -> Cursor:
    """Read a cursor; none, or one of another incarnation or another format, is the beginning. Raises `Invalid`."""
    start = Cursor(incarnation=topology.incarnation)
    if text is None:
        return start
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
        kind, incarnation = _HEAD.unpack_from(packed)
        fields = list(_POSITION.iter_unpack(packed[_HEAD.size :]))
    except (ValueError, binascii.Error, struct.error):
        raise InvalidRequest("cursor is not one that was given here") from None
    if kind != _FORMAT or incarnation.hex() != topology.incarnation:
        return start
    positions = {shard: Position(ms=ms, seq=seq, offset=taken) for shard, ms, seq, taken in fields}
    return Cursor(incarnation=topology.incarnation, positions=positions)
