"""Knows what a topology is to the store: the pair that every call names, its layout, its settings, its doom."""

import struct
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from acker_protocol.errors import StoreUnavailable

from acker_service.redis import keys
from acker_service.redis.codec import Layout
from acker_service.topologies.config import TopologyConfig


class StaleStamp(Exception):
    """A shard's stamp is not the pair that a call named; ``pair`` is the stamp, if any. Nothing was done."""

    def __init__(self, key: str, pair: str) -> None:
        super().__init__(key, pair)
        self.key, self.stamp = key, pair


class TopologyRecreated(StoreUnavailable):
    """A topology was deleted and made again in the middle of a call; nothing was done."""


class Deletion(StrEnum):
    """What a topology is marked for: that it is being counted, will go once it is read out, or is going now."""

    CHECKING = "probe"
    DRAINING = "force"
    DELETING = "gone"


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A topology as it was last read. ``pair`` is its incarnation (16 hex digits) and version (10 digits).

    ``doom`` is set while it is being removed, since ``doomed_ms`` by Redis's clock.
    """

    name: str
    stamp: str
    config: TopologyConfig
    window_ms: int
    deletion: Deletion | None = None
    deletion_started_ms: int = 0

    @property
    def incarnation(self) -> str:
        """Names this life of the topology: one made again under the same name has another, higher one."""
        return self.stamp[:16]

    @property
    def layout(self) -> Layout:
        """How its roots are laid out."""
        return Layout(shards=self.config.shards, buckets=self.config.buckets)

    @property
    def seen_sets(self) -> int:
        """Over how many sets a shard's remembered requests are spread."""
        return max(16, self.config.buckets // 4)

    @cached_property
    def shards(self) -> list[str]:
        """The stamp keys of its shards."""
        return [keys.shard(self.name, number) for number in range(self.config.shards)]

    @cached_property
    def settings(self) -> bytes:
        """What Lua needs to know of the configuration."""
        rules = self.config.rules
        return struct.pack(
            ">IIIIIB",
            rules.message_timeout_ms,
            rules.progress_timeout_ms,
            rules.dedupe_window_ms,
            rules.retention_ms,
            self.window_ms,
            rules.tracked,
        )


def unwrap(key: str, reply: list[Any]) -> list[Any]:
    """Give a reply without its leading word, or raise `Stale`."""
    if reply[0] == b"stale":
        raise StaleStamp(key, reply[1].decode())
    return reply[1:]
