"""The store as a whole: its rooms, opened on one server and closed together."""

import asyncio
import logging

from acker_protocol.errors import StoreUnavailable

from acker_service.delivery.leases import LeaseStore
from acker_service.mailboxes.dead_letters import DeadLetters
from acker_service.mailboxes.follower import MailboxFollowers
from acker_service.mailboxes.notifier import MailboxNotifier
from acker_service.mailboxes.read_coalescer import ReadCoalescer
from acker_service.mailboxes.reading import MailboxReader
from acker_service.metrics.registry import Metrics
from acker_service.metrics.stats import StoreStats
from acker_service.monitoring.backpressure import Backpressure
from acker_service.monitoring.snapshot import BacklogReader, StoreMonitor
from acker_service.operations.applier import Applier
from acker_service.redis.client import RedisClient
from acker_service.redis.durability import RELAXED, Durability
from acker_service.redis.requirements import ServerRequirements
from acker_service.roots.expiry import RootExpiry
from acker_service.roots.notifier import RootNotifier
from acker_service.roots.pending import PendingRoots
from acker_service.roots.reading import RootReader
from acker_service.topologies.config import BUCKETS
from acker_service.topologies.deletion import SpoutDeleter, TopologyDeleter
from acker_service.topologies.registry import DEFAULT, TopologyRegistry
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Callbacks, SpoutRegistry
from acker_service.topologies.stats import StatsReader

_log = logging.getLogger(__name__)


class Store:
    """All that is remembered.

    ``window_ms`` is how long a request's idempotency key is remembered at least, ``spout_idle_ms`` how long an
    ephemeral spout task stays unused, ``mailbox_max`` how many unread completions a spout task may have,
    ``buckets`` how many small hashes a shard of the default topology gets, ``durability`` when a write counts as done
    (for ``fsync_asserted`` see `Suitability`).
    """

    def __init__(
        self,
        url: str,
        *,
        window_ms: int,
        spout_idle_ms: int = 86_400_000,
        mailbox_max: int = 1_000_000,
        buckets: int = BUCKETS,
        durability: Durability = RELAXED,
        fsync_asserted: bool = False,
    ) -> None:
        self.metrics = Metrics()
        work = self.metrics.operations
        self.redis = RedisClient(url, self.metrics.redis, durability=durability)
        self._requirements = ServerRequirements(self.redis, durability, fsync_asserted=fsync_asserted)
        self.window_ms = window_ms
        self.registry = TopologyRegistry(self.redis, window_ms=window_ms, buckets=buckets)
        self.spouts = SpoutRegistry(self.redis, self.registry)
        self.shards = Shards(self.redis, self.registry)
        self.stats = StatsReader(self.shards)
        self.monitor = StoreMonitor(self.redis, self.registry, self.stats, BacklogReader(self.shards, self.spouts))
        self.backpressure = Backpressure(self.monitor, self.stats, self._requirements, mailbox_max=mailbox_max)
        self.applier = Applier(self.redis, self.registry, self.shards, self.spouts, self.backpressure, work)
        self.roots = RootReader(self.shards, self.spouts, work)
        self.pending_roots = PendingRoots(self.shards, self.spouts)
        self.mailboxes = MailboxReader(self.shards, work)
        self.callbacks = Callbacks(self.registry, self.spouts)
        self.leases = LeaseStore(self.redis, self.shards)
        self.dead_letters = DeadLetters(self.shards, work)
        self.expiry = RootExpiry(self.redis, self.shards, work)
        self.topology_deleter = TopologyDeleter(self.redis, self.registry, self.shards, self.stats, work)
        self.spout_deleter = SpoutDeleter(
            self.registry, self.shards, self.spouts, self.stats, work, idle_ms=spout_idle_ms
        )
        self.mailbox_notifier = MailboxNotifier(self.redis, self.registry, self.shards, work)
        self.root_notifier = RootNotifier(self.registry, self.shards)
        self.followers = MailboxFollowers(
            self.registry, self.spouts, self.mailbox_notifier, ReadCoalescer(self.mailboxes), work
        )
        self._stop: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Put the function library into Redis and make the default topology.

        A store that is away is waited for by whoever uses it: opening logs that and goes on. Raises `ValueError` for a
        store that must not be used.
        """
        try:
            if fault := await self._requirements.violation():
                raise ValueError(fault)
            await self._requirements.log_warnings()
            await self.redis.load()
            await self.registry.refresh(DEFAULT)
        except StoreUnavailable as fault:
            _log.warning("the store is not there yet: %s", fault.detail)

    def start(self, stopping: asyncio.Event) -> None:
        """Begin to look for news, so that who waits is woken; once ``stopping`` is set, everybody is."""
        self.mailbox_notifier.start()
        self._stop = asyncio.create_task(self._wake_at(stopping))

    async def answers(self) -> bool:
        """Whether Redis answers now; of several servers at least one, for it has work to do."""
        try:
            await self.redis.on_any_server("PING")
        except StoreUnavailable:
            return False
        return True

    async def ticking(self) -> bool:
        """Whether somebody is seen to let time pass."""
        try:
            return await self.expiry.worker_seen()
        except StoreUnavailable:
            return False

    async def standing(self) -> StoreStats | None:
        """Tell how the store stands, as it was seen a moment ago; None if it does not answer. Never raises."""
        look = await self.monitor.latest()
        if look is None:
            return None
        found = {topology.name: counts.topology_stats for topology, counts in look.topologies}
        full = self.backpressure.is_store_full
        return StoreStats(
            used_bytes=look.used_bytes,
            max_bytes=look.max_bytes,
            is_full=full,
            worker_seen=look.worker_seen,
            topologies=found,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._stop is not None:
            self._stop.cancel()
        await self.mailbox_notifier.stop()
        await self.backpressure.stop()
        await self.root_notifier.stop()
        await self.monitor.stop()
        await self.redis.close()

    async def _wake_at(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self.mailbox_notifier.wake_all()
        self.root_notifier.wake_all()
