"""Route of the audit trail."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from acker_service.http.auth import needs
from acker_service.http.head import Router, end_head
from acker_service.http.parameters import Limit
from acker_service.monitoring.audit import AuditTrail

AfterNumber = Annotated[str | None, Query(pattern=r"^[0-9]{1,16}$")]


def make_router(trail: AuditTrail) -> APIRouter:
    """Build the route."""
    router = Router(tags=["monitoring"])

    @router.get("/v1/audit", dependencies=[needs("admin")])
    async def list_acts(request: Request, after: AfterNumber = None, limit: Limit = 100) -> dict[str, Any]:
        """List acts on the topologies that the key is for, newest first; the last page has no cursor."""
        end_head(request)
        before = None if after is None else int(after)
        page = await trail.page(before=before, limit=limit, shows=request.state.key.allows)
        return {"acts": page.acts, "cursor": None if page.last is None else str(page.last)}

    return router
