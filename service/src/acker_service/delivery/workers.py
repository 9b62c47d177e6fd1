"""Runs a delivery worker for every active callback."""

import asyncio
import logging
import uuid
from collections.abc import Callable
from functools import partial

from acker_service.background import cancel_and_wait
from acker_service.delivery.leases import LeaseStore
from acker_service.delivery.pubsub import PubSubWorker
from acker_service.delivery.retry import DeliveryConfig
from acker_service.delivery.webhook import WebhookWorker
from acker_service.delivery.webhook_client import WebhookClient
from acker_service.delivery.worker import DeliveryWorker
from acker_service.mailboxes.notifier import MailboxNotifier
from acker_service.metrics.metrics import Metrics
from acker_service.topologies.callback import CallbackStatus
from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.spouts import Callbacks, Spout, SpoutRegistry
from acker_service.topologies.topology import Deletion, MailboxId, Topology

INTERVAL_S = 1.0
GRACE_S = 5.0
"""How long stopping workers may take to settle the batch that they are sending."""

_log = logging.getLogger(__name__)


class DeliveryWorkers(PeriodicTask):
    """Starts and ends workers as the callbacks of all topologies change."""

    def __init__(
        self,
        *,
        registry: TopologyRegistry,
        spouts: SpoutRegistry,
        callbacks: Callbacks,
        leases: LeaseStore,
        notifier: MailboxNotifier,
        metrics: Metrics,
        webhook_client: WebhookClient,
        config: DeliveryConfig,
        interval: float = INTERVAL_S,
    ) -> None:
        super().__init__(registry=registry, metrics=metrics, interval=interval, label="delivery")
        self._spouts = spouts
        self._callbacks = callbacks
        self._leases = leases
        self._notifier = notifier
        self._metrics = metrics.delivery
        self._webhook_client = webhook_client
        self._config = config
        self._worker_id = uuid.uuid4().hex
        self._running: dict[MailboxId, tuple[DeliveryWorker, asyncio.Task[None]]] = {}

    async def select(self) -> list[str]:
        """Read all topologies again, together: a change of a callback changes its topology."""
        return await self.registry.refresh_all()

    async def run_for(self, topology: Topology) -> None:
        """End the workers of a topology whose callback changed, and start those that are missing.

        One that posts settles that first, so that nothing is posted again that its receiver takes, and another starts
        after it. It is not waited for where all begins anew, for another receiver or at a resume.
        """
        wanted = {(topology.id, spout.index): spout for spout in await self._with_active_callback(topology)}
        for mailbox, (worker, task) in list(self._running.items()):
            changed = wanted.get(mailbox) if mailbox[0] == topology.id else worker.spout
            if task.done() or _begins_anew(worker.spout, changed):
                await self._end(mailbox)
            elif changed != worker.spout:
                worker.stop()
        for mailbox in wanted.keys() - self._running.keys():
            self._start(mailbox, topology, wanted[mailbox])

    async def stop(self) -> None:
        """Stop all workers; each may settle the batch that it is sending, within `GRACE_S`."""
        await super().stop()
        tasks = [task for _, task in self._running.values()]
        for worker, _ in self._running.values():
            worker.stop()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)
        await cancel_and_wait(*tasks)

    async def _with_active_callback(self, topology: Topology) -> list[Spout]:
        if topology.deletion is Deletion.DELETING:
            return []
        spouts = await self._spouts.with_callback(topology)
        return [spout for spout in spouts if spout.callback and spout.callback.state is CallbackStatus.ON]

    def _start(self, mailbox: MailboxId, topology: Topology, spout: Spout) -> None:
        worker = self._make_worker(topology, spout)
        if worker is not None:
            self._running[mailbox] = (worker, asyncio.create_task(self._run_worker(worker)))

    def _make_worker(self, topology: Topology, spout: Spout) -> DeliveryWorker | None:
        """Create the worker for a callback; None for a kind that only a later release knows."""
        assert spout.callback is not None
        make: Callable[..., DeliveryWorker]
        match spout.callback.kind:
            case "webhook":
                make = partial(WebhookWorker, webhook_client=self._webhook_client)
            case "pubsub":
                make = PubSubWorker
            case _:
                return None
        return make(
            topology,
            spout,
            worker_id=self._worker_id,
            config=self._config,
            registry=self.registry,
            spouts=self._spouts,
            callbacks=self._callbacks,
            leases=self._leases,
            notifier=self._notifier,
            metrics=self._metrics,
        )

    async def _run_worker(self, worker: DeliveryWorker) -> None:
        try:
            await worker.run()
        except Exception:  # noqa: BLE001 - a failure with one callback must not end the delivery to others
            _log.exception("delivery for %s failed", worker.name)

    async def _end(self, mailbox: MailboxId) -> None:
        running = self._running.pop(mailbox, None)
        if running is not None:
            await cancel_and_wait(running[1])


def _begins_anew(before: Spout, after: Spout | None) -> bool:
    """Whether the callback of a spout task, None for one that is not active, delivers all from the beginning."""
    if after is None or after.callback is None or before.callback is None:
        return False
    return after.callback.callback_epoch_ms != before.callback.callback_epoch_ms
