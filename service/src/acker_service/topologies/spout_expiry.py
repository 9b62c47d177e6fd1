"""Looks after spout tasks that nobody uses."""

from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.stamp import Topology


class SpoutExpiry(PeriodicTask):
    """Removes ephemeral spout tasks that were idle for long, and goes on with removals that were left half-way."""

    async def run_for(self, topology: Topology) -> None:
        """Look after the spout tasks of a topology."""
        if not topology.deletion:
            await self.store.spout_deleter.expire_unused(topology)
