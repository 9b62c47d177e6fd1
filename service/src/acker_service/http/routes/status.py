"""The route of the status: the acker as a whole, for operators."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request

from acker_service.http.auth import needs
from acker_service.http.head import Router, end_head
from acker_service.http.keys import Keys, KeysFile
from acker_service.monitoring.status import StatusReader


def make_router(*, status: StatusReader, settings: Mapping[str, Any], keys_file: KeysFile | None) -> APIRouter:
    """Build the route; ``settings`` are shown as they are given, without secrets."""
    router = Router(tags=["monitoring"])

    @router.get("/v1/status", dependencies=[needs("admin")])
    async def show_status(request: Request) -> dict[str, Any]:
        """Show the acker; answers without Redis, too."""
        end_head(request)
        return await status.read() | {"settings": settings, "keys": _keys(request.app.state.keys, keys_file)}

    return router


def _keys(keys: Keys | None, file: KeysFile | None) -> dict[str, Any]:
    return {
        "count": len(keys or ()),
        "file": file is not None,
        "error": None if file is None else file.error,
        "loaded_at_ms": None if file is None else file.loaded_at_ms,
    }
