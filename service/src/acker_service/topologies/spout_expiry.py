"""Looks after spout tasks that nobody uses."""

from acker_service.store import Store
from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.stamp import Topology


class SpoutExpiry(PeriodicTask):
    """Removes ephemeral spout tasks that were idle for long, and goes on with removals that were left half-way."""

    def __init__(self, store: Store, *, every: float) -> None:
        super().__init__(registry=store.registry, metrics=store.metrics, interval=every, label="spout_expiry")
        self.store = store

    async def run_for(self, topology: Topology) -> None:
        """Look after the spout tasks of a topology."""
        if not topology.deletion:
            await self.store.spout_deleter.expire_unused(topology)
