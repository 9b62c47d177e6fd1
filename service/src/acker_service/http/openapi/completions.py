"""Describes the endpoints of the completions."""

import json
from dataclasses import replace

from acker_protocol.errors import MailboxOwned
from acker_protocol.operations import CompletionRecord, Outcome
from acker_protocol.wire.completions import encode_completion

from acker_service.http.openapi.described import Answer, Body, Content, Described, found
from acker_service.http.openapi.shapes import Json, all_of, closed, count, or_null, ref
from acker_service.http.sse import HEARTBEAT_S, MEDIA_TYPE, RETRY_MS
from acker_service.mailboxes.cursor import Cursor, Position
from acker_service.topologies.cursors import ListKind, SpoutList

SCHEMAS: dict[str, Json] = {
    "Completion": all_of(
        {
            "id": {
                "type": "string",
                "pattern": "^[0-9a-f]{32}$",
                "description": "The same however often, and by whatever way, this completion is told.",
            },
            "root_id": ref("Id"),
            "outcome": ref("Outcome"),
            "message_id": or_null(ref("MessageId")),
            "reason": or_null({"type": "string"}, "Why it failed, if that was said."),
            "component": or_null(ref("Name"), "Who failed it, if that was said."),
            "complete_latency_ms": count("From the root's first message to its end."),
            "at_ms": count("When it ended, in Unix milliseconds."),
        },
        description="The end of a root.",
    ),
    "Release": closed({"cursor": ref("Cursor")}, "cursor"),
}

_INCARNATION = "0019f2ac03e1b7d4"
_ACKED = CompletionRecord(
    root_id=0x5F2C1E0B9A7D4836,
    spout_task="orders-1",
    outcome=Outcome.ACKED,
    message_id="42",
    reason=None,
    component=None,
    started_ms=1_789_999_999_988,
    at_ms=1_790_000_000_000,
)
_FAILED = replace(_ACKED, outcome=Outcome.FAILED, reason="card service timed out", component="authorize")


def cursor_of(kind: ListKind) -> str:
    """Give an example of a cursor."""
    of = SpoutList(kind=kind, incarnation=_INCARNATION, spout_task=_ACKED.spout_task, spout_index=0)
    return Cursor(of=of, positions={0: Position(ms=1_790_000_000_000, seq=0, offset=2)}).encode()


CURSOR = cursor_of(ListKind.COMPLETIONS)
TOLD = [encode_completion(done, incarnation=_INCARNATION) for done in (_ACKED, _FAILED)]
_DATA = json.dumps(TOLD[0], separators=(",", ":"))
_EVENTS = f":\n\nevent: completion\nid: {CURSOR}\ndata: {_DATA}\n\nretry: {RETRY_MS}\n\n"

DESCRIBED = {
    "get_completions": Described(
        summary="Read completions",
        notes="With the header `Accept: text/event-stream` they come as server-sent events, those that are there and "
        f"then each as it comes, with a comment every {HEARTBEAT_S:g} s: the `id` of an event is the cursor behind it, "
        "and whoever takes the stream up again says so in `Last-Event-ID`. Otherwise they come as JSON: those after "
        "the cursor, or if there are none, those that come within `wait_ms`. A page that has fewer than `limit` and "
        "less than 1 MiB was the last when it was read. Reading forgets nothing: whoever has "
        "dealt with completions releases them.",
        answers=(
            Answer(
                status=200,
                description="Completions, oldest first within a shard, and the cursor behind them.",
                contents=(
                    Content(
                        schema=all_of(
                            {"completions": {"type": "array", "items": ref("Completion")}, "cursor": ref("Cursor")}
                        ),
                        examples={
                            "two": {"completions": TOLD, "cursor": CURSOR},
                            "none": {"completions": [], "cursor": CURSOR},
                        },
                    ),
                    Content(kind=MEDIA_TYPE, schema={"type": "string"}, examples={"one, and the end": _EVENTS}),
                ),
            ),
        ),
    ),
    "release_completions": Described(
        summary="Release completions",
        notes="Forgets all completions up to the cursor: they were dealt with. Safe to repeat. The cursor of "
        "another list is refused, and one of a topology or spout task that was deleted forgets none. Where a webhook "
        "is set, it owns the completions: others may read them, not release them.",
        problems=(MailboxOwned,),
        body=Body(contents=(Content(schema=ref("Release"), examples={"up to a cursor": {"cursor": CURSOR}}),)),
        answers=(found(all_of({"released": count("How many.")}), "They are forgotten.", two={"released": 2}),),
    ),
    "discard_completions": Described(
        summary="Discard completions",
        notes="Forgets all completions of the spout task, whether they were read or not.",
        answers=(found(all_of({"discarded": count("How many.")}), "They are forgotten.", two={"discarded": 2}),),
    ),
}
