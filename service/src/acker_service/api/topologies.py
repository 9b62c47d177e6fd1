"""The door for topologies."""

from typing import Any

from fastapi import APIRouter, Request, Response

from acker_service.api.bodies import read_json_if_any
from acker_service.api.paths import TopologyName
from acker_service.domain.limits import Configuration, merge
from acker_service.store.counts import Counts
from acker_service.store.store import Store
from acker_service.store.topologies import Topology


def make_router(store: Store, *, max_body_bytes: int, buckets: int) -> APIRouter:
    """Make the routes of the topologies; one that is made gets so many ``buckets`` a shard."""
    router = APIRouter(prefix="/v1/topologies", tags=["topologies"])

    @router.get("")
    async def list_topologies() -> dict[str, Any]:
        """List all topologies with their counts."""
        found = [await _show(store, await store.topologies.read(name)) for name in await store.topologies.names()]
        return {"topologies": found}

    @router.get("/{topology}")
    async def get_topology(topology: TopologyName) -> dict[str, Any]:
        """Give a topology with its counts."""
        return await _show(store, await store.topologies.read(topology))

    @router.put("/{topology}")
    async def put_topology(topology: TopologyName, request: Request, response: Response) -> dict[str, Any]:
        """Make a topology (201), or change it (200): fields left out keep their value, null is the default."""
        document = await read_json_if_any(request, most=max_body_bytes)

        def change(present: Configuration | None) -> Configuration:
            response.status_code = 200 if present else 201
            return merge(present, document, buckets=buckets)

        return await _show(store, await store.topologies.write(topology, change))

    return router


async def _show(store: Store, topology: Topology) -> dict[str, Any]:
    counts: Counts = await store.counts.read(topology)
    return {
        "topology": topology.name,
        **topology.configuration.public(),
        "idempotency_window_ms": topology.window_ms,
        "pending": sum(counts.pending.values()),
        "unread": sum(counts.unread.values()),
        "counts": counts.totals,
    }
