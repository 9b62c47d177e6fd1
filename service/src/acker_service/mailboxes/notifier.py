"""Wakes readers that wait for completions.

Redis publishes a hint with every entry that it adds to a mailbox. A hint can be lost, so the newest entries of all
mailboxes with waiting readers are polled once a second too, in one round trip per topology.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Container, Iterable, Iterator, Sequence

from acker_protocol.errors import NotFound, ServiceError

from acker_service.background import Wakeup, Wakeups, cancel_and_wait, periodically
from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import functions
from acker_service.redis.calls import decode_hint, hint_channels
from acker_service.redis.client import RedisClient
from acker_service.redis.errors import PermissionDenied
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import MailboxId, Topology, TopologyId

POLL_INTERVAL_S = 1.0
DENIED_INTERVAL_S = 60.0
"""Seconds until a login that may not subscribe tries again."""

KEEP_SUBSCRIBED_S = 60.0
"""Seconds that a topology stays subscribed after its last reader stopped waiting."""

MAX_INDEXES = 1_000
"""A poll names so many mailboxes at most: Lua unpacks them."""

_log = logging.getLogger(__name__)


class MailboxNotifier:
    """Wakes readers that wait for completions, with one subscription and one poll for all readers of this process."""

    def __init__(
        self, redis: RedisClient, registry: TopologyRegistry, shards: Shards, metrics: OperationMetrics
    ) -> None:
        self._redis = redis
        self._registry = registry
        self._shards = shards
        self._metrics = metrics
        self._mailboxes: Wakeups[MailboxId] = Wakeups()
        self._topologies: dict[TopologyId, Topology] = {}
        self._last_waited: dict[TopologyId, float] = {}
        self._subscribed: set[TopologyId] = set()
        self._names: dict[bytes, str] = {}
        self._resubscribe = asyncio.Event()
        self._last_entries: dict[MailboxId, object] = {}
        self._hinted: set[MailboxId] = set()
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.contextmanager
    def waiting(self, topology: Topology, spout: Spout) -> Iterator[Wakeup]:
        """Return a wakeup that new completions of a spout task trigger."""
        self._topologies[topology.id] = topology
        self._last_waited[topology.id] = asyncio.get_running_loop().time()
        if topology.id not in self._subscribed:
            self._resubscribe.set()
        # rule: topologies that have the same incarnation wake no readers of each other
        with self._mailboxes.waiting((topology.id, spout.index)) as wakeup:
            yield wakeup

    def wake_all(self) -> None:
        """Wake all readers, with or without new completions."""
        self._mailboxes.wake_all()

    def start(self) -> None:
        """Start to listen and to poll."""
        listen = periodically(self._listen, interval=0, retry_interval=POLL_INTERVAL_S, name="listening", log=_log)
        poll = periodically(self._poll, interval=POLL_INTERVAL_S, name="polling mailboxes", log=_log)
        self._tasks = [asyncio.create_task(loop) for loop in (listen, poll)]

    async def stop(self) -> None:
        """Stop listening and polling."""
        await cancel_and_wait(*self._tasks)

    async def _listen(self) -> None:
        """Listen to all topologies with waiting readers, until a reader waits for a topology without a subscription."""
        self._resubscribe.clear()
        self._subscribed = set(self._topologies)
        names = {
            channel: topology.name
            for topology in self._topologies.values()
            for channel in hint_channels(topology.name, topology.layout.shards)
        }
        self._names = {channel.encode(): name for channel, name in names.items()}
        resubscribe = asyncio.create_task(self._wait_for_resubscribe())
        listening = asyncio.create_task(self._redis.listen(list(names), self._on_message))
        try:
            await asyncio.wait((resubscribe, listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(resubscribe, listening)
        if not listening.cancelled() and (error := listening.exception()):
            if isinstance(error, PermissionDenied):
                await asyncio.sleep(DENIED_INTERVAL_S)  # polling finds everything meanwhile
            raise error

    async def _wait_for_resubscribe(self) -> None:
        await self._resubscribe.wait()

    def _on_message(self, channel: bytes, message: bytes) -> None:
        hint = decode_hint(message)
        if hint is None:
            return  # published by another program
        self._metrics.hints.inc()
        incarnation, index = hint
        mailbox = (self._names[channel], incarnation), index
        self._hinted.add(mailbox)
        self._mailboxes.wake(mailbox)

    async def _poll(self) -> None:
        """Read the newest entries of all mailboxes with waiting readers once."""
        waited: dict[TopologyId, list[int]] = {}
        for topology, index in self._mailboxes:
            waited.setdefault(topology, []).append(index)
        self._unsubscribe_idle(waited)
        before, self._last_entries = self._last_entries, {}
        hinted, self._hinted = self._hinted, set()
        for topology, indexes in waited.items():
            with contextlib.suppress(ServiceError):
                self._last_entries |= await self._read_last_entries(topology, indexes)
        for mailbox, entries in self._last_entries.items():
            if before.get(mailbox, ()) != entries:
                self._count_missed(mailbox, before, hinted | self._hinted)
                self._mailboxes.wake(mailbox)
        self._metrics.sweeps.inc()

    def _unsubscribe_idle(self, waited: Iterable[TopologyId]) -> None:
        """Unsubscribe late: between two polls a reader is briefly not waiting."""
        now = asyncio.get_running_loop().time()
        self._last_waited.update(dict.fromkeys(waited, now))
        self._last_waited = {id_: at for id_, at in self._last_waited.items() if now - at <= KEEP_SUBSCRIBED_S}
        self._topologies = {id_: topology for id_, topology in self._topologies.items() if id_ in self._last_waited}

    def _count_missed(self, mailbox: MailboxId, before: Container[object], hinted: Container[object]) -> None:
        """Count new entries that came without a hint. Skip a mailbox's first poll: its entries may be old."""
        if mailbox in before and mailbox not in hinted:
            self._metrics.hints_missed.inc()

    async def _read_last_entries(self, id_: TopologyId, indexes: Sequence[int]) -> dict[MailboxId, object]:
        """Return the newest entries of mailboxes; None where the topology is deleted, which wakes readers too."""
        found: list[object] = []
        try:
            name, _ = id_
            topology = await self._registry.get(name)
            while topology.id == id_ and len(found) < len(indexes):
                call = functions.mailboxes.last_entries(indexes[len(found) : len(found) + MAX_INDEXES])
                topology, shards = await self._shards.call_all(topology, call)
                found.extend(zip(*shards, strict=True))
        except NotFound:
            found = []
        return {(id_, index): entries for index, entries in itertools.zip_longest(indexes, found)}
