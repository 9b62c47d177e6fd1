"""Builds the parts of the service on one Redis; only the wiring holds them together."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

from acker_protocol.errors import StoreUnavailable

from acker_service.background import cancel_and_wait
from acker_service.delivery.leases import LeaseStore
from acker_service.mailboxes.dead_letters import DeadLetters
from acker_service.mailboxes.follower import MailboxFollowers, ReadCoalescer
from acker_service.mailboxes.notifier import MailboxNotifier
from acker_service.mailboxes.reading import MailboxReader
from acker_service.metrics.instruments import EARLY, EARLY_BYTES, MAILBOX, REMEMBERED_BYTES, SPOUTS
from acker_service.metrics.metrics import Metrics
from acker_service.monitoring.ages import AgeReader
from acker_service.monitoring.audit import AuditTrail
from acker_service.monitoring.backpressure import Backpressure
from acker_service.monitoring.metrics_text import MetricsText
from acker_service.monitoring.processes import ProcessList
from acker_service.monitoring.readiness import Readiness
from acker_service.monitoring.recording import HistoryReader, HistoryRecorder, TotalsReader
from acker_service.monitoring.snapshot import StoreMonitor
from acker_service.monitoring.status import StatusReader
from acker_service.operations.applier import Applier
from acker_service.redis.client import RedisClient
from acker_service.redis.durability import RELAXED, Durability, Mode, read_durability
from acker_service.redis.embedded import EmbeddedServer
from acker_service.redis.errors import LayoutMismatch, PermissionDenied, RightsUnknown
from acker_service.redis.functions.traces import TraceLimits
from acker_service.redis.requirements import ServerRequirements
from acker_service.roots.ages import AgeCounter
from acker_service.roots.component_times import ComponentTimesReader
from acker_service.roots.expiry import RootExpiry
from acker_service.roots.explaining import RootExplainer
from acker_service.roots.failures import FailureReader
from acker_service.roots.notifier import RootNotifier
from acker_service.roots.pending import PendingRoots
from acker_service.roots.reading import RootReader
from acker_service.settings import Settings
from acker_service.topologies.config import BUCKETS
from acker_service.topologies.deletion import SpoutDeleter, TopologyDeleter
from acker_service.topologies.registry import DEFAULT, TopologyRegistry
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Callbacks, SpoutRegistry
from acker_service.topologies.stats import StatsReader
from acker_service.topologies.topology import DEFAULT_LIMITS

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyLimits:
    """The limits of each topology, which all processes share.

    ``mailbox_max`` is the number of unread completions of a spout task from which on it takes no inits, ``max_spouts``
    the number of spout tasks, ``max_early`` the number of early roots and ``early_max_bytes`` the bytes of theirs from
    which on no more begin, ``remembered_max_bytes`` the bytes that remembered edges and requests take at most.
    """

    mailbox_max: int = 1_000_000
    max_spouts: int = 10_000
    max_early: int = 1_000_000
    early_max_bytes: int = 67_108_864
    remembered_max_bytes: int = 1_073_741_824


DEFAULT_TOPOLOGY_LIMITS = TopologyLimits()


class Components:
    """The parts of the service, built on one Redis, opened and closed together.

    Only the wiring (`server`, `app`, `worker_role`) holds this: routers and tasks are handed the parts that they use.
    ``window_ms`` is the minimum time that a request's idempotency key is remembered, ``spout_idle_ms`` the time after
    which an unused ephemeral spout task is deleted, ``buckets`` the number of small hashes of each shard of the default
    topology, ``trace_limits`` the bounds of a topology's traces, ``durability`` when a write counts as done (for
    ``fsync_asserted`` see `ServerRequirements`), ``supervised`` whether `EmbeddedServer` runs the Redis, and logs when
    it ends, ``role`` what the list of processes says of this one.
    """

    def __init__(
        self,
        url: str,
        *,
        window_ms: int,
        spout_idle_ms: int = 86_400_000,
        limits: TopologyLimits = DEFAULT_TOPOLOGY_LIMITS,
        buckets: int = BUCKETS,
        trace_limits: TraceLimits = DEFAULT_LIMITS,
        durability: Durability = RELAXED,
        fsync_asserted: bool = False,
        supervised: bool = False,
        role: str = "all",
    ) -> None:
        self.metrics = Metrics()
        self.window_ms = window_ms
        self.redis = RedisClient(url, self.metrics.redis, durability=durability, supervised=supervised)
        self._requirements = ServerRequirements(self.redis, durability, fsync_asserted=fsync_asserted)
        self.registry = TopologyRegistry(self.redis, window_ms=window_ms, buckets=buckets, trace_limits=trace_limits)
        self._build_topologies(max_spouts=limits.max_spouts, spout_idle_ms=spout_idle_ms)
        self._build_monitoring(limits, role=role, durability=durability)
        self._build_roots(max_early=limits.max_early)
        self._build_mailboxes()
        self._show_limits(limits)
        self._wake_task: asyncio.Task[None] | None = None

    def _build_topologies(self, *, max_spouts: int, spout_idle_ms: int) -> None:
        """Build what configures topologies and their spout tasks, counts what is in them, and deletes them."""
        counted = self.metrics.operations
        self.spouts = SpoutRegistry(self.redis, self.registry, max_spouts=max_spouts)
        self.shards = Shards(self.redis, self.registry)
        self.stats = StatsReader(self.redis, self.shards)
        self.callbacks = Callbacks(self.registry, self.spouts)
        self.topology_deleter = TopologyDeleter(self.redis, self.registry, self.shards, self.stats, counted)
        self.spout_deleter = SpoutDeleter(
            self.registry, self.shards, self.spouts, self.stats, counted, idle_ms=spout_idle_ms
        )

    def _build_monitoring(self, limits: TopologyLimits, *, role: str, durability: Durability) -> None:
        """Build what watches the store and tells of it, and refuses what it has no room for."""
        self.monitor = StoreMonitor(self.redis, self.registry, self.stats, AgeReader(self.shards, self.spouts))
        self.readiness = Readiness(self.redis, self.registry)
        self.backpressure = Backpressure(
            self.monitor,
            self.registry,
            self.stats,
            self._requirements,
            mailbox_max=limits.mailbox_max,
            early_max_bytes=limits.early_max_bytes,
            remembered_max_bytes=limits.remembered_max_bytes,
        )
        self.metrics_text = MetricsText(self.monitor, self.backpressure, self.metrics)
        self.audit = AuditTrail(self.redis, self.metrics.audit)
        self.recorder = HistoryRecorder(self.redis, TotalsReader(self.redis, self.registry))
        self.history = HistoryReader(self.redis, self.registry, self.stats)
        self.processes = ProcessList(self.redis, self.metrics.http, role=role)
        self.status = StatusReader(
            self.redis,
            self._requirements,
            self.backpressure,
            self.processes,
            self.metrics.http,
            durability=str(durability),
        )

    def _build_roots(self, *, max_early: int) -> None:
        """Build what applies operations, and reads, awaits and times out roots."""
        counted = self.metrics.operations
        self.applier = Applier(
            self.redis, self.registry, self.shards, self.spouts, self.backpressure, counted, max_early=max_early
        )
        self.failures = FailureReader(self.shards, self.spouts)
        self.roots = RootReader(self.shards, self.spouts, self.failures, counted)
        self.explainer = RootExplainer(self.shards, self.spouts)
        self.pending_roots = PendingRoots(self.shards, self.spouts)
        self.age_counter = AgeCounter(self.shards, self.stats, self.pending_roots)
        self.component_times = ComponentTimesReader(self.shards)
        self.root_notifier = RootNotifier(self.registry, self.shards)
        self.expiry = RootExpiry(self.redis, self.shards, counted)

    def _build_mailboxes(self) -> None:
        """Build what reads, awaits and leases completions."""
        counted = self.metrics.operations
        self.mailboxes = MailboxReader(self.shards, counted)
        self.mailbox_notifier = MailboxNotifier(self.redis, self.registry, self.shards, counted)
        self.followers = MailboxFollowers(
            self.registry, self.spouts, self.mailbox_notifier, ReadCoalescer(self.mailboxes), counted
        )
        self.dead_letters = DeadLetters(self.shards, counted)
        self.leases = LeaseStore(self.redis, self.shards)

    def _show_limits(self, limits: TopologyLimits) -> None:
        """Show the limits in the metrics; backpressure may lower two of them."""
        shown = self.metrics.http.limits
        shown[MAILBOX].set(limits.mailbox_max)
        shown[SPOUTS].set(limits.max_spouts)
        shown[EARLY].set(limits.max_early)
        shown[EARLY_BYTES].set_function(lambda: self.backpressure.early_max_bytes)
        shown[REMEMBERED_BYTES].set_function(lambda: self.backpressure.remembered_max_bytes)

    async def open(self, *, is_checked: bool = False) -> None:
        """Load the function library into Redis and create the default topology.

        If the store does not answer yet, this returns: every use of it retries. Raises `ValueError` for a store that
        must not be used. ``is_checked``: another process has checked the store, and logged its warnings.
        """
        try:
            if not is_checked:
                if violation := await self._requirements.mode_violation() or await self._requirements.violation():
                    raise ValueError(violation)
                await self._requirements.log_warnings()
            await self.redis.load()
            if not is_checked and (violation := await self._requirements.rights_violation()):
                raise ValueError(violation)
            await self.registry.refresh(DEFAULT)
        except (LayoutMismatch, PermissionDenied, RightsUnknown) as error:
            raise ValueError(error.detail) from error
        except StoreUnavailable as error:
            _log.debug("the store is opened later: %s", error.detail)

    def start(self, stopping: asyncio.Event) -> None:
        """Start to wake waiters at news; setting ``stopping`` wakes all of them."""
        self.mailbox_notifier.start()
        self._wake_task = asyncio.create_task(self._wake_all_at(stopping))

    async def close(self) -> None:
        """Stop the background tasks and close all connections."""
        if self._wake_task is not None:
            self._wake_task.cancel()
        await self.mailbox_notifier.stop()
        await self.processes.stop()
        await self.backpressure.stop()
        await self.root_notifier.stop()
        await self.monitor.stop()
        await self.readiness.stop()
        await self.redis.close()

    async def _wake_all_at(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self.mailbox_notifier.wake_all()
        self.root_notifier.wake_all()


def make_components(url: str, settings: Settings) -> Components:
    """Build the parts of the service on the Redis at ``url``, as the settings demand."""
    return Components(
        url,
        window_ms=settings.idempotency_window_ms,
        spout_idle_ms=settings.spout_idle_ms,
        limits=TopologyLimits(
            mailbox_max=settings.mailbox_max,
            max_spouts=settings.max_spouts,
            max_early=settings.max_early,
            early_max_bytes=settings.early_max_bytes,
            remembered_max_bytes=settings.remembered_max_bytes,
        ),
        buckets=settings.buckets,
        trace_limits=TraceLimits(max_bytes=settings.trace_max_bytes, ttl_ms=settings.trace_ttl_ms),
        durability=read_durability(settings.durability),
        fsync_asserted=settings.fsync_asserted,
        supervised=settings.redis_url is None,
        role=settings.role.value,
    )


@contextlib.asynccontextmanager
async def store_url(settings: Settings) -> AsyncIterator[str]:
    """Return the URL of the configured Redis, or run an embedded one."""
    if settings.redis_url is not None:
        yield settings.redis_url
        return
    sync = "always" if read_durability(settings.durability).mode is Mode.FSYNC else "everysec"
    embedded = EmbeddedServer(settings.data_dir, port=settings.store_port, sync=sync)
    try:
        await embedded.start()
        async with running(embedded.supervise()):
            yield embedded.url
    finally:
        await embedded.stop()


@contextlib.asynccontextmanager
async def running(loop: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a loop in the background for as long as the block lasts."""
    task = asyncio.create_task(loop)
    try:
        yield
    finally:
        await cancel_and_wait(task)
