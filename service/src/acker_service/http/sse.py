"""Streams a spout task's completions as server-sent events, which a client can resume from the last id."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from itertools import chain

from acker_protocol.errors import ServiceError
from fastapi import Request
from fastapi.responses import StreamingResponse

from acker_service.http.long_poll import HEARTBEAT_S, LATE_S
from acker_service.http.problems import document_of
from acker_service.mailboxes.follower import MailboxFollower, MailboxFollowers
from acker_service.mailboxes.reading import ReadResult
from acker_service.metrics.instruments import HttpMetrics
from acker_service.redis.completion_codec import ASCII
from acker_service.topologies.topology import Topology

MEDIA_TYPE = "text/event-stream"
RETRY_MS = 1_000
CHUNK = 100
"""Maximum number of events read and sent at once: other tasks run in between, and a slow reader holds no more."""

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_REFUSED = re.compile(r";q=0(\.0*)?(;|$)")
_COMMENT = b":\n\n"
RETRY = f"retry: {RETRY_MS}\n\n".encode()

_log = logging.getLogger(__name__)


def wants_events(request: Request) -> bool:
    """Whether a request asks for a stream of events."""
    accepted = ",".join(request.headers.getlist("accept")).lower().replace(" ", "").split(",")
    return any(kind.split(";")[0] == MEDIA_TYPE and not _REFUSED.search(kind) for kind in accepted)


class EventStreams:
    """Streams completions; setting ``stopping`` ends the streams."""

    def __init__(
        self,
        *,
        followers: MailboxFollowers,
        metrics: HttpMetrics,
        stopping: asyncio.Event,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._followers = followers
        self._metrics = metrics
        self._stopping = stopping
        self._heartbeat_s = heartbeat_s

    async def respond(
        self,
        topology: Topology,
        spout_task: str,
        after: str | None,
        limit: int,
        *,
        peek: bool = False,
        check: Callable[[], None],
    ) -> StreamingResponse:
        """Stream completions, reading ``limit`` at a time, at most 100. Raises the errors of the first read.

        ``check`` is called before each further read; the stream ends with the error that it raises.
        """
        following = self._followers.following(topology, spout_task, after, peek=peek)
        chunks = self._stream(topology.name, following, min(limit, CHUNK), check)
        first = await anext(chunks)
        return StreamingResponse(prepend(first, chunks), media_type=MEDIA_TYPE, headers=HEADERS)

    async def _stream(
        self,
        topology: str,
        following: AbstractAsyncContextManager[MailboxFollower],
        limit: int,
        check: Callable[[], None],
    ) -> AsyncIterator[bytes]:
        """Yield present and future completions as events, in chunks.

        An error after the start is the last event. The stream ends as it does at a stop: the client reconnects, with
        its last id.
        """
        open_streams = self._metrics.event_streams
        async with following as follower:
            reading = await follower.read(limit)
            with open_streams.track_inprogress():
                yield _COMMENT
                try:
                    async for chunk in self._follow(follower, reading, limit, check):
                        yield chunk
                except ServiceError as error:
                    _log.debug("a stream of %s ends: %s", topology, error.detail)
                    yield encode_problem(error, self._metrics)
                yield RETRY

    async def _follow(
        self, follower: MailboxFollower, reading: ReadResult, limit: int, check: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        beat = loop.time() + self._heartbeat_s
        while True:
            if reading.count:
                yield _encode(reading)
                beat = loop.time() + self._heartbeat_s
            if not reading.more:
                await follower.waiter.wait(LATE_S if self._stopping.is_set() else beat - loop.time())
            if self._stopping.is_set():
                return
            # rule: a stream whose key was removed reads nothing more
            check()
            reading = await follower.read(limit)
            if not reading.count and loop.time() >= beat:
                yield _COMMENT
                beat = loop.time() + self._heartbeat_s


async def prepend(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Put the first chunk, which was awaited so that its error is the answer, before the others again."""
    yield first
    async for chunk in chunks:
        yield chunk


def encode_problem(error: ServiceError, metrics: HttpMetrics) -> bytes:
    """Encode the last event of a stream that an error ends, and count it as an answer."""
    metrics.problems[error.code].inc()
    return f"event: problem\ndata: {json.dumps(document_of(error), separators=(',', ':'))}\n\n".encode()


def _encode(reading: ReadResult) -> bytes:
    """Encode the events of a read; the id of each event is the cursor behind it."""
    documents = chain.from_iterable(reading.documents(ASCII))
    events = [
        f"event: completion\nid: {cursor.encode()}\ndata: {document}\n\n"
        for document, cursor in zip(documents, reading.cursors(), strict=True)
    ]
    return "".join(events).encode()
