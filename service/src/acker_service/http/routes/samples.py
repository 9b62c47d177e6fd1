"""The routes that look at some roots of a topology: pending roots by age, and how long components take."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from acker_service.http.auth import needs
from acker_service.http.head import Router, end_head, refresh_for_head
from acker_service.http.parameters import TopologyName
from acker_service.roots.ages import BOUNDS_MS, AgeCounter
from acker_service.roots.component_times import ComponentTimesReader
from acker_service.topologies.registry import TopologyRegistry


def make_router(*, registry: TopologyRegistry, ages: AgeCounter, component_times: ComponentTimesReader) -> APIRouter:
    """Build the routes."""
    router = Router(prefix="/v1/topologies/{topology}", tags=["topologies"])

    @router.get("/ages", dependencies=[needs("ack")])
    async def count_ages(topology: TopologyName, request: Request) -> dict[str, Any]:
        """Count the pending roots of a topology by age; of many, those of a sample."""
        await refresh_for_head(request, registry, topology)
        end_head(request)
        found = await registry.with_current(topology, ages.count)
        bounds = zip(BOUNDS_MS, (*BOUNDS_MS[1:], None), found.groups, strict=True)
        return {
            "topology": topology,
            "pending": found.pending,
            "counted": sum(found.groups),
            "is_sample": found.is_sample,
            "ages": [{"from_ms": least, "to_ms": most, "roots": roots} for least, most, roots in bounds],
        }

    @router.get("/components", dependencies=[needs("ack")])
    async def show_components(topology: TopologyName, request: Request) -> dict[str, Any]:
        """Show how long components take, by the trees of the roots that were traced last."""
        await refresh_for_head(request, registry, topology)
        end_head(request)
        found = await registry.with_current(topology, component_times.read)
        return {
            "topology": topology,
            "traces": found.traces,
            "components": [asdict(each) for each in found.components],
        }

    return router
