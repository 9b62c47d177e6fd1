"""Routes of the index, of the probes and of the metrics."""

import asyncio

from fastapi import APIRouter, Request, Response

from acker_service import VERSION
from acker_service.http.auth import has_key
from acker_service.http.head import Router, end_head
from acker_service.metrics.metrics import choose_form
from acker_service.monitoring.metrics_text import Gather, MetricsText
from acker_service.monitoring.readiness import Readiness

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


def make_router(*, readiness: Readiness, stopping: asyncio.Event) -> APIRouter:
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
        store = await readiness.look()
        if not store.takes_writes:
            response.status_code = 503
            return {"status": "store unavailable"}
        return {"status": "ready", "ticking": store.ticking}

    return router


def make_metrics_router(*, text: MetricsText, gather: Gather | None = None) -> APIRouter:
    """Build the route of the metrics; ``gather`` None: this process serves alone."""
    router = Router(tags=["health"])

    @router.get("/metrics", name="metrics", response_class=Response)
    async def write_metrics(request: Request) -> Response:
        """Return all metrics, as Prometheus's text or as OpenMetrics; without a store, those of the acker only."""
        form = choose_form(",".join(request.headers.getlist("accept")))
        end_head(request, media_type=form.content_type)
        return Response(await text.read(form, gather), headers={"Content-Type": form.content_type})

    return router
