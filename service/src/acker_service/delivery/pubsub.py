"""Publishes the completions of one spout task; they stay in its mailbox until its subscriber releases them."""

from acker_service.delivery.courier import Courier
from acker_service.domain.batches import Settlement, Word
from acker_service.store.deliveries import Post, Taken, messages


class PubSubCourier(Courier):
    """Publishes each completion once, as long as all goes well; more often when this process or the store dies."""

    divides = False

    async def deliver(self, post: Post, taken: Taken) -> float:
        """Publish what was taken, in as many messages as that needs. Gives no rest."""
        for message in messages(taken.entries, post.most):
            await self.store.deliveries.publish(post, message)
            self.store.meters.delivery.messages[post.topology.name].inc()
        sent = [Settlement(entry=entry, word=Word.SENT) for entry in taken.entries]
        await self.store.deliveries.settle(post, taken, sent, success=None)
        return 0.0
