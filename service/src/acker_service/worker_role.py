"""The worker role: ticks, deletes unused spout tasks, delivers completions, records the history."""

from acker_service.components import Components
from acker_service.delivery.egress import EgressPolicy, read_networks
from acker_service.delivery.retry import DeliveryConfig, read_schedule
from acker_service.delivery.webhook_client import RequestLimits, WebhookClient
from acker_service.delivery.workers import DeliveryWorkers
from acker_service.host_names import read_hosts
from acker_service.monitoring.recording import HistoryTask
from acker_service.roots.expiry import RootExpiryTask
from acker_service.settings import Settings
from acker_service.topologies.deletion import SpoutExpiry
from acker_service.topologies.periodic import PeriodicTask

LEASE_MARGIN_S = 2.0
"""How much longer a lease lasts than a post may take."""


class Worker:
    """Starts and stops the periodic tasks of a worker."""

    def __init__(self, parts: Components, settings: Settings) -> None:
        self._tasks: list[PeriodicTask | HistoryTask] = [
            RootExpiryTask(
                registry=parts.registry,
                metrics=parts.metrics,
                expiry=parts.expiry,
                topology_deleter=parts.topology_deleter,
                interval=settings.tick_ms / 1_000,
            ),
            SpoutExpiry(
                registry=parts.registry,
                metrics=parts.metrics,
                spout_deleter=parts.spout_deleter,
                interval=min(60.0, settings.spout_idle_ms / 10_000),
            ),
            DeliveryWorkers(
                registry=parts.registry,
                spouts=parts.spouts,
                callbacks=parts.callbacks,
                leases=parts.leases,
                notifier=parts.mailbox_notifier,
                metrics=parts.metrics,
                webhook_client=webhook_client(settings),
                config=_delivery_config(settings),
            ),
            HistoryTask(parts.recorder),
        ]

    def start(self) -> None:
        """Start all tasks."""
        for task in self._tasks:
            task.start()

    async def stop(self) -> None:
        """Stop all tasks; what is being sent is settled first."""
        for task in self._tasks:
            await task.stop()


def egress_policy(settings: Settings) -> EgressPolicy:
    """Return what the settings allow webhooks besides public addresses."""
    networks, hosts = read_networks(settings.callback_allow_cidrs), read_hosts(settings.callback_allow_hosts)
    return EgressPolicy(networks=networks, hosts=hosts)


def webhook_client(settings: Settings) -> WebhookClient:
    """Create the client of webhooks; it reads the trusted certificates, which takes 200 ms."""
    limits = RequestLimits(
        request_timeout_s=settings.callback_timeout_s, retry_after_max_s=settings.callback_retry_after_max_s
    )
    return WebhookClient(egress_policy=egress_policy(settings), limits=limits)


def _delivery_config(settings: Settings) -> DeliveryConfig:
    return DeliveryConfig(
        max_batch=settings.callback_max_batch,
        linger_s=settings.callback_max_wait_ms / 1_000,
        lease_ms=round((settings.callback_timeout_s + LEASE_MARGIN_S) * 1_000),
        schedule=read_schedule(settings.callback_schedule_s),
    )
