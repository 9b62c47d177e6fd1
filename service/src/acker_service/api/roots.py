"""The door for looking at one root."""

from typing import Any

from acker_protocol.ids import format_id, parse_id
from acker_protocol.problems import Invalid, UnknownRoot
from fastapi import APIRouter

from acker_service.api.auth import needs
from acker_service.api.paths import RootId, TopologyName
from acker_service.store.roots import Root
from acker_service.store.store import Store

_STATES = {"E": "early", "P": "pending", "F": "finished"}


def make_router(store: Store) -> APIRouter:
    """Make the routes of the roots."""
    router = APIRouter(prefix="/v1/topologies/{topology}/roots", tags=["roots"])

    @router.get("/{root_id}", dependencies=[needs("ack")])
    async def get_root(topology: TopologyName, root_id: RootId) -> dict[str, Any]:
        """Give a root as it stands; of a finished one only its outcome is remembered."""
        try:
            number = parse_id(root_id)
        except ValueError as fault:
            raise Invalid(f"root_id {fault}") from None
        root = await store.topologies.on(topology, lambda found: store.roots.read(found, number))
        if root.state == "N":
            raise UnknownRoot(f"root {root_id} is neither pending nor early nor remembered")
        return {"root_id": root_id, "state": _STATES[root.state]} | _show(root)

    return router


def _show(root: Root) -> dict[str, Any]:
    if root.outcome is not None:
        return {"outcome": root.outcome.value}
    return {
        "spout_task": root.spout_task,
        "message_id": root.message_id,
        "ack_val": format_id(root.ack_val),
        "outstanding": root.outstanding,
        "age_ms": max(0, root.now_ms - root.started_ms),
        "deadline_at_ms": root.due_ms,
    }
