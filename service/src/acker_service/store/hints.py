"""Knows who waits for completions, and wakes them when there is news.

Redis publishes a hint with every entry it puts into a mailbox. A hint can be lost, so once a second the newest entries
of the mailboxes that are waited for are looked at too.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from acker_protocol.problems import Problem

from acker_service.store import keys
from acker_service.store.server import Server
from acker_service.store.spouts import Spout
from acker_service.store.topologies import Topologies
from acker_service.store.topology import Topology
from acker_service.tasks import end

SWEEP_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Mailbox:
    topology: Topology
    spout: Spout
    waiters: set[asyncio.Event] = field(default_factory=set)
    tips: object = None

    def wake(self) -> None:
        for event in self.waiters:
            event.set()


class Hints:
    """Wakes whoever waits for completions: one subscription and one sweep for all who wait in this process."""

    def __init__(self, server: Server, topologies: Topologies) -> None:
        self._server, self._topologies = server, topologies
        self._mailboxes: dict[tuple[str, int], _Mailbox] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.contextmanager
    def waiting(self, topology: Topology, spout: Spout) -> Iterator[asyncio.Event]:
        """Give an event that is set at news for a spout task; begin to wait before you look, so that none is missed."""
        key = (topology.incarnation, spout.index)
        mailbox = self._mailboxes.setdefault(key, _Mailbox(topology, spout))
        event = asyncio.Event()
        mailbox.waiters.add(event)
        try:
            yield event
        finally:
            mailbox.waiters.discard(event)
            if not mailbox.waiters:
                self._mailboxes.pop(key, None)

    def start(self) -> None:
        """Begin to listen and to sweep."""
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._sweep())]

    async def stop(self) -> None:
        """End listening and sweeping."""
        await end(*self._tasks)

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(Problem):
                async with self._server.subscribed(keys.HINTS) as messages:
                    async for message in messages.listen():
                        self._heed(message["data"].decode())
            await asyncio.sleep(SWEEP_S)

    def _heed(self, hint: str) -> None:
        incarnation, index = hint.split(" ")
        if mailbox := self._mailboxes.get((incarnation, int(index))):
            mailbox.wake()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            for mailbox in list(self._mailboxes.values()):
                with contextlib.suppress(Problem):
                    await self._look(mailbox)

    async def _look(self, mailbox: _Mailbox) -> None:
        topology, tips = await self._topologies.ask_each(mailbox.topology, "acker_tips_v1", mailbox.spout.index)
        if tips != mailbox.tips or topology.incarnation != mailbox.topology.incarnation:
            mailbox.tips = tips
            mailbox.wake()
