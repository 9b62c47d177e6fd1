"""Lists the failed and timed-out roots of a topology, newest first, page by page.

Each shard numbers its failures in the order in which the roots ended, so a position in its list is a number. A page
merges the lists of all shards by time; failures that are written meanwhile are before the first page.

There is no index: a filter looks at all failures. A page ends after about a second, so that no list holds up an acker.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from acker_protocol.operations import Outcome

from acker_service.redis import functions
from acker_service.redis.functions.failures import FailureChunk, FailureRecord
from acker_service.topologies.cursors import FailureList
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import SpoutRegistry
from acker_service.topologies.topology import Topology

KEPT_MS = 86_400_000
"""How long a failure is listed."""

PAGE_S = 1.0
"""Seconds after which a page looks at no more failures."""

NEWEST = 2**53 - 1
"""The position before which all failures of a shard are."""

Positions = dict[int, int]
"""For each shard the number below which its next failures are; a shard without one is at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFilter:
    """What a caller asks for; None: any.

    ``reason`` is a part of the reason, ``text`` a part of the message id, the reason or the component. ``from_ms`` and
    ``to_ms`` are the first and the last time, both included.
    """

    outcome: Outcome | None = None
    spout_task: str | None = None
    component: str | None = None
    reason: str | None = None
    text: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePage:
    """Some failures with the names of their spout tasks (by index), and the positions behind them (empty: the end).

    ``scanned`` is the number of failures that were looked at for it.
    """

    failures: Sequence[FailureRecord]
    names: dict[int, str]
    positions: Positions
    scanned: int


@dataclass(slots=True)
class _ShardList:
    """A shard's list from a position on: failures that were read, newest first, with their numbers."""

    before: int
    read: deque[tuple[int, FailureRecord]] = field(default_factory=deque)
    is_complete: bool = False

    def add(self, chunk: FailureChunk) -> None:
        """Add the failures of the next chunk; one that is empty, or holds an old failure, is the last."""
        self.before = min(self.before, chunk.end)
        numbered = list(enumerate(chunk.failures, chunk.start))
        kept = [
            (number, failure)
            for number, failure in reversed(numbered)
            if chunk.lowest <= number < self.before and chunk.now_ms - failure.at_ms <= KEPT_MS
        ]
        self.read.extend(kept)
        is_whole = bool(kept) and kept[-1][0] == max(chunk.start, chunk.lowest)
        self.is_complete = not is_whole or chunk.start <= chunk.lowest


class FailureReader:
    """Lists failures, and finds the failure of a root. ``clock`` gives seconds."""

    def __init__(self, shards: Shards, spouts: SpoutRegistry, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._shards = shards
        self._spouts = spouts
        self._clock = clock

    async def page(self, topology: Topology, positions: Positions, wanted: FailureFilter, *, limit: int) -> FailurePage:
        """Return failures that match, newest first, ``limit`` at most; a page may be short without being the last."""
        spout_index = await self._index(topology, wanted.spout_task)
        lists = {shard: _ShardList(before) for shard, before in positions.items() if shard < len(topology.shards)}
        found: list[FailureRecord] = []
        scanned, until_s = 0, self._clock() + PAGE_S
        # rule: a page of failures looks at one at least, so that the next goes on behind it
        while len(found) < limit and (scanned == 0 or self._clock() < until_s):
            topology = await self._fill(topology, lists)
            newest = _newest(lists)
            # rule: behind the first time of a range there is nothing newer
            if newest is None or (wanted.from_ms is not None and newest.read[0][1].at_ms < wanted.from_ms):
                lists.clear()
                break
            newest.before, failure = newest.read.popleft()
            scanned += 1
            if _matches(failure, wanted, spout_index):
                found.append(failure)
        names = await self._spouts.names(topology, {failure.spout_index for failure in found})
        left = {shard: it.before for shard, it in lists.items() if it.read or not it.is_complete}
        return FailurePage(failures=found, names=names, positions=left, scanned=scanned)

    async def find(self, topology: Topology, root_id: int) -> FailureRecord | None:
        """Find how a root failed or timed out; None if the list does not have it any more. Looks chunk by chunk."""
        before = NEWEST
        while before:
            call = functions.failures.find_failure(settings=topology.settings, root_id=root_id, before=before)
            topology, search = await self._shards.call(topology, topology.layout.shard_of(root_id), call)
            if search.found is not None:
                return search.found
            before = search.before
        return None

    async def _fill(self, topology: Topology, lists: dict[int, _ShardList]) -> Topology:
        """Read the next chunk of every shard whose last chunk is used up."""
        empty = [shard for shard, it in lists.items() if not it.read and not it.is_complete]
        if not empty:
            return topology
        calls = [
            (shard, functions.failures.read_failures(settings=topology.settings, before=lists[shard].before))
            for shard in empty
        ]
        topology, chunks = await self._shards.call_at(topology, calls)
        for shard, chunk in zip(empty, chunks, strict=True):
            lists[shard].add(chunk)
        return topology

    async def _index(self, topology: Topology, spout_task: str | None) -> int | None:
        """Return the index of a spout task, one that no root has if it does not exist; None: any will do."""
        return None if spout_task is None else (await self._spouts.find(topology, {spout_task}))[spout_task]


def first_positions(topology: Topology) -> Positions:
    """Return the beginning of the list."""
    return dict.fromkeys(range(len(topology.shards)), NEWEST)


def encode_positions(positions: Positions, topology: Topology) -> str | None:
    """Write positions as the opaque text that callers hold; None at the end of the list."""
    if not positions:
        return None
    return FailureList(incarnation=topology.incarnation).encode(sorted(positions.items()))


def decode_positions(text: str | None, topology: Topology) -> Positions:
    """Read positions; None, or those of another incarnation, are the beginning. Raises `InvalidRequest`."""
    rows = FailureList(incarnation=topology.incarnation).decode(text) if text is not None else None
    return first_positions(topology) if rows is None else {shard: before for shard, before in rows}  # noqa: C416 - rows are tuples of any length


def _newest(lists: dict[int, _ShardList]) -> _ShardList | None:
    """Return the list whose next failure is the newest one."""
    filled: Iterable[_ShardList] = (it for it in lists.values() if it.read)
    return max(filled, key=lambda it: it.read[0][1].at_ms, default=None)


def _matches(failure: FailureRecord, wanted: FailureFilter, spout_index: int | None) -> bool:
    if wanted.outcome is not None and failure.outcome is not wanted.outcome:
        return False
    if wanted.component is not None and failure.component != wanted.component:
        return False
    if wanted.to_ms is not None and failure.at_ms > wanted.to_ms:
        return False
    if wanted.reason is not None and wanted.reason not in (failure.reason or ""):
        return False
    if wanted.text is not None and not _has_text(failure, wanted.text):
        return False
    return spout_index is None or failure.spout_index == spout_index


def _has_text(failure: FailureRecord, text: str) -> bool:
    return any(text in (part or "") for part in (failure.message_id, failure.reason, failure.component))
