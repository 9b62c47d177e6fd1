"""Knows those who follow a mailbox: each reads on from its cursor, and waits for news where nothing is left."""

import contextlib
from collections.abc import AsyncIterator

from acker_protocol.problems import UnknownSpout

from acker_service.store.cursors import Cursor, read_cursor
from acker_service.store.hints import Hints
from acker_service.store.mailboxes import Reading
from acker_service.store.readers import Readers
from acker_service.store.spouts import Spout, Spouts
from acker_service.store.topologies import Topologies
from acker_service.store.topology import Topology
from acker_service.store.waiting import Waiter
from acker_service.telemetry.work import WorkMeters


class Follower:
    """One who follows a mailbox. ``waiter`` is woken at news."""

    def __init__(self, followers: "Followers", mailbox: tuple[Topology, Spout], cursor: Cursor, waiter: Waiter) -> None:
        self._followers, self._mailbox, self._cursor = followers, mailbox, cursor
        self.waiter = waiter

    async def read(self, limit: int, until: str | None = None) -> Reading:
        """Read on, ``limit`` completions at most; none that come behind the cursor ``until``.

        Raises `UnknownTopology`, `UnknownSpout` if what it follows is gone meanwhile, `Invalid`, `StoreUnavailable`.
        """
        topology, spout = self._mailbox
        present = await self._followers.find(topology.name, spout.name)
        if (present[0].incarnation, present[1].index) != (topology.incarnation, spout.index):
            raise UnknownSpout(f"spout task {spout.name} was removed and made again meanwhile")
        last = None if until is None else read_cursor(until, present[0])
        reading = await self._followers.readers.read(*present, self._cursor, limit, last)
        self._cursor = reading.cursor
        self._followers.meters.completions_read[topology.name].inc(len(reading.completions))
        return reading


class Followers:
    """Lets callers follow mailboxes."""

    def __init__(
        self, topologies: Topologies, spouts: Spouts, hints: Hints, readers: Readers, meters: WorkMeters
    ) -> None:
        self._topologies, self._spouts, self._hints = topologies, spouts, hints
        self.readers, self.meters = readers, meters

    @contextlib.asynccontextmanager
    async def following(self, topology: Topology, spout_task: str, after: str | None) -> AsyncIterator[Follower]:
        """Follow a mailbox from a cursor on. Raises `UnknownSpout`, `Invalid`."""
        spout, cursor = await self._spouts.get(topology, spout_task), read_cursor(after, topology)
        with self._hints.waiting(topology, spout) as waiter:
            yield Follower(self, (topology, spout), cursor, waiter)

    async def find(self, topology: str, spout_task: str) -> tuple[Topology, Spout]:
        """Find a mailbox by its names, as they stand now."""
        found = await self._topologies.get(topology)
        return found, await self._spouts.get(found, spout_task)
