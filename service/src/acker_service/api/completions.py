"""The door at which a spout task reads and releases its completions."""

import asyncio
from typing import Annotated, Any

import msgspec
from acker_protocol.problems import Invalid, MailboxOwned
from acker_protocol.wire.completions import encode_completion
from acker_protocol.wire.fields import text
from acker_protocol.wire.operations import check
from fastapi import APIRouter, Header, Request, Response

from acker_service.api.auth import needs
from acker_service.api.bodies import JSON, read_json
from acker_service.api.events import Events, wants_events
from acker_service.api.paths import After, Limit, SpoutTask, TopologyName, Until, WaitMs
from acker_service.api.waits import Wait
from acker_service.store.cursors import read_cursor
from acker_service.store.mailboxes import Reading
from acker_service.store.store import Store
from acker_service.store.topology import Topology

LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="For events: the id of the last one that came; it wins over `after`.",
    ),
]


def make_router(store: Store, stopping: asyncio.Event, *, max_body_bytes: int) -> APIRouter:
    """Make the routes of the completions; once ``stopping`` is set, nobody waits any more."""
    router = APIRouter(prefix="/v1/topologies/{topology}/spouts/{spout_task}/completions", tags=["completions"])
    events = Events(store, stopping)

    @router.get("", response_model=None, dependencies=[needs("spout")])
    async def get_completions(
        request: Request,
        topology: TopologyName,
        spout_task: SpoutTask,
        after: After = None,
        until: Until = None,
        limit: Limit = 1_000,
        wait_ms: WaitMs = 0,
        last_event_id: LastEventId = None,
    ) -> Response:
        """Give completions after a cursor; if there are none, wait for some. As events: all, as they come."""
        if wants_events(request):
            start = last_event_id or after
            return await store.topologies.on(topology, lambda found: events.respond(found, spout_task, start, limit))
        wait = Wait(request=request, stopping=stopping, seconds=0 if until else wait_ms / 1000)

        async def poll(found: Topology) -> Reading:
            async with store.followers.following(found, spout_task, after) as follower:
                return await wait.until(_holds_some, lambda: follower.read(limit, until), follower.waiter)

        return Response(msgspec.json.encode(_show(await store.topologies.on(topology, poll))), media_type=JSON)

    _add_forgetting(router, store, max_body_bytes)
    return router


def _add_forgetting(router: APIRouter, store: Store, most: int) -> None:
    """Add the routes that forget completions: what was dealt with, or all."""

    @router.post("/release", dependencies=[needs("spout")])
    async def release_completions(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, int]:
        """Forget all completions up to a cursor."""
        values = check(await read_json(request, most=most), {"cursor": text})
        if "cursor" not in values:
            raise Invalid("cursor is missing")

        async def work(found: Topology) -> int:
            found = await store.topologies.read(found.name)  # another replica may have given it a webhook
            spout = await store.spouts.get(found, spout_task)
            if spout.callback is not None and spout.callback.owns:
                raise MailboxOwned(f"the webhook of spout task {spout_task} owns its completions; reading is allowed")
            return await store.mailboxes.release(found, spout, read_cursor(values["cursor"], found))

        return {"released": await store.topologies.on(topology, work)}

    @router.post("/discard", dependencies=[needs("admin")])
    async def discard_completions(topology: TopologyName, spout_task: SpoutTask) -> dict[str, int]:
        """Forget all completions, unread."""

        async def work(found: Topology) -> int:
            return await store.mailboxes.discard(found, await store.spouts.get(found, spout_task))

        return {"discarded": await store.topologies.on(topology, work)}


def _holds_some(reading: Reading) -> bool:
    return bool(reading.completions)


def _show(reading: Reading) -> dict[str, Any]:
    cursor = reading.cursor
    told = [encode_completion(done, incarnation=cursor.incarnation) for done in reading.completions]
    return {"completions": told, "cursor": cursor.encode()}
