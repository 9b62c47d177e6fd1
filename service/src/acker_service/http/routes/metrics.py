"""The door for those who measure the process."""

import asyncio

from fastapi import APIRouter, Request, Response

from acker_service.store import Store


def make_router(store: Store) -> APIRouter:
    """Make the route of the metrics."""
    router = APIRouter(tags=["health"])

    @router.get("/metrics", response_class=Response)
    async def metrics(request: Request) -> Response:
        """Tell all metrics, as Prometheus's text or as OpenMetrics; of a store that is away, only that it is."""
        standing = await store.standing()
        accept = ",".join(request.headers.getlist("accept"))
        body, content_type = await asyncio.to_thread(store.metrics.write, accept, standing)
        return Response(body, headers={"Content-Type": content_type})

    return router
