"""The door for callbacks: their secrets, and how they are taken up again."""

from acker_protocol.errors import InvalidRequest
from acker_protocol.signature import make_secret
from fastapi import APIRouter

from acker_service.http.auth import needs
from acker_service.http.parameters import SpoutTask, TopologyName
from acker_service.store import Store
from acker_service.topologies.callback import RegisteredCallback, resume, rotate


def make_router(store: Store) -> APIRouter:
    """Make the routes of the callbacks."""
    router = APIRouter(prefix="/v1/topologies/{topology}/spouts/{spout_task}", tags=["spout tasks"])

    @router.post("/secret/rotate", dependencies=[needs("spout")])
    async def rotate_secret(topology: TopologyName, spout_task: SpoutTask) -> dict[str, str]:
        """Make a new secret for a webhook; for a day the one before it signs too."""
        secret = make_secret()

        def change(present: RegisteredCallback | None, now_ms: int) -> RegisteredCallback:
            if present is None or not present.owns_mailbox:
                raise InvalidRequest(f"spout task {spout_task} has no webhook, and so no secret")
            return rotate(present, now_ms=now_ms, secret=secret)

        await store.callbacks.change(topology, spout_task, change)
        return {"secret": secret}

    @router.post("/resume", dependencies=[needs("spout")])
    async def resume_callback(topology: TopologyName, spout_task: SpoutTask) -> dict[str, str]:
        """Deliver again after a pause, or after the receiver said that it was gone."""

        def change(present: RegisteredCallback | None, now_ms: int) -> RegisteredCallback:
            if present is None:
                raise InvalidRequest(f"spout task {spout_task} has no callback that could be resumed")
            return resume(present, now_ms=now_ms)

        _, after = await store.callbacks.change(topology, spout_task, change)
        assert after.callback is not None
        return {"state": after.callback.state.value}

    return router
