"""Follows mailboxes from a cursor on; coalesces concurrent reads.

Equal reads are made once and several reads share a round trip, first come, first served.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import islice

from acker_protocol.errors import UnknownSpout

from acker_service.background import Wakeup
from acker_service.mailboxes.notifier import MailboxNotifier
from acker_service.mailboxes.reading import MailboxReader, ReadRequest, ReadResult
from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis.stamp import Stamp
from acker_service.topologies.cursors import Cursor, completion_list, decode_cursor
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.spouts import Spout, SpoutRegistry
from acker_service.topologies.topology import Topology

MAX_ROUND_TRIPS = 4
"""Round trips under way at once: few enough that thousands of readers leave connections to others."""

CALLS_PER_ROUND_TRIP = 64
"""Calls that a round trip carries at most, one per shard and read: each may give megabytes."""


@dataclass(slots=True)
class _PendingRead:
    topology: Topology
    request: ReadRequest
    results: list[asyncio.Future[ReadResult]] = field(default_factory=list)


class ReadCoalescer:
    """Serves all readers of this process. A read joins an equal one that is not yet sent."""

    def __init__(self, mailboxes: MailboxReader) -> None:
        self._mailboxes = mailboxes
        self._pending: dict[tuple[str, Stamp, int, str, int, str, bool], _PendingRead] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, topology: Topology, request: ReadRequest) -> ReadResult:
        """Read completions, as `MailboxReader.read_each` does."""
        loop = asyncio.get_running_loop()
        if not self._pending:
            loop.call_soon(self._send)
        until = request.until.encode() if request.until else ""
        mailbox, cursor = (topology.name, topology.stamp, request.spout.index), request.cursor.encode()
        # rule: topologies that have the same stamp share no read
        key = (*mailbox, cursor, request.limit, until, request.peek)
        pending = self._pending.setdefault(key, _PendingRead(topology, request))
        result: asyncio.Future[ReadResult] = loop.create_future()
        pending.results.append(result)
        return await result

    def _send(self) -> None:
        while self._pending and len(self._tasks) < MAX_ROUND_TRIPS:
            task = asyncio.create_task(self._run(self._take()))
            self._tasks.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._send()

    def _take(self) -> list[_PendingRead]:
        """Take the oldest read, and as many others of its topology as fit into one round trip."""
        topology = next(iter(self._pending.values())).topology
        max_reads = max(1, CALLS_PER_ROUND_TRIP // len(topology.shards))
        own = (topology.name, topology.stamp)
        # rule: a round trip reads from one topology, though others may have the same stamp
        same = (key for key, read in self._pending.items() if (read.topology.name, read.topology.stamp) == own)
        return [self._pending.pop(key) for key in list(islice(same, max_reads))]

    async def _run(self, reads: list[_PendingRead]) -> None:
        try:
            results = await self._mailboxes.read_each(reads[0].topology, [pending.request for pending in reads])
        except Exception as error:  # noqa: BLE001 - the readers raise it
            for pending in reads:
                _resolve(pending, error)
            return
        for pending, result in zip(reads, results, strict=True):
            _resolve(pending, result)


def _resolve(pending: _PendingRead, result: ReadResult | Exception) -> None:
    for future in pending.results:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


class MailboxFollower:
    """Reads one mailbox from a cursor on. ``waiter`` wakes at new completions."""

    def __init__(
        self,
        followers: "MailboxFollowers",
        mailbox: tuple[Topology, Spout],
        cursor: Cursor,
        waiter: Wakeup,
        *,
        peek: bool,
    ) -> None:
        self._followers = followers
        self._mailbox = mailbox
        self._cursor = cursor
        self._peek = peek
        self.waiter = waiter

    async def read(self, limit: int, until: str | None = None) -> ReadResult:
        """Read on, ``limit`` completions at most, up to the cursor ``until``.

        Raises `UnknownTopology`, `UnknownSpout` if the mailbox is deleted meanwhile, `InvalidRequest`,
        `StoreUnavailable`.
        """
        topology, spout = self._mailbox
        present = await self._followers.find(topology.name, spout.name)
        if (present[0].incarnation, present[1].index) != (topology.incarnation, spout.index):
            raise UnknownSpout(f"spout task {spout.name} was removed and made again meanwhile")
        last = None if until is None else decode_cursor(until, completion_list(*present))
        request = ReadRequest(spout=present[1], cursor=self._cursor, limit=limit, until=last, peek=self._peek)
        result = await self._followers.coalescer.read(present[0], request)
        self._cursor = result.cursor
        if not self._peek:
            self._followers.metrics.completions_read[topology.name].inc(result.count)
        return result


class MailboxFollowers:
    """Lets callers follow mailboxes."""

    def __init__(
        self,
        registry: TopologyRegistry,
        spouts: SpoutRegistry,
        notifier: MailboxNotifier,
        coalescer: ReadCoalescer,
        metrics: OperationMetrics,
    ) -> None:
        self._registry = registry
        self._spouts = spouts
        self._notifier = notifier
        self.coalescer = coalescer
        self.metrics = metrics

    @contextlib.asynccontextmanager
    async def following(
        self, topology: Topology, spout_task: str, after: str | None, *, peek: bool = False
    ) -> AsyncIterator[MailboxFollower]:
        """Follow a mailbox from a cursor on; with ``peek``, unnoted. Raises `UnknownSpout`, `InvalidRequest`."""
        spout = await self._spouts.get(topology, spout_task)
        cursor = decode_cursor(after, completion_list(topology, spout))
        with self._notifier.waiting(topology, spout) as waiter:
            yield MailboxFollower(self, (topology, spout), cursor, waiter, peek=peek)

    async def find(self, topology: str, spout_task: str) -> tuple[Topology, Spout]:
        """Find a mailbox by the names of its topology and spout task."""
        current = await self._registry.get(topology)
        return current, await self._spouts.get(current, spout_task)
