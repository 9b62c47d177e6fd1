"""The route of the live events: the state of all topologies, once a second."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import chain, islice, repeat
from typing import Annotated

from acker_protocol.errors import ServiceError, TooManyStreams
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from acker_service.http.auth import check_again, needs
from acker_service.http.head import Router, end_head
from acker_service.http.keys import ANONYMOUS_ADMIN, Key
from acker_service.http.load_shedding import Capacity
from acker_service.http.routes.topologies import show_topology
from acker_service.http.sse import HEADERS, MEDIA_TYPE, RETRY, encode_problem, prepend
from acker_service.metrics.instruments import HttpMetrics
from acker_service.metrics.store_collector import TopologyAges
from acker_service.monitoring.snapshot import StoreMonitor, StoreSnapshot

INTERVAL_S = 1.0
"""Seconds between two events; all streams of a process show one snapshot."""

Events = Annotated[int | None, Query(alias="limit", ge=1, le=10_000)]


def make_router(
    *,
    monitor: StoreMonitor,
    metrics: HttpMetrics,
    stopping: asyncio.Event,
    max_streams: int,
    interval_s: float = INTERVAL_S,
) -> APIRouter:
    """Build the route; setting ``stopping`` ends all streams, and ``max_streams`` are open at most."""
    router = Router(prefix="/v1/events", tags=["topologies"])
    live, places = LiveEvents(monitor), Places(max_streams)

    async def events(request: Request, limit: int | None) -> AsyncIterator[bytes]:
        """Yield events, and the problem that ends the stream. Raises `TooManyStreams` before the first."""
        with places.taken_by(request.state.key), metrics.event_streams.track_inprogress():
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
                yield await live.latest(request.state.key.topologies)

    @router.get("", response_class=StreamingResponse, dependencies=[needs("ack")])
    async def stream_events(request: Request, limit: Events = None) -> StreamingResponse:
        """Stream the topologies that the key is for, until ``limit`` events are sent or one side ends."""
        end_head(request, media_type=MEDIA_TYPE, headers=HEADERS)
        following = events(request, limit)
        first = await anext(following)
        return StreamingResponse(prepend(first, following), media_type=MEDIA_TYPE, headers=HEADERS)

    return router


class Places:
    """The places for streams: a key may have half of them, and one at least; where none is required, all."""

    def __init__(self, limit: int) -> None:
        self._places = Capacity(limit, what="streams of live events")
        self._limit_of_key = max(1, limit // 2)
        self._used_by = Counter[str]()

    @contextlib.contextmanager
    def taken_by(self, key: Key) -> Iterator[None]:
        """Have a place in the block. Raises `TooManyStreams`."""
        self._check(key)
        self._places.acquire()
        self._used_by[key.name] += 1
        try:
            yield
        finally:
            self._places.release()
            self._used_by[key.name] -= 1
            self._used_by += Counter()  # forgets the keys that have none

    def _check(self, key: Key) -> None:
        places, used = self._places, self._used_by[key.name]
        if not places.has():
            have = f"the acker has {places.used} streams of live events, and may have {places.limit}"
        elif key is not ANONYMOUS_ADMIN and used >= self._limit_of_key:
            have = f"the key {key.name} has {used} streams of live events, and one key may have {self._limit_of_key}"
        else:
            return
        raise TooManyStreams(f"{have}: close one, or raise ACKER_MAX_WAITING")


class LiveEvents:
    """Writes the latest snapshot as an event, once for each set of topologies that streams show."""

    def __init__(self, monitor: StoreMonitor) -> None:
        self._monitor = monitor
        self._written: _WrittenSnapshot | None = None

    async def latest(self, topologies: frozenset[str] | None) -> bytes:
        """Return the event of those of these topologies that there are; None: of all."""
        snapshot, written = await self._monitor.latest(), self._written
        # rule: an event is written once for all streams that show the same topologies
        if written is None or written.is_over(snapshot):
            written = self._written = _WrittenSnapshot(snapshot)
        return written.event(topologies)


class _WrittenSnapshot:
    """A snapshot and the events of it, for as long as it is the latest one, and an interval at most."""

    def __init__(self, snapshot: StoreSnapshot | None) -> None:
        self._snapshot = snapshot
        self._began = time.monotonic()
        self._at_ms = int(time.time() * 1_000)
        topologies = [] if snapshot is None else snapshot.topologies
        self._counted = {one.name: (one, counts) for one, counts in sorted(topologies, key=lambda it: it[0].name)}
        self._documents: dict[str, str] = {}
        self._events: dict[frozenset[str] | None, bytes] = {}

    def is_over(self, latest: StoreSnapshot | None) -> bool:
        """Whether another event is due: of a later snapshot, or because time goes on without one."""
        return latest is not self._snapshot or time.monotonic() - self._began >= INTERVAL_S

    def event(self, topologies: frozenset[str] | None) -> bytes:
        """Return the event of these topologies; its ``topologies`` are null while the store does not answer."""
        event = self._events.get(topologies)
        if event is None:
            event = self._events[topologies] = self._encode(topologies)
        return event

    def _encode(self, topologies: frozenset[str] | None) -> bytes:
        shown = "null"
        if self._snapshot is not None:
            names = self._counted if topologies is None else sorted(topologies & self._counted.keys())
            shown = f"[{','.join(map(self._document, names))}]"
        return f'event: topologies\ndata: {{"at_ms":{self._at_ms},"topologies":{shown}}}\n\n'.encode()

    def _document(self, name: str) -> str:
        """Return a topology as JSON, written once for all events that have it."""
        document = self._documents.get(name)
        if document is None:
            topology, counts = self._counted[name]
            shown = show_topology(topology, counts) | _oldest(counts.ages)
            document = self._documents[name] = json.dumps(shown, separators=(",", ":"))
        return document


def _oldest(ages: TopologyAges | None) -> dict[str, int | None]:
    return {
        "oldest_pending_at_ms": None if ages is None else ages.pending_ms,
        "oldest_unread_at_ms": None if ages is None else ages.unread_ms,
    }


async def _stops_within(stopping: asyncio.Event, seconds: float) -> bool:
    """Wait; return early, and True, once ``stopping`` is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
    return stopping.is_set()
