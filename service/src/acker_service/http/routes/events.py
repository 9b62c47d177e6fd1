"""The route of the live events: the state of all topologies, once a second."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from itertools import chain, islice, repeat
from typing import Annotated, Any

from acker_protocol.errors import ServiceError
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from acker_service.http.auth import check_again, needs, visible
from acker_service.http.head import Router, end_head
from acker_service.http.routes.topologies import show_topology
from acker_service.http.sse import HEADERS, MEDIA_TYPE, RETRY, encode_problem
from acker_service.metrics.instruments import HttpMetrics
from acker_service.metrics.store_collector import TopologyAges
from acker_service.monitoring.snapshot import StoreMonitor, StoreSnapshot

INTERVAL_S = 1.0
"""Seconds between two events; all streams of a process show one snapshot."""

Events = Annotated[int | None, Query(alias="limit", ge=1, le=10_000)]


def make_router(
    *, monitor: StoreMonitor, metrics: HttpMetrics, stopping: asyncio.Event, interval_s: float = INTERVAL_S
) -> APIRouter:
    """Build the route; setting ``stopping`` ends all streams."""
    router = Router(prefix="/v1/events", tags=["topologies"])

    @router.get("", response_class=StreamingResponse, dependencies=[needs("ack")])
    async def stream_events(request: Request, limit: Events = None) -> StreamingResponse:
        """Stream the topologies that the key is for, until ``limit`` events are sent or one side ends."""
        end_head(request, media_type=MEDIA_TYPE, headers=HEADERS)

        async def events() -> AsyncIterator[bytes]:
            with metrics.event_streams.track_inprogress():
                for pause_s in islice(chain([0.0], repeat(interval_s)), limit):
                    if await _stops_within(stopping, pause_s):
                        yield RETRY
                        return
                    try:
                        # rule: live events whose key was removed show nothing more
                        check_again(request)
                    except ServiceError as error:
                        yield encode_problem(error, metrics) + RETRY
                        return
                    yield encode(show(await monitor.latest(), request))

        return StreamingResponse(events(), media_type=MEDIA_TYPE, headers=HEADERS)

    return router


def show(snapshot: StoreSnapshot | None, request: Request) -> dict[str, Any]:
    """Make the document of an event; ``topologies`` is None while the store does not answer."""
    at_ms = int(time.time() * 1000)
    if snapshot is None:
        return {"at_ms": at_ms, "topologies": None}
    counted = {topology.name: (topology, counts) for topology, counts in snapshot.topologies}
    shown = [
        show_topology(*counted[name]) | _oldest(counted[name][1].ages) for name in visible(request, sorted(counted))
    ]
    return {"at_ms": at_ms, "topologies": shown}


def _oldest(ages: TopologyAges | None) -> dict[str, int | None]:
    return {
        "oldest_pending_at_ms": None if ages is None else ages.pending_ms,
        "oldest_unread_at_ms": None if ages is None else ages.unread_ms,
    }


def encode(document: dict[str, Any]) -> bytes:
    """Encode an event."""
    return f"event: topologies\ndata: {json.dumps(document, separators=(',', ':'))}\n\n".encode()


async def _stops_within(stopping: asyncio.Event, seconds: float) -> bool:
    """Wait; return early, and True, once ``stopping`` is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
    return stopping.is_set()
