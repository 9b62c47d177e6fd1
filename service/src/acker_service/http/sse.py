"""Knows server-sent events: a spout task's completions as a stream that its caller can take up again."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator

from acker_protocol.errors import ServiceError
from acker_protocol.wire.completions import encode_completion
from fastapi import Request
from fastapi.responses import StreamingResponse

from acker_service.mailboxes.follower import MailboxFollower
from acker_service.mailboxes.reading import ReadResult
from acker_service.store import Store
from acker_service.topologies.stamp import Topology

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_S = 15.0
RETRY_MS = 1_000
CHUNK = 100
"""Events that go out together: others get their turn between, and one who reads slowly holds no more than these."""

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_REFUSED = re.compile(r";q=0(\.0*)?(;|$)")
_COMMENT = b":\n\n"
_RETRY = f"retry: {RETRY_MS}\n\n".encode()

_log = logging.getLogger(__name__)


def wants_events(request: Request) -> bool:
    """Whether a request asks for a stream of events."""
    accepted = ",".join(request.headers.getlist("accept")).lower().replace(" ", "").split(",")
    return any(kind.split(";")[0] == MEDIA_TYPE and not _REFUSED.search(kind) for kind in accepted)


class Events:
    """Streams completions. The streams end when ``stopping`` is set."""

    def __init__(self, store: Store, stopping: asyncio.Event, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._store, self._stopping, self._heartbeat_s = store, stopping, heartbeat_s

    async def respond(self, topology: Topology, spout_task: str, after: str | None, limit: int) -> StreamingResponse:
        """Stream completions, read ``limit`` at a time. Raises what keeps the stream from beginning."""
        chunks = self._stream(topology, spout_task, after, limit)
        first = await anext(chunks)
        return StreamingResponse(_chained(first, chunks), media_type=MEDIA_TYPE, headers=_HEADERS)

    async def _stream(self, topology: Topology, spout_task: str, after: str | None, limit: int) -> AsyncIterator[bytes]:
        """Give the events of what is there and of what comes, in chunks.

        A fault once the stream has begun ends it like a stop does: the caller is told to come back, with its last id.
        """
        open_now = self._store.metrics.http.event_streams
        async with self._store.followers.following(topology, spout_task, after) as follower:
            reading = await follower.read(limit)
            with open_now.track_inprogress():
                yield _COMMENT
                try:
                    async for chunk in self._follow(follower, reading, limit):
                        yield chunk
                except ServiceError as problem:
                    _log.info("a stream of %s ends: %s", topology.name, problem.detail)
                yield _RETRY

    async def _follow(self, follower: MailboxFollower, reading: ReadResult, limit: int) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        beat = loop.time() + self._heartbeat_s
        while True:
            for chunk in _encode(reading):
                yield chunk
                beat = loop.time() + self._heartbeat_s
            if not reading.more:
                await follower.waiter.wait(beat - loop.time())
            if self._stopping.is_set():
                return
            reading = await follower.read(limit)
            if not reading.completions and loop.time() >= beat:
                yield _COMMENT
                beat = loop.time() + self._heartbeat_s


async def _chained(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in chunks:
        yield chunk


def _encode(reading: ReadResult) -> Iterator[bytes]:
    """Write the events of a reading; the id of each is the cursor behind it."""
    chunk = []
    for completion, cursor in zip(reading.completions, reading.cursors(), strict=True):
        told = json.dumps(encode_completion(completion, incarnation=cursor.incarnation), separators=(",", ":"))
        chunk.append(f"event: completion\nid: {cursor.encode()}\ndata: {told}\n\n")
        if len(chunk) == CHUNK:
            yield "".join(chunk).encode()
            chunk.clear()
    if chunk:
        yield "".join(chunk).encode()
