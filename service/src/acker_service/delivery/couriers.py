"""Keeps a courier for every callback that is on."""

import asyncio
import logging
import uuid
from typing import Any

from acker_service.delivery.courier import Courier
from acker_service.delivery.posting import Poster
from acker_service.delivery.pubsub import PubSubCourier
from acker_service.delivery.rounds import Rounds
from acker_service.delivery.webhook import WebhookCourier
from acker_service.domain.registration import State
from acker_service.domain.terms import Terms
from acker_service.store.spouts import Spout
from acker_service.store.store import Store
from acker_service.store.topology import Doom, Topology
from acker_service.tasks import end

EVERY_S = 1.0
GRACE_S = 5.0
"""How long couriers may take to settle what they are sending once they are told to stop."""

_log = logging.getLogger(__name__)

Mailbox = tuple[str, int]


class Couriers(Rounds):
    """Looks at the spout tasks of all topologies, and lets a courier run where a callback is on."""

    def __init__(self, store: Store, *, poster: Poster, terms: Terms, every: float = EVERY_S) -> None:
        super().__init__(store, every=every)
        self._poster, self._terms = poster, terms
        self._worker = uuid.uuid4().hex
        self._running: dict[Mailbox, tuple[Courier, asyncio.Task[None]]] = {}

    async def visit(self, topology: Topology) -> None:
        """See to it that the couriers of a topology are those of its callbacks as they are now."""
        topology = await self.store.topologies.read(topology.name)
        wanted = {(topology.incarnation, spout.index): spout for spout in await self._on(topology)}
        for mailbox, (courier, task) in list(self._running.items()):
            if task.done() or (mailbox[0] == topology.incarnation and wanted.get(mailbox) != courier.spout):
                await self._end(mailbox)
        for mailbox in wanted.keys() - self._running.keys():
            self._begin(mailbox, topology, wanted[mailbox])

    async def stop(self) -> None:
        """End all couriers; what they are sending is settled first, unless that takes long."""
        await super().stop()
        tasks = [task for _, task in self._running.values()]
        for courier, _ in self._running.values():
            courier.stop()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)
        await end(*tasks)

    async def _on(self, topology: Topology) -> list[Spout]:
        """Give the spout tasks whose callback is on."""
        if topology.doom is Doom.GONE:
            return []
        called_back = await self.store.spouts.called_back(topology)
        return [spout for spout in called_back if spout.callback and spout.callback.state is State.ON]

    def _begin(self, mailbox: Mailbox, topology: Topology, spout: Spout) -> None:
        courier = self._make(topology, spout)
        if courier is not None:
            self._running[mailbox] = (courier, asyncio.create_task(self._deliver(courier)))

    def _make(self, topology: Topology, spout: Spout) -> Courier | None:
        """Make the courier for a callback; None for a kind that only a later release knows."""
        assert spout.callback is not None
        common: dict[str, Any] = {"worker": self._worker, "terms": self._terms}
        if spout.callback.kind == "webhook":
            return WebhookCourier(self.store, topology, spout, poster=self._poster, **common)
        if spout.callback.kind == "pubsub":
            return PubSubCourier(self.store, topology, spout, **common)
        return None

    async def _deliver(self, courier: Courier) -> None:
        try:
            await courier.run()
        except Exception:  # noqa: BLE001 - what is wrong with one callback does not end the others
            _log.exception("delivery for %s failed", courier.name)

    async def _end(self, mailbox: Mailbox) -> None:
        running = self._running.pop(mailbox, None)
        if running is not None:
            await end(running[1])
