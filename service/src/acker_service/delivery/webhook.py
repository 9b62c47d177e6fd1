"""Delivers the completions of one spout task to its webhook."""

import logging
import random
from typing import Any

from acker_service.delivery.leases import ClaimedBatch, Lease
from acker_service.delivery.payload import make_message
from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.delivery.retry import Rest, backoff_s, plan_settlements, succeeded
from acker_service.delivery.webhook_client import Endpoint, WebhookClient
from acker_service.delivery.worker import CallbackGone, DeliveryWorker
from acker_service.redis.completion_codec import CompletionDocuments
from acker_service.topologies.callback import CallbackStatus, RegisteredCallback, deactivate

_log = logging.getLogger(__name__)


class WebhookWorker(DeliveryWorker):
    """Posts to one webhook, one request at a time."""

    def __init__(self, *args: Any, webhook_client: WebhookClient, **options: Any) -> None:
        super().__init__(*args, **options)
        self._client = webhook_client
        self._failures = 0
        self._endpoint: Endpoint | None = None

    async def run(self) -> None:
        """Deliver until `stop` is called or the callback changes, over connections of its own."""
        assert self.spout.callback is not None
        async with self._client.endpoint(self.spout.callback.url or "") as self._endpoint:
            await super().run()

    async def deliver(self, lease: Lease, claimed: ClaimedBatch) -> DeliveryResult:
        """Post the claimed completions in one request."""
        assert self._endpoint is not None
        topology = lease.topology.name
        completions = CompletionDocuments()
        for entry in claimed.entries:
            entry.write(into=completions)
        message = make_message(topology=topology, spout_task=lease.spout.name, completions=completions)
        with self.metrics.post_seconds[topology].time():
            secrets = lease.callback.secrets_at(self.now_ms())
            result = await self._endpoint.post(message, secrets=secrets)
        self.metrics.posts[topology, result.kind.value].inc()
        return result

    async def settle(self, lease: Lease, claimed: ClaimedBatch, result: DeliveryResult) -> Rest | None:
        """Settle the claimed entries; returns the rest before the next request.

        Deactivates the webhook after a 410, or after a long time without a success, and then raises `CallbackGone`.
        """
        if result.kind is ResultKind.OFF:
            await self._deactivate(lease, CallbackStatus.OFF, result)
        success = succeeded(result, sum(len(entry.completions) for entry in claimed.entries))
        self._note(result, success=success)
        rest = await self._settle_entries(lease, claimed, result, success=success)
        if not success and self._is_pause_due(claimed):
            await self._deactivate(lease, CallbackStatus.PAUSED, result)
        return rest

    async def _settle_entries(
        self, lease: Lease, claimed: ClaimedBatch, result: DeliveryResult, *, success: bool
    ) -> Rest | None:
        """Settle the claimed entries, again and again while Redis is unavailable, always to the same effect."""
        schedule, draw = self.config.schedule, random.random()  # noqa: S311 - spreads retries, guards nothing
        settlements = list(plan_settlements(claimed.entries, result, schedule, now_ms=self.now_ms(), draw=draw))
        left_alone_s = backoff_s(result, schedule, failures=self._failures)
        rest, error = self.rest_after(claimed, settlements, backoff_s=left_alone_s), result.error or ""
        while True:
            async with self.retry_while_unavailable("what the webhook of %s took is settled later: %s"):
                await self.leases.settle(lease, claimed, settlements, success=success, error=error, rest=rest)
                return rest

    def _note(self, result: DeliveryResult, *, success: bool) -> None:
        """Count failures in a row; log the first of them, and the success after the last."""
        if success and self._failures:
            _log.warning("the webhook of %s takes completions again, after %d failures", self.name, self._failures)
        elif not success:
            level = logging.DEBUG if self._failures else logging.WARNING
            advice = "see what it answers; completions are sent again by ACKER_CALLBACK_SCHEDULE_S"
            _log.log(level, "the webhook of %s %s; %s", self.name, result.error or "refused completions", advice)
        self._failures = 0 if success else self._failures + 1

    def _is_pause_due(self, claimed: ClaimedBatch) -> bool:
        since_ms = claimed.failing_ms
        return since_ms is not None and self.now_ms() - since_ms >= self.config.pause_after_ms

    async def _deactivate(self, lease: Lease, status: CallbackStatus, result: DeliveryResult) -> None:
        """Deactivate the callback until it is resumed, unless it was replaced meanwhile. Raises `CallbackGone`."""
        epoch_ms, error = lease.callback.callback_epoch_ms, result.error or ""

        def change(present: RegisteredCallback) -> RegisteredCallback:
            return deactivate(present, status, error) if present.callback_epoch_ms == epoch_ms else present

        await self.change_callback(change)
        _log.warning("the webhook of %s is %s: it %s", self.name, status, error)
        raise CallbackGone
