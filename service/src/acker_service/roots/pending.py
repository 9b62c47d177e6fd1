"""Lists the pending roots of a topology, page by page, while roots come and go.

Each shard lists its small hashes in the order of its deadline index, so the nearest deadlines come first, about. A page
takes the nearest roots of all shards. A root that is pending all the while is listed, maybe twice; except if its small
hash, before the list reached it, received a root whose deadline the list has passed.

There is no index: a list of few roots of many, such as the one with a message id, reads all records. A page ends at
bounds of records and of time, so that no list holds up an acker.
"""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from acker_service.redis import functions
from acker_service.redis.calls import ShardCall
from acker_service.redis.functions.roots import BucketPosition, ListedRoots, RootFilter, RootRecord, RootState
from acker_service.roots.reading import RootView, view_record
from acker_service.topologies.cursors import PendingRootList
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import SpoutRegistry
from acker_service.topologies.topology import Topology

RECORDS = 2_000
"""Records that one call reads, about: some milliseconds of Redis's time."""

PAGE_RECORDS = 100_000
"""Records that a page reads, about; it may stay short, or empty, without being the last."""

PAGE_S = 1.0
"""Seconds after which a page asks the shards for no more."""

OVERFETCH = 16
"""Each shard is asked for twice its share of a page and so many more: the nearest roots are seldom spread evenly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPosition(BucketPosition):
    """A position in a shard's list: a part of a bucket, and the id of the last root that was listed there."""

    last_root_id: int = 0


ScanPositions = dict[int, ScanPosition]
"""The position in each shard's list; a shard without one is at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootPage:
    """Some pending roots, and the positions behind them (empty: the list ends).

    ``scanned`` is the number of records and outcomes that were read for it.
    """

    roots: Sequence[RootView]
    positions: ScanPositions
    scanned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListedRoot:
    shard: int
    position: ScanPosition
    record: RootRecord
    now_ms: int


class PendingRoots:
    """Lists pending roots. ``clock`` gives seconds."""

    def __init__(self, shards: Shards, spouts: SpoutRegistry, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._shards = shards
        self._spouts = spouts
        self._clock = clock

    async def page(self, topology: Topology, positions: ScanPositions, wanted: RootFilter, *, limit: int) -> RootPage:
        """Return pending roots, ``limit`` at most, about nearest deadline first."""
        found: list[_ListedRoot] = []
        scanned, until_s = 0, self._clock() + PAGE_S
        while positions and len(found) < limit and scanned < PAGE_RECORDS and self._clock() < until_s:
            missing = limit - len(found)
            calls = _calls(topology, positions, wanted, missing)
            topology, replies = await self._shards.call_each(topology, calls)
            listed = {shard: _listed(shard, position, replies[shard]) for shard, position in positions.items()}
            scanned += sum(reply.scanned for reply in replies)
            taken, positions = _take_nearest(listed, positions, missing)
            found += taken
        names = await self._spouts.names(topology, {root.record.spout_index for root in found})
        roots = [view_record(root.record, RootState.PENDING, root.now_ms, names) for root in found]
        return RootPage(roots=sorted(roots, key=lambda root: root.due_ms), positions=positions, scanned=scanned)


def first_positions(topology: Topology) -> ScanPositions:
    """Return the beginning of the list."""
    return dict.fromkeys(range(len(topology.shards)), ScanPosition())


def encode_positions(positions: ScanPositions, topology: Topology) -> str | None:
    """Write positions as the opaque text that callers hold; None at the end of the list."""
    if not positions:
        return None
    rows = [
        (shard, position.score, position.bucket, position.hscan_cursor, position.last_root_id)
        for shard, position in sorted(positions.items())
    ]
    return PendingRootList(incarnation=topology.incarnation).encode(rows)


def decode_positions(text: str | None, topology: Topology) -> ScanPositions:
    """Read positions; None, or those of another incarnation, are the beginning. Raises `InvalidRequest`."""
    rows = PendingRootList(incarnation=topology.incarnation).decode(text) if text is not None else None
    if rows is None:
        return first_positions(topology)
    return {
        shard: ScanPosition(score=score, bucket=bucket, hscan_cursor=hscan_cursor, last_root_id=last_root_id)
        for shard, score, bucket, hscan_cursor, last_root_id in rows
        if shard < len(topology.shards)
    }


def _calls(
    topology: Topology, positions: ScanPositions, wanted: RootFilter, missing: int
) -> list[ShardCall[ListedRoots]]:
    """Ask each shard for roots behind its position; none of a shard whose list is at its end."""
    share = min(missing, -(-missing // len(positions)) * 2 + OVERFETCH)
    records = min(RECORDS, -(-PAGE_RECORDS // len(positions)))
    return [
        functions.roots.list_roots(
            settings=topology.settings,
            start=positions.get(shard) or BucketPosition(),
            wanted=wanted,
            max_roots=share if shard in positions else 0,
            max_records=records,
        )
        for shard in range(len(topology.shards))
    ]


def _listed(shard: int, start: ScanPosition, reply: ListedRoots) -> tuple[list[_ListedRoot], ScanPosition | None]:
    """Return the roots that a shard listed behind a position, and the position to go on at, if its list goes on."""
    roots: list[_ListedRoot] = []
    for position, records in reply.parts:
        is_start = (position.bucket, position.hscan_cursor) == (start.bucket, start.hscan_cursor)
        part = _scan_position(position, last_root_id=start.last_root_id if is_start else 0)
        roots += _unlisted(shard, part, reply.now_ms, records)
    return roots, _scan_position(reply.next) if reply.next else None


def _unlisted(shard: int, part: ScanPosition, now_ms: int, records: Sequence[RootRecord]) -> Iterator[_ListedRoot]:
    """Yield the roots of a part that are not yet listed, in the order of their ids, which lasts while others end."""
    for record in sorted(records, key=lambda record: record.root_id):
        if record.root_id > part.last_root_id:
            position = replace(part, last_root_id=record.root_id)
            yield _ListedRoot(shard=shard, position=position, record=record, now_ms=now_ms)


def _take_nearest(
    listed: dict[int, tuple[list[_ListedRoot], ScanPosition | None]], positions: ScanPositions, limit: int
) -> tuple[list[_ListedRoot], ScanPositions]:
    """Take the nearest of all roots that the shards listed; give them and the positions behind them."""
    nearest = heapq.merge(*(roots for roots, _ in listed.values()), key=lambda root: root.position.score)
    taken = list(islice(nearest, limit))
    behind: dict[int, ScanPosition | None] = {**positions, **{root.shard: root.position for root in taken}}
    counts = Counter(root.shard for root in taken)
    behind |= {shard: following for shard, (roots, following) in listed.items() if counts[shard] == len(roots)}
    return taken, {shard: position for shard, position in behind.items() if position}


def _scan_position(position: BucketPosition, *, last_root_id: int = 0) -> ScanPosition:
    return ScanPosition(
        score=position.score, bucket=position.bucket, hscan_cursor=position.hscan_cursor, last_root_id=last_root_id
    )
