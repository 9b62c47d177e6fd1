"""Publishes the completions of one spout task on its channel; the subscriber releases them from the mailbox."""

from acker_service.delivery.leases import ClaimedBatch, Lease, pubsub_messages, round_trips
from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.delivery.retry import EntryResult, Rest, Settlement
from acker_service.delivery.worker import DeliveryWorker


class PubSubWorker(DeliveryWorker):
    """Publishes each completion at least once: again if this process or Redis dies before the entry is settled."""

    splits_entries = False

    async def deliver(self, lease: Lease, claimed: ClaimedBatch) -> DeliveryResult:
        """Publish the claimed completions, at most ``max_batch`` in a message."""
        messages = pubsub_messages(claimed.entries, lease.max_batch)
        # rule: many messages go in one round trip
        for group in round_trips(messages, lease.max_batch):
            await self.leases.publish(lease, group)
            self.metrics.messages[lease.topology.name].inc(len(group))
        return DeliveryResult(kind=ResultKind.DONE)

    async def settle(self, lease: Lease, claimed: ClaimedBatch, result: DeliveryResult) -> Rest | None:  # noqa: ARG002 - a publication has one result
        """Mark the claimed entries as sent; they stay in the mailbox until they are released."""
        sent = [Settlement(entry=entry, result=EntryResult.SENT) for entry in claimed.entries]
        rest = self.rest_after(claimed, sent)
        await self.leases.settle(lease, claimed, sent, success=None, rest=rest)
        return rest
