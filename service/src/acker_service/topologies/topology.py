"""A topology as it was last read."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from acker_protocol.errors import StoreUnavailable
from acker_protocol.tracing import threshold

from acker_service.redis.calls import shard_keys
from acker_service.redis.codec import Layout
from acker_service.redis.functions.roots import pack_settings
from acker_service.redis.functions.traces import TraceLimits, pack_limits
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig

DEFAULT_LIMITS = TraceLimits()


class TopologyRecreated(StoreUnavailable):
    """A topology was deleted and created again in the middle of a call; the call changed nothing."""


class Deletion(StrEnum):
    """The state of a deletion, as Redis stores it: counting what is left, draining, or deleting."""

    CHECKING = "checking"
    DRAINING = "draining"
    DELETING = "deleting"


TopologyId = tuple[str, str]
"""The name and the incarnation of a topology."""

MailboxId = tuple[TopologyId, int]
"""A topology, and the index of a spout task."""


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A topology as it was last read. ``window_ms`` is how long requests are remembered, in milliseconds.

    ``trace_limits`` bound the traces of its roots.
    ``deletion`` is set while it is being deleted, since ``deletion_started_ms`` by Redis's clock.
    """

    name: str
    stamp: Stamp
    config: TopologyConfig
    window_ms: int
    trace_limits: TraceLimits = DEFAULT_LIMITS
    deletion: Deletion | None = None
    deletion_started_ms: int = 0

    @property
    def incarnation(self) -> str:
        """Distinguishes topologies created one after another under the same name.

        The later one has the higher incarnation.
        """
        return self.stamp.incarnation

    @cached_property
    def id(self) -> TopologyId:
        """Distinguishes it from every other topology, and from those of its name before and after it.

        Topologies that are created in the same millisecond may draw the same incarnation.
        """
        return self.name, self.stamp.incarnation

    @cached_property
    def layout(self) -> Layout:
        """How its roots are laid out."""
        return Layout(shards=self.config.shards, buckets=self.config.buckets)

    @cached_property
    def trace_threshold(self) -> int:
        """The sample of a root that is traced is below this (`acker_protocol.tracing`)."""
        return threshold(self.config.trace)

    @property
    def seen_sets(self) -> int:
        """The number of sets over which a shard spreads the requests that it remembers."""
        return max(16, self.config.buckets // 8)

    @cached_property
    def shards(self) -> list[str]:
        """The keys that hold the stamps of its shards."""
        return shard_keys(self.name, self.config.shards)

    @cached_property
    def settings(self) -> bytes:
        """The rules that every call on a shard passes to Lua."""
        config = self.config
        rules = pack_settings(config.rules, self.window_ms, config.max_failures)
        return rules + pack_limits(self.trace_limits, shards=config.shards)
