"""Keeps time: ends what is overdue, and goes on with topologies that are being removed."""

import math
import time

from acker_service.store import Store
from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.stamp import Topology

NOTE_EVERY_S = 1.0


class RootExpiryTask(PeriodicTask):
    """Lets time pass in every topology; a root is told once, however many replicas tick."""

    def __init__(self, store: Store, *, every: float) -> None:
        super().__init__(registry=store.registry, metrics=store.metrics, interval=every, label="tick")
        self.store = store
        self._noted_at = -math.inf

    async def before_pass(self) -> None:
        """Note that somebody lets time pass."""
        now = time.monotonic()
        if now - self._noted_at >= NOTE_EVERY_S:
            await self.store.expiry.mark_worker_alive()
            self._noted_at = now

    async def run_for(self, topology: Topology) -> None:
        """End all that is overdue in a topology, or go on with its removal."""
        if topology.deletion:
            await self.store.topology_deleter.resume(await self.store.registry.refresh(topology.name))
        else:
            await self.store.expiry.expire(topology)
