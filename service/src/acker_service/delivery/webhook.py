"""Delivers the completions of one spout task to its webhook."""

import logging
import random
from typing import Any

from acker_protocol.errors import NotFound, ServiceError

from acker_service.delivery.leases import ClaimedBatch, Lease
from acker_service.delivery.payload import make_message
from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.delivery.retry import settle, succeeded
from acker_service.delivery.webhook_client import Endpoint, WebhookClient
from acker_service.delivery.worker import RETRY_INTERVAL_S, CallbackGone, DeliveryWorker
from acker_service.topologies.callback import CallbackStatus, RegisteredCallback, deactivate
from acker_service.topologies.stamp import TopologyRecreated

_log = logging.getLogger(__name__)


class WebhookWorker(DeliveryWorker):
    """Posts to one webhook, one post at a time, over connections of its own."""

    def __init__(self, *args: Any, poster: WebhookClient, **options: Any) -> None:
        super().__init__(*args, **options)
        self._client = poster
        self._failures = 0
        self._endpoint: Endpoint | None = None

    async def run(self) -> None:
        """Deliver until told to stop, or until the callback is another."""
        assert self.spout.callback is not None
        async with self._client.endpoint(self.spout.callback.url or "") as self._endpoint:
            await super().run()

    async def deliver(self, post: Lease, taken: ClaimedBatch) -> float:
        """Post what was taken. Gives for how long the receiver is left alone. Raises `Ended`."""
        verdict = await self._send(post, taken)
        if verdict.kind is ResultKind.OFF:
            await self._deactivate(post, CallbackStatus.OFF, verdict)
        success = await self._settle(post, taken, verdict)
        self._failures = 0 if success else self._failures + 1
        if not success and await self._is_failing_for_long(taken):
            await self._deactivate(post, CallbackStatus.PAUSED, verdict)
        return max(verdict.wait_s, self.terms.schedule.delays_s[0] if self._failures > 1 else 0.0)

    async def _send(self, post: Lease, taken: ClaimedBatch) -> DeliveryResult:
        assert self._endpoint is not None
        told = [piece.document for entry in taken.entries for piece in entry.completions]
        letter = make_message(topology=post.topology.name, spout_task=post.spout.name, completions=told)
        meters = self.store.metrics.delivery
        with meters.post_seconds[post.topology.name].time():
            secrets = post.callback.secrets_at(await self.now_ms())
            verdict = await self._endpoint.post(letter, secrets=secrets)
        meters.posts[post.topology.name, verdict.kind.value].inc()
        if verdict.error:
            _log.info("the webhook of %s %s", self.name, verdict.error)
        return verdict

    async def _settle(self, post: Lease, taken: ClaimedBatch, verdict: DeliveryResult) -> bool:
        """Settle what was posted, as soon as the store is there; gives whether the receiver took anything."""
        success = succeeded(verdict, sum(len(entry.completions) for entry in taken.entries))
        draw, error = random.random(), verdict.error or ""  # noqa: S311 - spreads tries, guards nothing
        while True:
            try:
                now_ms = await self.now_ms()
                settlements = list(settle(taken.entries, verdict, self.terms.schedule, now_ms=now_ms, draw=draw))
                await self.store.leases.settle(post, taken, settlements, success=success, error=error)
            except (NotFound, TopologyRecreated):
                raise CallbackGone from None
            except ServiceError as problem:
                _log.warning("what the webhook of %s took is noted later: %s", self.name, problem.detail)
                if self._stopping.is_set():
                    raise CallbackGone from None
                await self.sleep(RETRY_INTERVAL_S)
            else:
                return success

    async def _is_failing_for_long(self, taken: ClaimedBatch) -> bool:
        return taken.failing_ms is not None and await self.now_ms() - taken.failing_ms >= self.terms.pause_after_ms

    async def _deactivate(self, post: Lease, state: CallbackStatus, verdict: DeliveryResult) -> None:
        """Deliver no more until somebody resumes it, unless it is another callback by now."""
        error = verdict.error or ""

        def change(present: RegisteredCallback | None, _: int) -> RegisteredCallback | None:
            same = present is not None and present.callback_epoch_ms == post.callback.callback_epoch_ms
            return deactivate(present, state, error) if present is not None and same else present

        await self.store.callbacks.change(post.topology.name, post.spout.name, change)
        _log.warning("the webhook of %s is %s: it %s", self.name, state, error)
        raise CallbackGone
