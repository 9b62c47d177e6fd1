"""Makes the periodic tasks of a worker from the parts of a service."""

from acker_service.components import Components
from acker_service.delivery.retry import DeliveryConfig
from acker_service.delivery.webhook_client import WebhookClient
from acker_service.delivery.workers import DeliveryWorkers
from acker_service.roots.expiry import RootExpiryTask
from acker_service.topologies.deletion import SpoutExpiry


def root_expiry(parts: Components, *, interval: float) -> RootExpiryTask:
    return RootExpiryTask(
        registry=parts.registry,
        metrics=parts.metrics,
        expiry=parts.expiry,
        topology_deleter=parts.topology_deleter,
        interval=interval,
    )


def spout_expiry(parts: Components, *, interval: float) -> SpoutExpiry:
    return SpoutExpiry(
        registry=parts.registry, metrics=parts.metrics, spout_deleter=parts.spout_deleter, interval=interval
    )


def delivery_workers(
    parts: Components, *, webhook_client: WebhookClient, config: DeliveryConfig, interval: float = 0.05
) -> DeliveryWorkers:
    return DeliveryWorkers(
        registry=parts.registry,
        spouts=parts.spouts,
        callbacks=parts.callbacks,
        leases=parts.leases,
        notifier=parts.mailbox_notifier,
        metrics=parts.metrics,
        webhook_client=webhook_client,
        config=config,
        interval=interval,
    )
