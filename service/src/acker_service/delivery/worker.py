"""Delivers the completions of one spout task in a loop: claim, deliver, settle, release the lease."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

from acker_protocol.errors import NotFound, ServiceError, StoreUnavailable

from acker_service.background import Wakeup
from acker_service.delivery.leases import CallbackSuperseded, ClaimedBatch, Lease, LeaseStore, TopologyChanged
from acker_service.delivery.response import DeliveryResult
from acker_service.delivery.retry import DeliveryConfig, EntryResult, Rest, Settlement
from acker_service.mailboxes.notifier import MailboxNotifier
from acker_service.metrics.instruments import DeliveryMetrics
from acker_service.redis.errors import PermissionDenied
from acker_service.topologies.callback import RegisteredCallback
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.spouts import Callbacks, Spout, SpoutRegistry
from acker_service.topologies.topology import Topology, TopologyRecreated

RETRY_INTERVAL_S = 0.5
"""The delay before the next attempt while Redis is unavailable."""

DENIED_INTERVAL_S = 60.0
"""The delay before the next attempt while the login of Redis lacks the right to publish."""

IDLE_S = 30.0
"""An idle worker claims again after this time even without a notification."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """Redis's clock as it was read once; this process counts the time since."""

    redis_ms: int
    read_s: float = field(default_factory=time.monotonic)

    def now_ms(self) -> int:
        """Return the time by Redis's clock, late by at most the round trip of the reading."""
        # rule: the time since the clock was read counts
        return self.redis_ms + int((time.monotonic() - self.read_s) * 1_000)


class CallbackGone(Exception):
    """The callback was changed, deactivated or removed: this worker has nothing more to deliver."""


class DeliveryWorker:
    """Delivers to one callback as it is registered; once that changes, `DeliveryWorkers` starts another.

    Several processes may run a worker for the same spout task: the one with the lease delivers.
    """

    splits_entries = True
    """Whether a large entry is split, so that no request holds more than ``max_batch`` completions."""

    def __init__(
        self,
        topology: Topology,
        spout: Spout,
        *,
        worker_id: str,
        config: DeliveryConfig,
        registry: TopologyRegistry,
        spouts: SpoutRegistry,
        callbacks: Callbacks,
        leases: LeaseStore,
        notifier: MailboxNotifier,
        metrics: DeliveryMetrics,
    ) -> None:
        self.topology = topology
        self.spout = spout
        self.config = config
        self.leases = leases
        self.metrics = metrics
        self._worker_id = worker_id
        self._last_stamp = topology.stamp
        self._registry = registry
        self._spouts = spouts
        self._callbacks = callbacks
        self._notifier = notifier
        self._clock = ClockReading(redis_ms=0)
        self._stopping = asyncio.Event()
        self._wakeup = Wakeup()

    @property
    def name(self) -> str:
        """The topology and the spout task, for logs."""
        return f"{self.topology.name}/{self.spout.name}"

    async def deliver(self, lease: Lease, claimed: ClaimedBatch) -> DeliveryResult:
        """Send the claimed completions once."""
        raise NotImplementedError

    async def settle(self, lease: Lease, claimed: ClaimedBatch, result: DeliveryResult) -> Rest | None:
        """Settle the claimed entries; returns the rest after them (`rest_after`). Raises `CallbackGone`."""
        raise NotImplementedError

    def stop(self) -> None:
        """End `run` once the current batch is settled."""
        self._stopping.set()
        self._wakeup.wake()

    async def run(self) -> None:
        """Deliver until `stop` is called or the callback changes, then release the lease."""
        with self._notifier.waiting(self.topology, self.spout) as self._wakeup:
            with contextlib.suppress(CallbackGone):
                while not self._stopping.is_set():
                    async with self.retry_while_unavailable("delivery for %s waits: %s"):
                        await self._run_once()
            with contextlib.suppress(ServiceError):
                await self.leases.release_lease(self._lease(await self._topology()))

    async def sleep(self, seconds: float) -> None:
        """Sleep until the time is over or `stop` is called."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def now_ms(self) -> int:
        """Return the time by Redis's clock, which is read once a turn, before the claim."""
        return self._clock.now_ms()

    def rest_after(
        self, claimed: ClaimedBatch, settlements: Sequence[Settlement] = (), *, backoff_s: float = 0.0
    ) -> Rest | None:
        """Return the rest after a batch; None if more may be due now, and the worker keeps the lease for it.

        What came after the claim has woken the worker, or the next poll of the mailboxes wakes it.
        """
        if not backoff_s and (claimed.more or self._wakeup.is_woken):
            return None
        retries = [settlement.at_ms for settlement in settlements if settlement.result is EntryResult.RETRY]
        # rule: a worker wakes for the retry of what it settled
        known = retries if claimed.due_ms is None else [*retries, claimed.due_ms]
        # rule: an idle worker releases its lease
        return Rest(backoff_s=backoff_s, due_ms=min(known, default=None))

    async def change_callback(self, change: Callable[[RegisteredCallback], RegisteredCallback]) -> None:
        """Change the callback as it is registered now; does nothing if the spout task has none."""
        await self._callbacks.change(
            self.topology.name, self.spout.name, lambda present, _now_ms: present and change(present)
        )

    @contextlib.asynccontextmanager
    async def retry_while_unavailable(self, log_format: str) -> AsyncIterator[None]:
        """Log that Redis is unavailable and sleep, so that the loop around this block tries again.

        Raises `CallbackGone` if the topology or the spout task was removed, or if the worker stops.
        """
        try:
            yield
        except (NotFound, TopologyRecreated):
            raise CallbackGone from None
        except ServiceError as error:
            level = logging.DEBUG if isinstance(error, StoreUnavailable) else logging.WARNING  # the driver logs that
            _log.log(level, log_format, self.name, error.detail)
            if self._stopping.is_set():
                raise CallbackGone from None
            await self.sleep(DENIED_INTERVAL_S if isinstance(error, PermissionDenied) else RETRY_INTERVAL_S)

    async def _run_once(self) -> None:
        """Claim a batch, deliver and settle it; then wait until more is due."""
        try:
            lease = self._lease(await self._current_topology())
            claimed = await self._claim(lease)
            if claimed.leased_for_ms is not None:
                await self._wait(claimed.leased_for_ms / 1_000)
            elif rest := await self._deliver_batch(lease, claimed):
                await self._rest(rest)
            elif not claimed.more:
                await self._linger(self._wakeup.clear())
        except TopologyChanged:
            pass  # the next pass reads the topology and the callback again
        except CallbackSuperseded as superseded:
            await self._adopt_epoch(superseded.callback_epoch_ms)
            raise CallbackGone from None

    async def _claim(self, lease: Lease) -> ClaimedBatch:
        self._clock = ClockReading(redis_ms=await self._registry.now_ms())
        # rule: what a claim finds wakes nobody again
        self._wakeup.clear()  # the claim finds all that came until now
        return await self.leases.claim(lease, self.now_ms())

    async def _deliver_batch(self, lease: Lease, claimed: ClaimedBatch) -> Rest | None:
        """Deliver and settle a batch, which may be empty; returns the rest after it, with the lease released."""
        if claimed.entries:
            # rule: what comes while a batch is delivered goes next
            return await self.settle(lease, claimed, await self.deliver(lease, claimed))
        rest = self.rest_after(claimed)
        if rest is not None:
            await self.leases.release_lease(lease)
        return rest

    async def _rest(self, rest: Rest) -> None:
        """Wait until the rest is over: the receiver is left alone, or a notification comes or a retry is due."""
        if rest.backoff_s:
            # rule: a receiver that is left alone costs nothing
            await self.sleep(min(IDLE_S, rest.backoff_s))
        else:
            await self._wait(IDLE_S if rest.due_ms is None else (rest.due_ms - self.now_ms()) / 1_000)

    async def _wait(self, seconds: float) -> None:
        """Wait for a notification, ``seconds`` at most; after one, linger for further completions."""
        if not self._stopping.is_set():  # its wake may be cleared
            await self._linger(await self._wakeup.wait(max(0.0, min(IDLE_S, seconds))))

    async def _linger(self, woken_s: float | None) -> None:
        """Wait for further completions until ``linger_s`` after the wake by the first one; without a wake, do not."""
        if woken_s is not None:
            # rule: a worker lingers before it claims
            await self.sleep(woken_s + self.config.linger_s - time.monotonic())

    async def _topology(self) -> Topology:
        return await self._registry.get(self.topology.name)

    async def _current_topology(self) -> Topology:
        """Return the topology; if it changed, check that the callback is still the one that this worker serves."""
        topology = await self._topology()
        if topology.stamp != self._last_stamp:
            recreated = topology.incarnation != self.topology.incarnation
            if recreated or await self._spouts.get(topology, self.spout.name) != self.spout:
                raise CallbackGone
            self._last_stamp = topology.stamp
        return topology

    def _lease(self, topology: Topology) -> Lease:
        return Lease(
            topology=topology,
            spout=self.spout,
            worker=self._worker_id,
            lease_ms=self.config.lease_ms,
            max_batch=self.config.max_batch,
            splits_entries=self.splits_entries,
        )

    async def _adopt_epoch(self, epoch_ms: int) -> None:
        """Raise the callback's epoch above the shard's, which is that of a callback before it: all is delivered anew.

        The clock was set back between the two registrations. Else the callback is a later one than this worker's, and
        has the shard's epoch already.
        """

        def change(present: RegisteredCallback) -> RegisteredCallback:
            is_later = present.callback_epoch_ms >= epoch_ms
            return present if is_later else replace(present, callback_epoch_ms=epoch_ms + 1)

        with contextlib.suppress(ServiceError):
            await self.change_callback(change)
