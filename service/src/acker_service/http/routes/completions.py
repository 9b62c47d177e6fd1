"""The door at which a spout task reads and releases its completions."""

import asyncio
from typing import Annotated, Any

import msgspec
from acker_protocol.errors import InvalidRequest, MailboxOwned
from acker_protocol.wire.completions import encode_completion
from acker_protocol.wire.fields import text
from acker_protocol.wire.operations import check
from fastapi import APIRouter, Header, Request, Response

from acker_service.http.auth import needs
from acker_service.http.bodies import JSON, read_json
from acker_service.http.long_poll import LongPoll
from acker_service.http.parameters import After, Limit, SpoutTask, TopologyName, Until, WaitMs
from acker_service.http.sse import Events, wants_events
from acker_service.mailboxes.cursor import decode_cursor
from acker_service.mailboxes.reading import ReadResult
from acker_service.store import Store
from acker_service.topologies.stamp import Topology

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
            return await store.registry.with_current(
                topology, lambda found: events.respond(found, spout_task, start, limit)
            )
        wait = LongPoll(request=request, stopping=stopping, seconds=0 if until else wait_ms / 1000)

        async def poll(found: Topology) -> ReadResult:
            async with store.followers.following(found, spout_task, after) as follower:
                return await wait.until(_holds_some, lambda: follower.read(limit, until), follower.waiter)

        return Response(msgspec.json.encode(_show(await store.registry.with_current(topology, poll))), media_type=JSON)

    _add_forgetting(router, store, max_body_bytes)
    return router


def _add_forgetting(router: APIRouter, store: Store, most: int) -> None:
    """Add the routes that forget completions: what was dealt with, or all."""

    @router.post("/release", dependencies=[needs("spout")])
    async def release_completions(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, int]:
        """Forget all completions up to a cursor."""
        values = check(await read_json(request, most=most), {"cursor": text})
        if "cursor" not in values:
            raise InvalidRequest("cursor is missing")

        async def work(found: Topology) -> int:
            found = await store.registry.refresh(found.name)  # another replica may have given it a webhook
            spout = await store.spouts.get(found, spout_task)
            if spout.callback is not None and spout.callback.owns_mailbox:
                raise MailboxOwned(f"the webhook of spout task {spout_task} owns its completions; reading is allowed")
            return await store.mailboxes.release(found, spout, decode_cursor(values["cursor"], found))

        return {"released": await store.registry.with_current(topology, work)}

    @router.post("/discard", dependencies=[needs("admin")])
    async def discard_completions(topology: TopologyName, spout_task: SpoutTask) -> dict[str, int]:
        """Forget all completions, unread."""

        async def work(found: Topology) -> int:
            return await store.mailboxes.discard(found, await store.spouts.get(found, spout_task))

        return {"discarded": await store.registry.with_current(topology, work)}


def _holds_some(reading: ReadResult) -> bool:
    return bool(reading.completions)


def _show(reading: ReadResult) -> dict[str, Any]:
    cursor = reading.cursor
    told = [encode_completion(done, incarnation=cursor.incarnation) for done in reading.completions]
    return {"completions": told, "cursor": cursor.encode()}
