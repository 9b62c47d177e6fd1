"""Routes of the index, of the probes and of the metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from acker_protocol.errors import StoreUnavailable
from fastapi import APIRouter, Request, Response

from acker_service import VERSION
from acker_service.http.auth import has_key
from acker_service.http.head import Router, end_head, is_head
from acker_service.metrics.metrics import Metrics
from acker_service.metrics.store_collector import StoreStats
from acker_service.monitoring.backpressure import Backpressure
from acker_service.monitoring.readiness import Readiness
from acker_service.monitoring.snapshot import StoreMonitor
from acker_service.roots.expiry import RootExpiry

Gather = Callable[[bytes], Awaitable[Sequence[bytes]]]
"""Takes a snapshot of this process's metrics, and gives those of all processes that serve its address."""

CHECK_TIMEOUT_S = 1.0


LINKS = {"ready": "/readyz", "live": "/livez", "metrics": "/metrics"}
"""The addresses that every process has; those of the contract, a worker has not."""
CONTRACT_LINKS = {"openapi": "/openapi.json", "topologies": "/v1/topologies", "page": "/ui/"}


def make_index_router(*, serves_contract: bool) -> APIRouter:
    """Build the route of the index."""
    router = Router(tags=["health"])
    links = {**(CONTRACT_LINKS if serves_contract else {}), **LINKS}

    @router.get("/", name="index")
    async def index(request: Request) -> dict[str, str | dict[str, str]]:
        """Name the service and what it serves; its version only with a key, or where no keys are configured."""
        version = {"version": VERSION} if has_key(request) else {}
        return {"name": "acker", **version, "links": links}

    return router


def make_router(*, readiness: Readiness, expiry: RootExpiry, stopping: asyncio.Event) -> APIRouter:
    """Build the routes of the probes; setting ``stopping`` makes the process not ready."""
    router = Router(tags=["health"])

    @router.get("/livez")
    async def livez() -> dict[str, str]:
        """Say that the process runs; never asks Redis."""
        return {"status": "alive"}

    @router.get("/readyz")
    async def readyz(response: Response) -> dict[str, str | bool]:
        """Return whether the process takes work: it is not stopping and Redis takes a write."""
        if stopping.is_set():
            response.status_code = 503
            return {"status": "stopping"}
        takes_writes, ticking = await asyncio.gather(readiness.takes_writes(), _check(expiry.worker_seen()))
        if not takes_writes:
            response.status_code = 503
            return {"status": "store unavailable"}
        return {"status": "ready", "ticking": ticking}

    return router


def make_metrics_router(
    *, monitor: StoreMonitor, backpressure: Backpressure, metrics: Metrics, gather: Gather | None = None
) -> APIRouter:
    """Build the route of the metrics; ``gather`` None: this process serves alone."""
    router = Router(tags=["health"])

    @router.get("/metrics", name="metrics", response_class=Response)
    async def write_metrics(request: Request) -> Response:
        """Return all metrics, as Prometheus's text or as OpenMetrics; without a store, those of the acker only."""
        accept = ",".join(request.headers.getlist("accept"))
        if is_head(request):
            _, media_type = metrics.write(accept, stats=None, snapshots=())
            end_head(request, media_type=media_type)
        stats = await _store_stats(monitor, backpressure)
        snapshots = None if gather is None else await gather(metrics.snapshot())
        body, content_type = await asyncio.to_thread(metrics.write, accept, stats, snapshots)
        return Response(body, headers={"Content-Type": content_type})

    return router


async def _check(check: Coroutine[Any, Any, bool]) -> bool:
    """Return the result of a check; False if it takes too long or the store is unavailable."""
    try:
        return await asyncio.wait_for(check, CHECK_TIMEOUT_S)
    except (TimeoutError, StoreUnavailable):
        return False


async def _store_stats(monitor: StoreMonitor, backpressure: Backpressure) -> StoreStats | None:
    """Return the statistics of the store as of the latest snapshot; None if it does not answer. Never raises."""
    snapshot = await monitor.latest()
    if snapshot is None:
        return None
    return StoreStats(
        used_bytes=snapshot.used_bytes,
        max_bytes=snapshot.max_bytes,
        is_full=backpressure.is_store_full,
        worker_seen=snapshot.worker_seen,
        topologies={topology.name: counts.topology_stats for topology, counts in snapshot.topologies},
    )
