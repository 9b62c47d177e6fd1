"""Routes that act on the callback of a spout task: rotate its secret, pause, resume and test it."""

from collections.abc import Awaitable, Callable
from typing import Any

from acker_protocol.errors import InvalidRequest
from acker_protocol.signature import make_secret
from fastapi import APIRouter, Request

from acker_service.http.audit_notes import note
from acker_service.http.auth import needs
from acker_service.http.head import Router
from acker_service.http.parameters import SpoutTask, TopologyName
from acker_service.monitoring.audit import Act, AuditTrail
from acker_service.topologies.callback import RegisteredCallback, pause, resume, rotate
from acker_service.topologies.spouts import Callbacks

TestWebhook = Callable[[str, str], Awaitable[dict[str, Any]]]
"""Posts a test message to the webhook of a topology's spout task, and gives the answer's document."""

CallbackChange = Callable[[RegisteredCallback | None, int], RegisteredCallback]
"""Returns what a callback becomes at a time in Unix milliseconds."""


def make_router(*, callbacks: Callbacks, trail: AuditTrail, test_webhook: TestWebhook) -> APIRouter:
    """Build the routes that act on callbacks."""
    router = Router(prefix="/v1/topologies/{topology}/spouts/{spout_task}", tags=["spout tasks"])

    @router.post("/secret/rotate", dependencies=[needs("spout")])
    async def rotate_secret(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, str]:
        """Make a new secret for a webhook; for a day the one before it signs too."""
        secret = make_secret()

        def change(present: RegisteredCallback | None, now_ms: int) -> RegisteredCallback:
            if present is None or not present.owns_mailbox:
                raise InvalidRequest(f"spout task {spout_task} has no webhook, and so no secret")
            return rotate(present, now_ms=now_ms, secret=secret)

        await callbacks.change(topology, spout_task, change)
        await note(trail, request, Act.SECRET_ROTATED, topology=topology, spout_task=spout_task)
        return {"secret": secret}

    @router.post("/test", dependencies=[needs("spout")])
    async def test_callback(topology: TopologyName, spout_task: SpoutTask) -> dict[str, Any]:
        """Post one signed message without completions to the webhook."""
        return await test_webhook(topology, spout_task)

    _add_state_routes(router, callbacks, trail)
    return router


def _add_state_routes(router: APIRouter, callbacks: Callbacks, trail: AuditTrail) -> None:
    """Add the routes that pause and resume a callback."""

    async def change_state(
        request: Request, act: Act, topology: str, spout_task: str, change: CallbackChange
    ) -> dict[str, str]:
        before, after = await callbacks.change(topology, spout_task, change)
        assert before.callback is not None
        assert after.callback is not None
        if after.callback.state is not before.callback.state:
            await note(trail, request, act, topology=topology, spout_task=spout_task)
        return {"state": after.callback.state.value}

    @router.post("/resume", dependencies=[needs("spout")])
    async def resume_callback(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, str]:
        """Deliver again after a pause, or after the receiver said that it was gone; else try now what waits."""

        def change(present: RegisteredCallback | None, now_ms: int) -> RegisteredCallback:
            if present is None:
                raise InvalidRequest(f"spout task {spout_task} has no callback that could be resumed")
            return resume(present, now_ms=now_ms)

        return await change_state(request, Act.CALLBACK_RESUMED, topology, spout_task, change)

    @router.post("/pause", dependencies=[needs("spout")])
    async def pause_callback(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, str]:
        """Deliver nothing until the callback is resumed."""

        def change(present: RegisteredCallback | None, _now_ms: int) -> RegisteredCallback:
            if present is None:
                raise InvalidRequest(f"spout task {spout_task} has no callback that could be paused")
            return pause(present)

        return await change_state(request, Act.CALLBACK_PAUSED, topology, spout_task, change)
