"""Keeps a courier for every callback that is on."""

import asyncio
import logging
import uuid
from typing import Any

from acker_service.background import cancel_and_wait
from acker_service.delivery.config import DeliveryConfig
from acker_service.delivery.pubsub import PubSubWorker
from acker_service.delivery.webhook import WebhookWorker
from acker_service.delivery.webhook_client import WebhookClient
from acker_service.delivery.worker import DeliveryWorker
from acker_service.store import Store
from acker_service.topologies.callback import CallbackStatus
from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.spouts import Spout
from acker_service.topologies.stamp import Deletion, Topology

EVERY_S = 1.0
GRACE_S = 5.0
"""How long couriers may take to settle what they are sending once they are told to stop."""

_log = logging.getLogger(__name__)

Mailbox = tuple[str, int]


class DeliverySupervisor(PeriodicTask):
    """Looks at the spout tasks of all topologies, and lets a courier run where a callback is on."""

    def __init__(self, store: Store, *, poster: WebhookClient, terms: DeliveryConfig, every: float = EVERY_S) -> None:
        super().__init__(store, every=every)
        self._poster, self._terms = poster, terms
        self._worker = uuid.uuid4().hex
        self._running: dict[Mailbox, tuple[DeliveryWorker, asyncio.Task[None]]] = {}

    async def run_for(self, topology: Topology) -> None:
        """See to it that the couriers of a topology are those of its callbacks as they are now."""
        topology = await self.store.registry.refresh(topology.name)
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
        await cancel_and_wait(*tasks)

    async def _on(self, topology: Topology) -> list[Spout]:
        """Give the spout tasks whose callback is on."""
        if topology.deletion is Deletion.DELETING:
            return []
        called_back = await self.store.spouts.with_callback(topology)
        return [spout for spout in called_back if spout.callback and spout.callback.state is CallbackStatus.ON]

    def _begin(self, mailbox: Mailbox, topology: Topology, spout: Spout) -> None:
        courier = self._make(topology, spout)
        if courier is not None:
            self._running[mailbox] = (courier, asyncio.create_task(self._deliver(courier)))

    def _make(self, topology: Topology, spout: Spout) -> DeliveryWorker | None:
        """Make the courier for a callback; None for a kind that only a later release knows."""
        assert spout.callback is not None
        common: dict[str, Any] = {"worker": self._worker, "terms": self._terms}
        if spout.callback.kind == "webhook":
            return WebhookWorker(self.store, topology, spout, poster=self._poster, **common)
        if spout.callback.kind == "pubsub":
            return PubSubWorker(self.store, topology, spout, **common)
        return None

    async def _deliver(self, courier: DeliveryWorker) -> None:
        try:
            await courier.run()
        except Exception:  # noqa: BLE001 - what is wrong with one callback does not end the others
            _log.exception("delivery for %s failed", courier.name)

    async def _end(self, mailbox: Mailbox) -> None:
        running = self._running.pop(mailbox, None)
        if running is not None:
            await cancel_and_wait(running[1])
