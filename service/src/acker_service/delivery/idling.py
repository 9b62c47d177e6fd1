"""Looks after spout tasks that nobody uses."""

from acker_service.delivery.rounds import Rounds
from acker_service.store.topology import Topology


class Idling(Rounds):
    """Removes ephemeral spout tasks that were idle for long, and goes on with removals that were left half-way."""

    async def visit(self, topology: Topology) -> None:
        """Look after the spout tasks of a topology."""
        if not topology.doom:
            await self.store.departures.look_after(topology)
