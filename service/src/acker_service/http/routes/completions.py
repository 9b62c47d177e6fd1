"""Routes of the completions and of the dead letters."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from acker_protocol.errors import InvalidRequest, MailboxOwned
from acker_protocol.wire.completions import encode_completion
from acker_protocol.wire.fields import REASON_CHARACTERS, integer, text
from acker_protocol.wire.operations import check
from fastapi import APIRouter, Header, Request, Response

from acker_service.http.audit_notes import note
from acker_service.http.auth import check_again, needs
from acker_service.http.documents import read_json, read_json_if_any
from acker_service.http.head import Router, end_head, is_head, refresh_for_head
from acker_service.http.long_poll import LongPoll
from acker_service.http.parameters import (
    JSON,
    After,
    Limit,
    Milliseconds,
    Peek,
    SpoutTask,
    TextPart,
    TopologyName,
    Until,
    WaitMs,
)
from acker_service.http.sse import HEADERS, MEDIA_TYPE, EventStreams, wants_events
from acker_service.mailboxes.dead_letters import DeadLetter, DeadLetterPage, DeadLetters
from acker_service.mailboxes.follower import MailboxFollowers
from acker_service.mailboxes.reading import MailboxReader, ReadResult
from acker_service.metrics.instruments import HttpMetrics
from acker_service.monitoring.audit import Act, AuditTrail
from acker_service.redis.functions.mailboxes import DeadLetterFilter
from acker_service.topologies.cursors import completion_list, dead_letter_list, decode_cursor
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.spouts import Spout, SpoutRegistry
from acker_service.topologies.topology import Topology

LastEventId = Annotated[str | None, Header(alias="Last-Event-ID")]

_MILLISECONDS = integer(range(2**53))


def make_router(
    *,
    registry: TopologyRegistry,
    spouts: SpoutRegistry,
    mailboxes: MailboxReader,
    followers: MailboxFollowers,
    metrics: HttpMetrics,
    trail: AuditTrail,
    stopping: asyncio.Event,
    max_body_bytes: int,
) -> APIRouter:
    """Build the routes of the completions; setting ``stopping`` ends all waits and streams."""
    router = Router(prefix="/v1/topologies/{topology}/spouts/{spout_task}/completions", tags=["completions"])
    _add_reading(router, registry=registry, followers=followers, metrics=metrics, stopping=stopping)
    _add_release(router, registry=registry, spouts=spouts, mailboxes=mailboxes, max_body_bytes=max_body_bytes)
    _add_discard(router, registry=registry, spouts=spouts, mailboxes=mailboxes, trail=trail)
    return router


def _add_reading(
    router: APIRouter,
    *,
    registry: TopologyRegistry,
    followers: MailboxFollowers,
    metrics: HttpMetrics,
    stopping: asyncio.Event,
) -> None:
    """Add the route that reads completions: at once, by a long poll, or as a stream of events."""
    streams = EventStreams(followers=followers, metrics=metrics, stopping=stopping)

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
        *,
        peek: Peek = False,
    ) -> Response:
        """Return completions after a cursor; if there are none, wait for some. As events: all, as they come."""
        await refresh_for_head(request, registry, topology)
        if is_head(request):
            cursors = [last_event_id or after] if wants_events(request) else [after, until]
            _answer_head(request, await followers.find(topology, spout_task), cursors)

        async def stream(found: Topology) -> Response:
            check = partial(check_again, request)
            return await streams.respond(found, spout_task, last_event_id or after, limit, peek=peek, check=check)

        if wants_events(request):
            return await registry.with_current(topology, stream)
        wait = LongPoll(request=request, stopping=stopping, seconds=0 if until else wait_ms / 1000)

        async def poll(found: Topology) -> ReadResult:
            async with followers.following(found, spout_task, after, peek=peek) as follower:
                return await wait.until(_has_completions, lambda: follower.read(limit, until), follower.waiter)

        return Response(await _show(await registry.with_current(topology, poll)), media_type=JSON)


def _answer_head(request: Request, mailbox: tuple[Topology, Spout], cursors: Sequence[str | None]) -> None:
    """Check the cursors of a HEAD, and answer it. Raises `InvalidRequest`, `HeadAnswered`."""
    for cursor in cursors:
        decode_cursor(cursor, completion_list(*mailbox))
    if wants_events(request):
        end_head(request, media_type=MEDIA_TYPE, headers=HEADERS)
    end_head(request)


def _add_release(
    router: APIRouter,
    *,
    registry: TopologyRegistry,
    spouts: SpoutRegistry,
    mailboxes: MailboxReader,
    max_body_bytes: int,
) -> None:
    """Add the route that removes completions that were handled."""

    @router.post("/release", dependencies=[needs("spout")])
    async def release_completions(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, int]:
        """Forget all completions up to a cursor."""
        values = check(await read_json(request, max_bytes=max_body_bytes), {"cursor": text})
        if "cursor" not in values:
            raise InvalidRequest("cursor is missing")

        async def work(found: Topology) -> int:
            found = await registry.refresh(found.name)  # another replica may have given it a webhook
            spout = await spouts.get(found, spout_task)
            if spout.callback is not None and spout.callback.owns_mailbox:
                raise MailboxOwned(f"the webhook of spout task {spout_task} owns its completions; reading is allowed")
            cursor = decode_cursor(values["cursor"], completion_list(found, spout))
            return await mailboxes.release(found, spout, cursor)

        return {"released": await registry.with_current(topology, work)}


def _add_discard(
    router: APIRouter,
    *,
    registry: TopologyRegistry,
    spouts: SpoutRegistry,
    mailboxes: MailboxReader,
    trail: AuditTrail,
) -> None:
    """Add the route that removes all completions."""

    @router.post("/discard", dependencies=[needs("admin")])
    async def discard_completions(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, int]:
        """Forget all completions, unread."""

        async def work(found: Topology) -> int:
            return await mailboxes.discard(found, await spouts.get(found, spout_task))

        count = await registry.with_current(topology, work)
        if count:
            act = Act.COMPLETIONS_DISCARDED
            await note(trail, request, act, topology=topology, spout_task=spout_task, count=count)
        return {"discarded": count}


def make_dead_letter_router(
    *,
    registry: TopologyRegistry,
    spouts: SpoutRegistry,
    dead_letters: DeadLetters,
    trail: AuditTrail,
    max_body_bytes: int,
) -> APIRouter:
    """Build the routes of the dead letters."""
    router = Router(prefix="/v1/topologies/{topology}/spouts/{spout_task}/dead-letters", tags=["completions"])
    _add_dead_letters(router, registry=registry, spouts=spouts, dead_letters=dead_letters)
    _add_dead_letter_acts(
        router, registry=registry, spouts=spouts, dead_letters=dead_letters, trail=trail, max_body_bytes=max_body_bytes
    )
    return router


def _add_dead_letters(
    router: APIRouter, *, registry: TopologyRegistry, spouts: SpoutRegistry, dead_letters: DeadLetters
) -> None:
    """Add the route that lists dead letters."""

    @router.get("", dependencies=[needs("spout")])
    async def list_dead_letters(
        request: Request,
        topology: TopologyName,
        spout_task: SpoutTask,
        after: After = None,
        limit: Limit = 1_000,
        error: TextPart = None,
        from_ms: Milliseconds | None = None,
        to_ms: Milliseconds | None = None,
    ) -> dict[str, Any]:
        """Return dead letters that match, after a cursor."""
        wanted = _filter(error=error, from_ms=from_ms, to_ms=to_ms)
        await refresh_for_head(request, registry, topology)

        async def work(found: Topology) -> DeadLetterPage:
            spout = await spouts.get(found, spout_task)
            cursor = decode_cursor(after, dead_letter_list(found, spout))
            end_head(request)
            return await dead_letters.read(found, spout, cursor, limit, wanted)

        page = await registry.with_current(topology, work)
        documents = [_show_dead_letter(letter, page.cursor.incarnation) for letter in page.letters]
        return {"dead_letters": documents, "cursor": page.cursor.encode(), "more": page.more}


def _add_dead_letter_acts(
    router: APIRouter,
    *,
    registry: TopologyRegistry,
    spouts: SpoutRegistry,
    dead_letters: DeadLetters,
    trail: AuditTrail,
    max_body_bytes: int,
) -> None:
    """Add the routes that replay dead letters and throw them away."""

    @router.post("/replay", dependencies=[needs("spout")])
    async def replay_dead_letters(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, int]:
        """Put dead letters that match back, to be delivered as if they had never been tried."""
        wanted = await _read_filter(request, max_bytes=max_body_bytes)

        async def work(found: Topology) -> int:
            return await dead_letters.replay(found, await spouts.get(found, spout_task), wanted)

        count = await registry.with_current(topology, work)
        if count:
            act = Act.DEAD_LETTERS_REPLAYED
            await note(trail, request, act, topology=topology, spout_task=spout_task, count=count)
        return {"replayed": count}

    @router.post("/discard", dependencies=[needs("admin")])
    async def discard_dead_letters(topology: TopologyName, spout_task: SpoutTask, request: Request) -> dict[str, int]:
        """Throw dead letters that match away."""
        wanted = await _read_filter(request, max_bytes=max_body_bytes)

        async def work(found: Topology) -> int:
            return await dead_letters.discard(found, await spouts.get(found, spout_task), wanted)

        count = await registry.with_current(topology, work)
        if count:
            act = Act.DEAD_LETTERS_DISCARDED
            await note(trail, request, act, topology=topology, spout_task=spout_task, count=count)
        return {"discarded": count}


async def _read_filter(request: Request, *, max_bytes: int) -> DeadLetterFilter:
    """Read which dead letters are meant; without a body all. Raises `InvalidRequest`."""
    fields = {"error": _error, "from_ms": _MILLISECONDS, "to_ms": _MILLISECONDS}
    return _filter(**check(await read_json_if_any(request, max_bytes=max_bytes), fields))


def _error(value: Any) -> str:
    if not 0 < len(text(value)) <= REASON_CHARACTERS:
        raise ValueError(f"must have 1 to {REASON_CHARACTERS} characters")
    return str(value)


def _filter(**values: Any) -> DeadLetterFilter:
    wanted = DeadLetterFilter(**values)
    if wanted.from_ms is not None and wanted.to_ms is not None and wanted.from_ms > wanted.to_ms:
        raise InvalidRequest(f"from_ms {wanted.from_ms} is after to_ms {wanted.to_ms}: no dead letter can match")
    return wanted


def _has_completions(reading: ReadResult) -> bool:
    return bool(reading.count)


async def _show(reading: ReadResult) -> bytes:
    """Write a page as JSON; other requests run between the slices of a large one."""
    slices: list[str] = []
    for documents in reading.documents():
        if slices:
            # rule: others run while a large page is written
            await asyncio.sleep(0)
        slices.append(",".join(documents))
    return f'{{"completions":[{",".join(slices)}],"cursor":"{reading.cursor.encode()}"}}'.encode()


def _show_dead_letter(letter: DeadLetter, incarnation: str) -> dict[str, Any]:
    document = encode_completion(letter.completion, incarnation=incarnation)
    return document | {"attempts": letter.attempts, "error": letter.error, "at_ms": letter.at_ms}
