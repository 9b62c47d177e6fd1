"""Posts a test message to a webhook, so that its owner sees at once whether it is reached."""

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any

from acker_protocol.errors import InvalidRequest, Overloaded

from acker_service.delivery.payload import make_test_message
from acker_service.delivery.response import DeliveryResult, ResultKind
from acker_service.delivery.webhook_client import WebhookClient
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.spouts import SpoutRegistry

MAX_TESTS = 8
"""Tests under way at once: each holds a request of this process for as long as the receiver takes to answer."""


class WebhookTester:
    """Tests webhooks as deliveries reach them: signed alike, at allowed addresses only, within the same time."""

    def __init__(
        self, registry: TopologyRegistry, spouts: SpoutRegistry, make_client: Callable[[], WebhookClient]
    ) -> None:
        self._registry = registry
        self._spouts = spouts
        self._make_client = make_client
        self._client: WebhookClient | None = None
        self._running = 0

    async def test(self, topology: str, spout_task: str) -> dict[str, Any]:
        """Post one message without completions, once, whatever the state of the callback, and return what came of it.

        Raises `UnknownSpout`, `InvalidRequest` if the spout task has no webhook, `Overloaded`.
        """
        found = await self._registry.refresh(topology)
        callback = (await self._spouts.read(found, spout_task)).callback
        if callback is None or callback.url is None:
            raise InvalidRequest(f"spout task {spout_task} has no webhook that could be tested")
        if self._running >= MAX_TESTS:
            raise Overloaded(f"{MAX_TESTS} webhooks are being tested already; try again when these have answered")
        self._running += 1
        try:
            signing = callback.secrets_at(await self._registry.now_ms())
            return await self._post(callback.url, signing, topology, spout_task)
        finally:
            self._running -= 1

    async def _post(self, url: str, signing: list[str], topology: str, spout_task: str) -> dict[str, Any]:
        message = make_test_message(
            topology=topology,
            spout_task=spout_task,
            now_ms=int(time.time() * 1_000),
            message_id=f"msg_{secrets.token_hex(16)}",
        )
        if self._client is None:
            self._client = await asyncio.to_thread(self._make_client)  # reads the trusted certificates
        async with self._client.endpoint(url) as endpoint:
            began = time.monotonic()
            result = await endpoint.post(message, secrets=signing)
            return _document(result, took_s=time.monotonic() - began)


def _document(result: DeliveryResult, *, took_s: float) -> dict[str, Any]:
    return {
        "delivered": result.kind is ResultKind.DONE,
        "status": result.status,
        "error": result.error,
        "took_ms": round(took_s * 1_000),
    }
