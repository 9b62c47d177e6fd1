"""The door for those who watch the process."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from fastapi import APIRouter, Response

from acker_service.store import Store

PATIENCE_S = 1.0


def make_router(store: Store, stopping: asyncio.Event) -> APIRouter:
    """Make the routes of health."""
    router = APIRouter(tags=["health"])

    @router.get("/livez")
    async def livez() -> dict[str, str]:
        """Say that the process runs; never asks Redis."""
        return {"status": "alive"}

    @router.get("/readyz")
    async def readyz(response: Response) -> dict[str, str | bool]:
        """Say whether the process takes work: it is not stopping and Redis answers."""
        if stopping.is_set():
            response.status_code = 503
            return {"status": "stopping"}
        answers, ticking = await asyncio.gather(_soon(store.answers()), _soon(store.ticking()))
        if not answers:
            response.status_code = 503
            return {"status": "store unavailable"}
        return {"status": "ready", "ticking": ticking}

    return router


async def _soon(asked: Coroutine[Any, Any, bool]) -> bool:
    """Give an answer; what takes long is a no."""
    try:
        return await asyncio.wait_for(asked, PATIENCE_S)
    except TimeoutError:
        return False
