"""The door for those who watch the process."""

import asyncio

from fastapi import APIRouter, Response

from acker_service.store.store import Store

PATIENCE_S = 1.0


def make_router(store: Store, stopping: asyncio.Event) -> APIRouter:
    """Make the routes of health."""
    router = APIRouter(tags=["health"])

    @router.get("/livez")
    async def livez() -> dict[str, str]:
        """Say that the process runs; never asks Redis."""
        return {"status": "alive"}

    @router.get("/readyz")
    async def readyz(response: Response) -> dict[str, str]:
        """Say whether the process takes work: it is not stopping and Redis answers."""
        status = "stopping" if stopping.is_set() else await _store_status(store)
        response.status_code = 200 if status == "ready" else 503
        return {"status": status}

    return router


async def _store_status(store: Store) -> str:
    try:
        answers = await asyncio.wait_for(store.answers(), PATIENCE_S)
    except TimeoutError:
        answers = False
    return "ready" if answers else "store unavailable"
