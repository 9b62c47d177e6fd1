"""Runs what a worker does: lets time pass, looks after spout tasks, delivers."""

from acker_service.delivery.egress import EgressPolicy, read_hosts, read_networks
from acker_service.delivery.retry import DeliveryConfig, read_schedule
from acker_service.delivery.supervisor import DeliverySupervisor
from acker_service.delivery.webhook_client import RequestLimits, WebhookClient
from acker_service.roots.expiry_task import RootExpiryTask
from acker_service.settings import Settings
from acker_service.store import Store
from acker_service.topologies.periodic import PeriodicTask
from acker_service.topologies.spout_expiry import SpoutExpiry

LEASE_MARGIN_S = 2.0
"""A lease is so much longer than a post may take."""


class Worker:
    """All rounds of a worker."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._tasks: list[PeriodicTask] = [
            RootExpiryTask(store, every=settings.tick_ms / 1_000),
            SpoutExpiry(store, every=min(60.0, settings.spout_idle_ms / 10_000)),
            DeliverySupervisor(
                registry=store.registry,
                spouts=store.spouts,
                callbacks=store.callbacks,
                leases=store.leases,
                notifier=store.mailbox_notifier,
                metrics=store.metrics,
                webhook_client=_webhook_client(settings),
                config=_delivery_config(settings),
            ),
        ]

    def start(self) -> None:
        """Begin."""
        for rounds in self._tasks:
            rounds.start()

    async def stop(self) -> None:
        """End; what is being sent is settled."""
        for rounds in self._tasks:
            await rounds.stop()


def _webhook_client(settings: Settings) -> WebhookClient:
    networks, hosts = read_networks(settings.callback_allow_cidrs), read_hosts(settings.callback_allow_hosts)
    limits = RequestLimits(
        request_timeout_s=settings.callback_timeout_s, retry_after_max_s=settings.callback_retry_after_max_s
    )
    return WebhookClient(egress_policy=EgressPolicy(networks=networks, hosts=hosts), limits=limits)


def _delivery_config(settings: Settings) -> DeliveryConfig:
    return DeliveryConfig(
        max_batch=settings.callback_max_batch,
        linger_s=settings.callback_max_wait_ms / 1_000,
        lease_ms=round((settings.callback_timeout_s + LEASE_MARGIN_S) * 1_000),
        schedule=read_schedule(settings.callback_schedule_s),
    )
