"""Deletes unused ephemeral spout tasks."""

from acker_service.metrics.registry import Metrics
from acker_service.topologies.deletion import SpoutDeleter
from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.stamp import Topology


class SpoutExpiry(PeriodicTask):
    """Deletes ephemeral spout tasks that stayed unused, and resumes deletions that another process left unfinished."""

    def __init__(
        self, *, registry: TopologyRegistry, metrics: Metrics, spout_deleter: SpoutDeleter, interval: float
    ) -> None:
        super().__init__(registry=registry, metrics=metrics, interval=interval, label="spout_expiry")
        self._spout_deleter = spout_deleter

    async def run_for(self, topology: Topology) -> None:
        """Delete the unused spout tasks of a topology, unless the topology itself is being deleted."""
        if not topology.deletion:
            await self._spout_deleter.expire_unused(topology)
