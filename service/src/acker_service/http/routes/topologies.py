"""The door for topologies."""

import contextlib
from typing import Any

from acker_protocol.errors import InvalidRequest, UnknownTopology
from fastapi import APIRouter, Request, Response

from acker_service.http.auth import needs, visible
from acker_service.http.bodies import read_json_if_any
from acker_service.http.parameters import Discard, Force, TopologyName
from acker_service.store import Store
from acker_service.topologies.config import TopologyConfig, merge
from acker_service.topologies.deletion import DeleteMode
from acker_service.topologies.stamp import Topology
from acker_service.topologies.stats import SpoutCounts


def make_router(store: Store, *, max_body_bytes: int, buckets: int) -> APIRouter:
    """Make the routes of the topologies; one that is made gets so many ``buckets`` a shard."""
    router = APIRouter(prefix="/v1/topologies", tags=["topologies"])

    @router.get("", dependencies=[needs("ack")])
    async def list_topologies(request: Request) -> dict[str, Any]:
        """List the topologies that the key is for, with their counts."""
        found = []
        for name in visible(request, await store.registry.names()):
            with contextlib.suppress(UnknownTopology):  # it went meanwhile
                found.append(await _show(store, await store.registry.refresh(name)))
        return {"topologies": found}

    @router.get("/{topology}", dependencies=[needs("ack")])
    async def get_topology(topology: TopologyName) -> dict[str, Any]:
        """Give a topology with its counts."""
        return await _show(store, await store.registry.refresh(topology))

    @router.put("/{topology}", dependencies=[needs("admin")])
    async def put_topology(topology: TopologyName, request: Request, response: Response) -> dict[str, Any]:
        """Make a topology (201), or change it (200): fields left out keep their value, null is the default."""
        document = await read_json_if_any(request, most=max_body_bytes)

        def change(present: TopologyConfig | None) -> TopologyConfig:
            response.status_code = 200 if present else 201
            return merge(present, document, buckets=buckets)

        return await _show(store, await store.registry.create_or_update(topology, change))

    @router.delete("/{topology}", status_code=204, response_class=Response, dependencies=[needs("admin")])
    async def delete_topology(
        topology: TopologyName, response: Response, *, force: Force = False, discard: Discard = False
    ) -> None:
        """Delete a topology: if it is idle; forced (202), once its completions were released; or at once (204)."""
        if discard and not force:
            raise InvalidRequest("discard goes with force=true")
        mode = DeleteMode.DISCARD if discard else DeleteMode.DRAIN if force else DeleteMode.IF_IDLE
        response.status_code = 202 if mode is DeleteMode.DRAIN else 204
        await store.topology_deleter.delete(topology, mode)

    return router


async def _show(store: Store, topology: Topology) -> dict[str, Any]:
    counts: SpoutCounts = await store.stats.read(topology)
    return {
        "topology": topology.name,
        **topology.config.public(),
        "idempotency_window_ms": topology.window_ms,
        "pending": sum(counts.pending.values()),
        "unread": sum(counts.unread.values()),
        "counts": counts.totals,
    }
