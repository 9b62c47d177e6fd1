"""Describes the endpoints of the roots."""

from acker_protocol.errors import UnknownRoot
from acker_protocol.wire import fields

from acker_service.http.openapi.described import Body, Content, Described, found
from acker_service.http.openapi.shapes import NULL, Json, all_of, closed, count, integer, or_null, ref

_TREE: Json = {
    "root_id": ref("Id"),
    "state": {"const": "pending"},
    "spout_task": or_null(ref("Name"), "Who is told of its end; null: nobody, the spout task was removed."),
    "message_id": or_null(ref("MessageId")),
    "ack_val": ref("AckVal"),
    "outstanding": or_null(integer(fields.OUTSTANDING), "Edges born minus edges acked; null: unknown."),
    "age_ms": count("Since the first message about it."),
    "deadline_at_ms": count("When it times out if nothing happens, in Unix milliseconds."),
}
_EARLY: Json = {"state": {"const": "early"}, "spout_task": NULL, "message_id": NULL}
SCHEMAS: dict[str, Json] = {
    "PendingRoot": all_of(_TREE, description="It was emitted, and its tree is not done."),
    "EarlyRoot": all_of(_TREE | _EARLY, description="Acks or fails came for it, and its init is yet to come."),
    "FinishedRoot": all_of(
        {"root_id": ref("Id"), "state": {"const": "finished"}, "outcome": ref("Outcome")},
        description="It has ended, and its outcome is remembered yet.",
    ),
    "Root": {"oneOf": [ref("PendingRoot"), ref("EarlyRoot"), ref("FinishedRoot")]},
    "ForcedFail": closed({"reason": or_null(ref("Reason"))}),
}

_ID = "5f2c1e0b9a7d4836"
_PENDING = {
    "root_id": _ID,
    "state": "pending",
    "spout_task": "orders-1",
    "message_id": "42",
    "ack_val": "00f3a19c5be27d40",
    "outstanding": 2,
    "age_ms": 1_204,
    "deadline_at_ms": 1_790_000_028_796,
}
_FAILED = {"root_id": _ID, "state": "failed"}
_FINISHED = {"root_id": _ID, "state": "finished", "outcome": "acked"}

DESCRIBED = {
    "list_roots": Described(
        summary="List pending roots",
        answers=(
            found(
                all_of(
                    {
                        "roots": {"type": "array", "items": ref("PendingRoot")},
                        "cursor": or_null(ref("Cursor"), "Where the next page begins; null: this was the last."),
                    }
                ),
                "A page, which may be short.",
                last={"roots": [_PENDING], "cursor": None},
            ),
        ),
    ),
    "get_root": Described(
        summary="Give a root, or wait for its end",
        notes="With `wait_ms` it answers once the root is finished or unknown, or the time is over.",
        answers=(
            found(
                ref("Root"),
                "The root.",
                pending=_PENDING,
                early=_PENDING | {"state": "early", "spout_task": None, "message_id": None, "outstanding": -1},
                finished=_FINISHED,
            ),
        ),
        problems=(UnknownRoot,),
    ),
    "fail_root": Described(
        summary="Fail a root by hand",
        notes="For operators. Its spout task is told the reason behind `forced: `.",
        body=Body(
            contents=(
                Content(
                    schema=ref("ForcedFail"),
                    examples={"with a reason": {"reason": "poisoned message"}, "without": {}},
                ),
            ),
            required=False,
        ),
        answers=(
            found(
                {"oneOf": [ref("FailAnswer"), ref("FinishedAnswer")]},
                "It has failed, or had ended before.",
                failed=_FAILED,
                finished=_FINISHED,
            ),
        ),
        problems=(UnknownRoot,),
    ),
}
