"""Keeps time: ends what is overdue, and goes on with topologies that are being removed."""

from acker_service.delivery.rounds import Rounds
from acker_service.store.topology import Topology


class Tick(Rounds):
    """Lets time pass in every topology; a root is told once, however many replicas tick."""

    async def visit(self, topology: Topology) -> None:
        """End all that is overdue in a topology, or go on with its removal."""
        if topology.doom:
            await self.store.removal.advance(await self.store.topologies.read(topology.name))
        else:
            await self.store.ticks.tick(topology)
