"""A topology as it was last read, and the cursors that point into its shards."""

import base64
import binascii
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from acker_protocol.errors import InvalidRequest, StoreUnavailable

from acker_service.redis.calls import shard_keys
from acker_service.redis.codec import Layout
from acker_service.redis.functions import pack_settings
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig

_CURSOR_HEAD = struct.Struct(">B8s")


class TopologyRecreated(StoreUnavailable):
    """A topology was deleted and created again in the middle of a call; the call changed nothing."""


class Deletion(StrEnum):
    """The state of a deletion, as Redis stores it: counting what is left, draining, or deleting."""

    CHECKING = "probe"
    DRAINING = "force"
    DELETING = "gone"


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A topology as it was last read. ``window_ms`` is how long requests are remembered, in milliseconds.

    ``deletion`` is set while it is being deleted, since ``deletion_started_ms`` by Redis's clock.
    """

    name: str
    stamp: Stamp
    config: TopologyConfig
    window_ms: int
    deletion: Deletion | None = None
    deletion_started_ms: int = 0

    @property
    def incarnation(self) -> str:
        """Distinguishes topologies created one after another under the same name.

        The later one has the higher incarnation.
        """
        return self.stamp.incarnation

    @cached_property
    def layout(self) -> Layout:
        """How its roots are laid out."""
        return Layout(shards=self.config.shards, buckets=self.config.buckets)

    @property
    def seen_sets(self) -> int:
        """The number of sets over which a shard spreads the requests that it remembers."""
        return max(16, self.config.buckets // 4)

    @cached_property
    def shards(self) -> list[str]:
        """The keys that hold the stamps of its shards."""
        return shard_keys(self.name, self.config.shards)

    @cached_property
    def settings(self) -> bytes:
        """The rules that every call on a shard passes to Lua."""
        return pack_settings(self.config.rules, self.window_ms)


@dataclass(frozen=True, slots=True)
class CursorCodec:
    """One format of cursors: its number, and the layout of a row of integers, one row per shard."""

    format: int
    row: struct.Struct

    def encode(self, incarnation: str, rows: Iterable[tuple[int, ...]]) -> str:
        """Encode rows for one incarnation of a topology."""
        packed = _CURSOR_HEAD.pack(self.format, bytes.fromhex(incarnation)) + b"".join(
            self.row.pack(*row) for row in rows
        )
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    def decode(self, text: str, incarnation: str) -> list[tuple[int, ...]] | None:
        """Decode the rows; None for a cursor of another incarnation or format. Raises `InvalidRequest`."""
        try:
            packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
            number, raw_incarnation = _CURSOR_HEAD.unpack_from(packed)
            rows = list(self.row.iter_unpack(packed[_CURSOR_HEAD.size :]))
        except (ValueError, binascii.Error, struct.error):
            raise InvalidRequest("cursor is not one that was given here") from None
        return rows if (number, raw_incarnation.hex()) == (self.format, incarnation) else None
