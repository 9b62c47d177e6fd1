"""Routes of the topologies."""

import contextlib
from typing import Annotated, Any, Literal

from acker_protocol.errors import InvalidRequest, UnknownTopology
from fastapi import APIRouter, Query, Request, Response

from acker_service.http.audit_notes import note
from acker_service.http.auth import needs, visible
from acker_service.http.documents import read_json_if_any
from acker_service.http.head import Router, end_head, refresh_for_head
from acker_service.http.parameters import Discard, Force, TopologyName
from acker_service.monitoring.audit import Act, AuditTrail
from acker_service.monitoring.history import Window
from acker_service.monitoring.recording import HistoryReader
from acker_service.topologies.config import TopologyConfig, merge
from acker_service.topologies.deletion import DeleteMode, TopologyDeleter
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.stats import SpoutCounts, StatsReader
from acker_service.topologies.topology import Topology

WindowName = Annotated[Literal["10m", "3h", "1d", "all"], Query()]


def make_router(
    *,
    registry: TopologyRegistry,
    stats: StatsReader,
    history: HistoryReader,
    deleter: TopologyDeleter,
    trail: AuditTrail,
    max_body_bytes: int,
    buckets: int,
) -> APIRouter:
    """Build the routes of the topologies; a new topology gets ``buckets`` small hashes for each shard."""
    router = Router(prefix="/v1/topologies", tags=["topologies"])
    _add_reading(router, registry=registry, stats=stats)
    _add_history(router, registry=registry, history=history)

    @router.put("/{topology}", dependencies=[needs("admin")])
    async def put_topology(topology: TopologyName, request: Request, response: Response) -> dict[str, Any]:
        """Make a topology (201), or change it (200): fields left out keep their value, null is the default."""
        document = await read_json_if_any(request, max_bytes=max_body_bytes)

        def change(present: TopologyConfig | None) -> TopologyConfig:
            response.status_code = 200 if present else 201
            return merge(present, document, buckets=buckets)

        changed = await registry.create_or_update(topology, change)
        return show_topology(changed, await stats.read(changed))

    _add_deletion(router, deleter, trail)
    return router


def _add_reading(router: APIRouter, *, registry: TopologyRegistry, stats: StatsReader) -> None:
    """Add the routes that list the topologies and read one."""

    async def show(topology: Topology) -> dict[str, Any]:
        return show_topology(topology, await stats.read(topology))

    @router.get("", dependencies=[needs("ack")])
    async def list_topologies(request: Request) -> dict[str, Any]:
        """List the topologies that the key is for, with their counts."""
        end_head(request)
        found = []
        for name in visible(request, await registry.names()):
            with contextlib.suppress(UnknownTopology):  # deleted since the names were read
                found.append(await show(await registry.refresh(name)))
        return {"topologies": found}

    @router.get("/{topology}", dependencies=[needs("ack")])
    async def get_topology(topology: TopologyName, request: Request) -> dict[str, Any]:
        """Return a topology with its counts."""
        found = await registry.refresh(topology)
        end_head(request)
        return await show(found)


def _add_history(router: APIRouter, *, registry: TopologyRegistry, history: HistoryReader) -> None:
    """Add the route of what happened in a topology."""

    @router.get("/{topology}/history", dependencies=[needs("ack")])
    async def show_history(topology: TopologyName, request: Request, window: WindowName = "10m") -> dict[str, Any]:
        """Show what happened in a topology, as points of one length, the oldest first."""
        await refresh_for_head(request, registry, topology)
        end_head(request)
        found = await history.read(topology, Window(window))
        return {
            "topology": topology,
            "window": window,
            "step_ms": found.step_ms,
            "points": [point.document() for point in found.points],
        }


def _add_deletion(router: APIRouter, deleter: TopologyDeleter, trail: AuditTrail) -> None:
    """Add the route that deletes a topology."""

    @router.delete("/{topology}", status_code=204, response_class=Response, dependencies=[needs("admin")])
    async def delete_topology(
        topology: TopologyName, request: Request, response: Response, *, force: Force = False, discard: Discard = False
    ) -> None:
        """Delete a topology: if it is idle; forced (202), once its completions were released; or at once (204)."""
        if discard and not force:
            raise InvalidRequest("discard goes with force=true")
        mode = DeleteMode.DRAIN if force else DeleteMode.IF_IDLE
        if discard:
            mode = DeleteMode.DISCARD
        response.status_code = 202 if mode is DeleteMode.DRAIN else 204
        count = await deleter.delete(topology, mode)
        if force:
            await note(trail, request, Act.TOPOLOGY_DELETED, topology=topology, count=count)


def show_topology(topology: Topology, counts: SpoutCounts) -> dict[str, Any]:
    """Make the document of a topology."""
    return {
        "topology": topology.name,
        **topology.config.public(),
        "idempotency_window_ms": topology.window_ms,
        "pending": sum(counts.pending.values()),
        "unread": sum(counts.unread.values()),
        "early_bytes": counts.early_bytes,
        "remembered_bytes": counts.remembered_bytes,
        "counts": counts.totals,
    }
