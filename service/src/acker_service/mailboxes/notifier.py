"""Knows who waits for completions, and wakes them when there is news.

Redis publishes a hint with every entry it puts into a mailbox. A hint can be lost, so once a second the newest entries
of all mailboxes that are waited for are looked at too, in one round trip per topology.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Container, Iterable, Iterator, Sequence

from acker_protocol.errors import NotFound, ServiceError

from acker_service.background import Wakeup, Wakeups, cancel_and_wait, periodically
from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import keys
from acker_service.redis.client import RedisClient
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.stamp import Topology

POLL_INTERVAL_S = 1.0
KEEP_SUBSCRIBED_S = 60.0
"""So long a topology is listened to after the last one who waited."""

MAX_INDEXES = 1_000
"""A look names so many mailboxes at most: Lua unpacks them."""

Mailbox = tuple[str, int]
"""An incarnation of a topology, and the index of a spout task."""

_log = logging.getLogger(__name__)


class MailboxNotifier:
    """Wakes whoever waits for completions: one subscription and one sweep for all who wait in this process."""

    def __init__(
        self, server: RedisClient, topologies: TopologyRegistry, shards: Shards, meters: OperationMetrics
    ) -> None:
        self._server, self._registry, self._shards, self._meters = server, topologies, shards, meters
        self._mailboxes: Wakeups[Mailbox] = Wakeups()
        self._topologies_by_incarnation: dict[str, Topology] = {}
        self._last_waited: dict[str, float] = {}
        self._subscribed: set[str] = set()
        self._resubscribe = asyncio.Event()
        self._last_entries: dict[Mailbox, object] = {}
        self._hinted: set[Mailbox] = set()
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.contextmanager
    def waiting(self, topology: Topology, spout: Spout) -> Iterator[Wakeup]:
        """Give one who is woken at news for a spout task."""
        self._topologies_by_incarnation[topology.incarnation] = topology
        self._last_waited[topology.incarnation] = asyncio.get_running_loop().time()
        if topology.incarnation not in self._subscribed:
            self._resubscribe.set()
        with self._mailboxes.waiting((topology.incarnation, spout.index)) as waiter:
            yield waiter

    def wake_all(self) -> None:
        """Wake everybody, news or not."""
        self._mailboxes.wake_all()

    def start(self) -> None:
        """Begin to listen and to sweep."""
        listen = periodically(self._listen, interval=0, retry_interval=POLL_INTERVAL_S, name="listening", log=_log)
        poll = periodically(self._poll, interval=POLL_INTERVAL_S, name="polling mailboxes", log=_log)
        self._tasks = [asyncio.create_task(loop) for loop in (listen, poll)]

    async def stop(self) -> None:
        """End listening and sweeping."""
        await cancel_and_wait(*self._tasks)

    async def _listen(self) -> None:
        """Listen to all topologies that are waited for, until one comes to be that is not listened to."""
        self._resubscribe.clear()
        self._subscribed = set(self._topologies_by_incarnation)
        channels = [
            keys.hints(it.name, shard)
            for it in self._topologies_by_incarnation.values()
            for shard in range(it.layout.shards)
        ]
        unheard = asyncio.create_task(self._wait_for_resubscribe())
        listening = asyncio.create_task(self._server.listen(channels, self._on_message))
        try:
            await asyncio.wait((unheard, listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(unheard, listening)
        if not listening.cancelled() and (fault := listening.exception()):
            raise fault

    async def _wait_for_resubscribe(self) -> None:
        await self._resubscribe.wait()

    def _on_message(self, message: bytes) -> None:
        incarnation, _, index = message.decode(errors="replace").partition(" ")
        if not index.isdecimal():
            return  # somebody else's
        mailbox = (incarnation, int(index))
        self._meters.hints.inc()
        self._hinted.add(mailbox)
        self._mailboxes.wake(mailbox)

    async def _poll(self) -> None:
        """Look once at all mailboxes that are waited for."""
        waited: dict[str, list[int]] = {}
        for incarnation, index in self._mailboxes:
            waited.setdefault(incarnation, []).append(index)
        self._unsubscribe_idle(waited)
        before, self._last_entries = self._last_entries, {}
        hinted, self._hinted = self._hinted, set()
        for incarnation, indexes in waited.items():
            with contextlib.suppress(ServiceError):
                self._last_entries |= await self._read_last_entries(incarnation, indexes)
        for mailbox, tip in self._last_entries.items():
            if before.get(mailbox, ()) != tip:
                self._count_missed(mailbox, before, hinted | self._hinted)
                self._mailboxes.wake(mailbox)
        self._meters.sweeps.inc()

    def _unsubscribe_idle(self, waited: Iterable[str]) -> None:
        """Let go of topologies that nobody waits for: not at once, for whoever polls is away between two polls."""
        now = asyncio.get_running_loop().time()
        self._last_waited.update(dict.fromkeys(waited, now))
        self._last_waited = {
            incarnation: at for incarnation, at in self._last_waited.items() if now - at <= KEEP_SUBSCRIBED_S
        }
        self._topologies_by_incarnation = {
            incarnation: it
            for incarnation, it in self._topologies_by_incarnation.items()
            if incarnation in self._last_waited
        }

    def _count_missed(self, mailbox: Mailbox, before: Container[object], hinted: Container[object]) -> None:
        """Count news that no hint told of; what is looked at for the first time may be old."""
        if mailbox in before and mailbox not in hinted:
            self._meters.hints_missed.inc()

    async def _read_last_entries(self, incarnation: str, indexes: Sequence[int]) -> dict[Mailbox, object]:
        """Give the newest entries of mailboxes; None where their topology is gone, which is news too."""
        found: list[object] = []
        try:
            topology = await self._registry.get(self._topologies_by_incarnation[incarnation].name)
            while topology.incarnation == incarnation and len(found) < len(indexes):
                some = indexes[len(found) : len(found) + MAX_INDEXES]
                topology, shards = await self._shards.call_all(topology, "acker_tips_v1", *some)
                found.extend(zip(*shards, strict=True))
        except NotFound:
            found = []
        return {(incarnation, index): tip for index, tip in itertools.zip_longest(indexes, found)}
