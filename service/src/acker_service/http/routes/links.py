"""The route of the links: where the page `/ui/` leads to outside the acker."""

from fastapi import APIRouter, Request

from acker_service.http.auth import needs
from acker_service.http.head import Router, end_head


def make_router(*, message_url: str | None) -> APIRouter:
    """Build the route; ``message_url`` is the template of `read_message_url`."""
    router = Router(tags=["monitoring"])

    @router.get("/v1/links", dependencies=[needs("ack")])
    async def show_links(request: Request) -> dict[str, str | None]:
        """Show the link template from a message id to the user's own system."""
        end_head(request)
        return {"message_url": message_url}

    return router
