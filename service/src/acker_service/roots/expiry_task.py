"""Ends overdue roots periodically, and resumes the deletion of topologies."""

import math
import time

from acker_service.metrics.registry import Metrics
from acker_service.roots.expiry import RootExpiry
from acker_service.topologies.deletion import TopologyDeleter
from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.stamp import Topology

HEARTBEAT_INTERVAL_S = 1.0


class RootExpiryTask(PeriodicTask):
    """Ticks in every topology; each root ends once, however many replicas tick."""

    def __init__(
        self,
        *,
        registry: TopologyRegistry,
        metrics: Metrics,
        expiry: RootExpiry,
        topology_deleter: TopologyDeleter,
        interval: float,
    ) -> None:
        super().__init__(registry=registry, metrics=metrics, interval=interval, label="tick")
        self._expiry, self._topology_deleter = expiry, topology_deleter
        self._heartbeat_at = -math.inf

    async def before_pass(self) -> None:
        """Record in the store that a worker is alive, once a second."""
        now = time.monotonic()
        if now - self._heartbeat_at >= HEARTBEAT_INTERVAL_S:
            await self._expiry.mark_worker_alive()
            self._heartbeat_at = now

    async def run_for(self, topology: Topology) -> None:
        """End the overdue roots of a topology, or resume its deletion."""
        if topology.deletion:
            await self._topology_deleter.resume(await self.registry.refresh(topology.name))
        else:
            await self._expiry.expire(topology)
