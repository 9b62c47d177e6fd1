"""The door at which a spout task reads and releases its completions."""

import asyncio
from typing import Any

from acker_protocol.problems import Invalid
from acker_protocol.wire.completions import encode_completion
from acker_protocol.wire.fields import text
from acker_protocol.wire.operations import check
from fastapi import APIRouter, Request

from acker_service.api.auth import needs
from acker_service.api.bodies import read_json
from acker_service.api.paths import After, Limit, SpoutTask, TopologyName, WaitMs
from acker_service.store.mailboxes import Cursor, Reading, read_cursor
from acker_service.store.spouts import Spout
from acker_service.store.store import Store
from acker_service.store.topology import Topology


def make_router(store: Store, stopping: asyncio.Event, *, max_body_bytes: int) -> APIRouter:
    """Make the routes of the completions; once ``stopping`` is set, nobody waits any more."""
    router = APIRouter(prefix="/v1/topologies/{topology}/spouts/{spout_task}/completions", tags=["completions"])

    @router.get("", dependencies=[needs("spout")])
    async def get_completions(
        topology: TopologyName,
        spout_task: SpoutTask,
        after: After = None,
        limit: Limit = 1_000,
        wait_ms: WaitMs = 0,
    ) -> dict[str, Any]:
        """Give completions after a cursor; if there are none, wait for some."""
        found = await store.topologies.get(topology)
        spout = await store.spouts.get(found, spout_task)
        reading = await _read(store, stopping, found, spout, read_cursor(after, found), limit, wait_ms / 1000)
        told = [encode_completion(done, incarnation=found.incarnation) for done in reading.completions]
        return {"completions": told, "cursor": reading.cursor.encode()}

    @router.post("/release", dependencies=[needs("spout")])
    async def release(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, int]:
        """Forget all completions up to a cursor."""
        values = check(await read_json(request, most=max_body_bytes), {"cursor": text})
        if "cursor" not in values:
            raise Invalid("cursor is missing")

        async def work(found: Topology) -> int:
            spout = await store.spouts.get(found, spout_task)
            return await store.mailboxes.release(found, spout, read_cursor(values["cursor"], found))

        return {"released": await store.topologies.on(topology, work)}

    @router.post("/discard", dependencies=[needs("admin")])
    async def discard(topology: TopologyName, spout_task: SpoutTask) -> dict[str, int]:
        """Forget all completions, unread."""
        found = await store.topologies.get(topology)
        return {"discarded": await store.mailboxes.discard(found, await store.spouts.get(found, spout_task))}

    return router


async def _read(
    store: Store,
    stopping: asyncio.Event,
    topology: Topology,
    spout: Spout,
    cursor: Cursor,
    limit: int,
    wait_s: float,
) -> Reading:
    """Read completions, waiting up to ``wait_s`` seconds for the first."""
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    with store.hints.waiting(topology, spout) as news:
        while True:
            news.clear()
            reading = await store.mailboxes.read(topology, spout, cursor, limit)
            left = until - loop.time()
            if reading.completions or left <= 0 or stopping.is_set():
                return reading
            await _either(news, stopping, left)


async def _either(news: asyncio.Event, stopping: asyncio.Event, timeout: float) -> None:  # noqa: ASYNC109 - of the wait
    tasks = [asyncio.ensure_future(news.wait()), asyncio.ensure_future(stopping.wait())]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
