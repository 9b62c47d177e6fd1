"""Counts the pending roots of a topology by age: all where they are few, else those of small hashes drawn by lot.

The hash of its id decides in which small hash a root lies, and not its age: the roots of hashes that are drawn by lot
are a fair sample. The first ones of the list by deadline would be the oldest.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from acker_service.redis import functions
from acker_service.redis.calls import ShardCall
from acker_service.redis.functions.roots import BucketPosition, ListedRoots, RootFilter
from acker_service.roots.pending import PendingRoots, first_positions
from acker_service.topologies.shards import Shards
from acker_service.topologies.stats import StatsReader
from acker_service.topologies.topology import Topology

BOUNDS_MS = (0, 1_000, 10_000, 60_000, 600_000)
"""The least ages of the groups."""

ALL = 10_000
"""So many pending roots are all counted; of more a sample."""

SAMPLE = 2_000
"""A sample ends with so many roots, about."""

MAX_BUCKETS = 4_000
BUCKETS_PER_CALL = 250
PAGE_S = 1.0
"""Seconds after which a sample asks for no more."""

_FIRST_SCORE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAges:
    """How many of the roots that were looked at are in each group of `BOUNDS_MS`, and how many are pending in all.

    ``is_sample``: not all pending roots were looked at.
    """

    groups: tuple[int, ...]
    pending: int
    is_sample: bool


class AgeCounter:
    """Counts pending roots by age. ``clock`` gives seconds; ``draw`` draws buckets."""

    def __init__(
        self,
        shards: Shards,
        stats: StatsReader,
        pending_roots: PendingRoots,
        *,
        clock: Callable[[], float] = time.monotonic,
        draw: random.Random | None = None,
    ) -> None:
        self._shards = shards
        self._stats = stats
        self._pending_roots = pending_roots
        self._clock = clock
        self._draw = draw or random.Random()  # noqa: S311 - a sample, no secret

    async def count(self, topology: Topology) -> PendingAges:
        """Count the pending roots of a topology by age."""
        pending = (await self._stats.read(topology)).topology_stats.pending
        if pending <= ALL:
            page = await self._pending_roots.page(topology, first_positions(topology), RootFilter(), limit=ALL)
            # rule: a list that did not reach its end is no count
            if not page.positions:
                ages = [max(0, root.now_ms - root.started_ms) for root in page.roots]
                return PendingAges(groups=_grouped(ages), pending=len(ages), is_sample=False)
        ages = await self._sample(topology)
        return PendingAges(groups=_grouped(ages), pending=max(pending, len(ages)), is_sample=True)

    async def _sample(self, topology: Topology) -> list[int]:
        """Return the ages of the roots of some buckets, each drawn at most once."""
        places, buckets = len(topology.shards), topology.config.buckets
        drawn = self._draw.sample(range(places * buckets), min(MAX_BUCKETS, places * buckets))
        ages: list[int] = []
        until_s = self._clock() + PAGE_S
        for at in range(0, len(drawn), BUCKETS_PER_CALL):
            calls = [
                (place % places, _roots_of(topology, place // places)) for place in drawn[at : at + BUCKETS_PER_CALL]
            ]
            topology, replies = await self._shards.call_at(topology, calls)
            for reply in replies:
                records = [record for _, found in reply.parts for record in found]
                ages += [max(0, reply.now_ms - record.started_ms) for record in records]
            if len(ages) >= SAMPLE or self._clock() >= until_s:
                break
        return ages


def _roots_of(topology: Topology, bucket: int) -> ShardCall[ListedRoots]:
    """Ask for the roots of one bucket: a list ends behind the bucket that brings it to its number of records."""
    start = BucketPosition(score=_FIRST_SCORE, bucket=bucket)
    return functions.roots.list_roots(
        settings=topology.settings, start=start, wanted=RootFilter(), max_roots=1, max_records=1
    )


def _grouped(ages: list[int]) -> tuple[int, ...]:
    ends = (*BOUNDS_MS[1:], float("inf"))
    return tuple(sum(least <= age < most for age in ages) for least, most in zip(BOUNDS_MS, ends, strict=True))
