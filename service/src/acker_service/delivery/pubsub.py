"""Publishes the completions of one spout task; they stay in its mailbox until its subscriber releases them."""

from acker_service.delivery.leases import ClaimedBatch, Lease, messages
from acker_service.delivery.retry import EntryResult, Settlement
from acker_service.delivery.worker import DeliveryWorker


class PubSubWorker(DeliveryWorker):
    """Publishes each completion once, as long as all goes well; more often when this process or the store dies."""

    splits_entries = False

    async def deliver(self, post: Lease, taken: ClaimedBatch) -> float:
        """Publish what was taken, in as many messages as that needs. Gives no rest."""
        for message in messages(taken.entries, post.max_batch):
            await self.leases.publish(post, message)
            self.metrics.messages[post.topology.name].inc()
        sent = [Settlement(entry=entry, result=EntryResult.SENT) for entry in taken.entries]
        await self.leases.settle(post, taken, sent, success=None)
        return 0.0
