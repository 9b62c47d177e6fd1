"""Knows those who follow a mailbox: each reads on from its cursor, and waits for news where nothing is left."""

import contextlib
from collections.abc import AsyncIterator

from acker_protocol.errors import UnknownSpout

from acker_service.background import Wakeup
from acker_service.mailboxes.cursor import Cursor, decode_cursor
from acker_service.mailboxes.notifier import MailboxNotifier
from acker_service.mailboxes.read_coalescer import ReadCoalescer
from acker_service.mailboxes.reading import ReadResult
from acker_service.metrics.instruments import OperationMetrics
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.spouts import Spout, SpoutRegistry
from acker_service.topologies.stamp import Topology


class MailboxFollower:
    """One who follows a mailbox. ``waiter`` is woken at news."""

    def __init__(
        self, followers: "MailboxFollowers", mailbox: tuple[Topology, Spout], cursor: Cursor, waiter: Wakeup
    ) -> None:
        self._followers, self._mailbox, self._cursor = followers, mailbox, cursor
        self.waiter = waiter

    async def read(self, limit: int, until: str | None = None) -> ReadResult:
        """Read on, ``limit`` completions at most; none that come behind the cursor ``until``.

        Raises `UnknownTopology`, `UnknownSpout` if what it follows is gone meanwhile, `Invalid`, `StoreUnavailable`.
        """
        topology, spout = self._mailbox
        present = await self._followers.find(topology.name, spout.name)
        if (present[0].incarnation, present[1].index) != (topology.incarnation, spout.index):
            raise UnknownSpout(f"spout task {spout.name} was removed and made again meanwhile")
        last = None if until is None else decode_cursor(until, present[0])
        reading = await self._followers.readers.read(*present, self._cursor, limit, last)
        self._cursor = reading.cursor
        self._followers.meters.completions_read[topology.name].inc(len(reading.completions))
        return reading


class MailboxFollowers:
    """Lets callers follow mailboxes."""

    def __init__(
        self,
        topologies: TopologyRegistry,
        spouts: SpoutRegistry,
        hints: MailboxNotifier,
        readers: ReadCoalescer,
        meters: OperationMetrics,
    ) -> None:
        self._topologies, self._spouts, self._hints = topologies, spouts, hints
        self.readers, self.meters = readers, meters

    @contextlib.asynccontextmanager
    async def following(self, topology: Topology, spout_task: str, after: str | None) -> AsyncIterator[MailboxFollower]:
        """Follow a mailbox from a cursor on. Raises `UnknownSpout`, `Invalid`."""
        spout, cursor = await self._spouts.get(topology, spout_task), decode_cursor(after, topology)
        with self._hints.waiting(topology, spout) as waiter:
            yield MailboxFollower(self, (topology, spout), cursor, waiter)

    async def find(self, topology: str, spout_task: str) -> tuple[Topology, Spout]:
        """Find a mailbox by its names, as they stand now."""
        found = await self._topologies.get(topology)
        return found, await self._spouts.get(found, spout_task)
