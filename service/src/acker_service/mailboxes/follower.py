"""Follows mailboxes: reads on from a cursor, and waits for new completions at the end."""

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
    """Reads one mailbox from a cursor on. ``waiter`` wakes at new completions."""

    def __init__(
        self, followers: "MailboxFollowers", mailbox: tuple[Topology, Spout], cursor: Cursor, waiter: Wakeup
    ) -> None:
        self._followers, self._mailbox, self._cursor = followers, mailbox, cursor
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
        last = None if until is None else decode_cursor(until, present[0])
        result = await self._followers.readers.read(*present, self._cursor, limit, last)
        self._cursor = result.cursor
        self._followers.metrics.completions_read[topology.name].inc(len(result.completions))
        return result


class MailboxFollowers:
    """Lets callers follow mailboxes."""

    def __init__(
        self,
        registry: TopologyRegistry,
        spouts: SpoutRegistry,
        notifier: MailboxNotifier,
        readers: ReadCoalescer,
        metrics: OperationMetrics,
    ) -> None:
        self._registry, self._spouts, self._notifier = registry, spouts, notifier
        self.readers, self.metrics = readers, metrics

    @contextlib.asynccontextmanager
    async def following(self, topology: Topology, spout_task: str, after: str | None) -> AsyncIterator[MailboxFollower]:
        """Follow a mailbox from a cursor on. Raises `UnknownSpout`, `InvalidRequest`."""
        spout, cursor = await self._spouts.get(topology, spout_task), decode_cursor(after, topology)
        with self._notifier.waiting(topology, spout) as waiter:
            yield MailboxFollower(self, (topology, spout), cursor, waiter)

    async def find(self, topology: str, spout_task: str) -> tuple[Topology, Spout]:
        """Find a mailbox by the names of its topology and spout task."""
        current = await self._registry.get(topology)
        return current, await self._spouts.get(current, spout_task)
