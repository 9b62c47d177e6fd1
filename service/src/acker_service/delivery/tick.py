"""Keeps time: ends what is overdue, and goes on with topologies that are being removed."""

import math
import time

from acker_service.delivery.rounds import Rounds
from acker_service.store.store import Store
from acker_service.store.topology import Topology

NOTE_EVERY_S = 1.0


class Tick(Rounds):
    """Lets time pass in every topology; a root is told once, however many replicas tick."""

    def __init__(self, store: Store, *, every: float) -> None:
        super().__init__(store, every=every)
        self._noted_at = -math.inf

    async def begin(self) -> None:
        """Note that somebody lets time pass."""
        now = time.monotonic()
        if now - self._noted_at >= NOTE_EVERY_S:
            await self.store.ticks.note()
            self._noted_at = now

    async def visit(self, topology: Topology) -> None:
        """End all that is overdue in a topology, or go on with its removal."""
        if topology.doom:
            await self.store.removal.advance(await self.store.topologies.read(topology.name))
        else:
            await self.store.ticks.tick(topology)
