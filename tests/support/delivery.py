"""Delivers completions in the process of a test."""

from acker_service.components import Components
from acker_service.delivery.retry import DeliveryConfig
from acker_service.delivery.supervisor import DeliverySupervisor
from acker_service.delivery.webhook_client import WebhookClient


def make_supervisor(store: Components, *, webhook_client: WebhookClient, config: DeliveryConfig) -> DeliverySupervisor:
    """A supervisor that looks for changed callbacks often."""
    return DeliverySupervisor(
        registry=store.registry,
        spouts=store.spouts,
        callbacks=store.callbacks,
        leases=store.leases,
        notifier=store.mailbox_notifier,
        metrics=store.metrics,
        webhook_client=webhook_client,
        config=config,
        interval=0.05,
    )
