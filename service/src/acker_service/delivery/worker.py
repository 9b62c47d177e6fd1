"""Delivers the completions of one spout task: takes some, sends them, settles them, one after the other."""

import asyncio
import contextlib
import logging
from dataclasses import replace

from acker_protocol.errors import NotFound, ServiceError

from acker_service.delivery.config import DeliveryConfig
from acker_service.delivery.leases import CallbackSuperseded, ClaimedBatch, Lease, TopologyChanged
from acker_service.store import Store
from acker_service.topologies.callback import RegisteredCallback
from acker_service.topologies.spouts import Spout
from acker_service.topologies.stamp import Topology, TopologyRecreated
from acker_service.wakeup import Wakeup

RETRY_INTERVAL_S = 0.5
"""A store that is away is asked again after so long."""

IDLE_S = 30.0
"""Whoever waits for news looks after so long all the same."""

_log = logging.getLogger(__name__)


class CallbackGone(Exception):
    """There is nothing more to deliver here: the callback is another, or not on, or gone."""


class DeliveryWorker:
    """Delivers to one callback as it was registered; when that changes another courier takes its place.

    Several may deliver for one spout task, in as many processes: one at a time has the lease.
    """

    splits_entries = True
    """Whether no request holds more than the terms say, so that large entries have to be divided."""

    def __init__(self, store: Store, topology: Topology, spout: Spout, *, worker: str, terms: DeliveryConfig) -> None:
        self.store, self.topology, self.spout, self.terms = store, topology, spout, terms
        self._worker, self._known_by = worker, topology.stamp
        self._stopping = asyncio.Event()
        self._wakeup = Wakeup()

    @property
    def name(self) -> str:
        """Says for whom this delivers, in a log."""
        return f"{self.topology.name}/{self.spout.name}"

    async def deliver(self, post: Lease, taken: ClaimedBatch) -> float:
        """Send what was taken and settle it; gives for how many seconds nothing shall be sent. Raises `Ended`."""
        raise NotImplementedError

    def stop(self) -> None:
        """End once what is being sent is settled."""
        self._stopping.set()
        self._wakeup.wake()

    async def run(self) -> None:
        """Deliver until told to stop, or until the callback is another."""
        with self.store.mailbox_notifier.waiting(self.topology, self.spout) as self._wakeup:
            while not self._stopping.is_set():
                try:
                    await self._run_once()
                except (CallbackGone, NotFound, TopologyRecreated):
                    break
                except TopologyChanged:
                    continue  # and look at the callback again
                except CallbackSuperseded as outdated:
                    await self._adopt_epoch(outdated.callback_epoch_ms)
                    break
                except ServiceError as problem:
                    _log.warning("delivery for %s waits: %s", self.name, problem.detail)
                    await self.sleep(RETRY_INTERVAL_S)
            with contextlib.suppress(ServiceError):
                await self.store.leases.release_lease(self._lease(await self._topology()))

    async def sleep(self, seconds: float) -> None:
        """Sleep, but not beyond a stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def now_ms(self) -> int:
        """Tell the time, by Redis's clock."""
        return await self.store.registry.now_ms()

    async def _run_once(self) -> None:
        """Deliver what there is, or wait for some."""
        post = self._lease(await self._current_topology())
        now_ms = await self.now_ms()
        taken = await self._claim(post, now_ms)
        if taken.entries:
            rest_s = await self.deliver(post, taken)
            if rest_s:
                await self.store.leases.release_lease(post, rest_s=rest_s)
        elif taken.leased_for_ms is not None:
            await self._wakeup.wait(min(IDLE_S, taken.leased_for_ms / 1_000))
        elif not taken.more:
            await self.store.leases.release_lease(post)
            due_s = IDLE_S if taken.due_ms is None else (taken.due_ms - now_ms) / 1_000
            await self._wakeup.wait(max(0.0, min(IDLE_S, due_s)))

    async def _claim(self, post: Lease, now_ms: int) -> ClaimedBatch:
        """Take what there is; if that is little and new, wait a moment for what comes with it."""
        taken = await self.store.leases.claim(post, now_ms)
        total = sum(len(entry.completions) for entry in taken.entries)
        if taken.is_retry or taken.more or not 0 < total < self.terms.max_batch or not self.terms.linger_s:
            return taken
        await self.sleep(self.terms.linger_s)
        return await self.store.leases.claim(post, now_ms)

    async def _topology(self) -> Topology:
        return await self.store.registry.get(self.topology.name)

    async def _current_topology(self) -> Topology:
        """Give the topology as it is known now; whenever that changed, see to it that the callback did not."""
        topology = await self._topology()
        if topology.stamp != self._known_by:
            same = topology.incarnation == self.topology.incarnation
            if not same or await self.store.spouts.get(topology, self.spout.name) != self.spout:
                raise CallbackGone
            self._known_by = topology.stamp
        return topology

    def _lease(self, topology: Topology) -> Lease:
        return Lease(
            topology=topology,
            spout=self.spout,
            worker=self._worker,
            lease_ms=self.terms.lease_ms,
            max_batch=self.terms.max_batch,
            splits_entries=self.splits_entries,
        )

    async def _adopt_epoch(self, begun_ms: int) -> None:
        """Begin anew, if a shard knows of a later callback than there is: the clock was set back between the two."""

        def change(present: RegisteredCallback | None, _: int) -> RegisteredCallback | None:
            behind = present is not None and present.callback_epoch_ms < begun_ms
            return replace(present, callback_epoch_ms=begun_ms) if present is not None and behind else present

        with contextlib.suppress(ServiceError):
            await self.store.callbacks.change(self.topology.name, self.spout.name, change)
