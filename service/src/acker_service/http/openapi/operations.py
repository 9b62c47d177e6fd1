"""Describes the endpoints of the operations."""

from acker_protocol.errors import Conflict, MailboxFull, MaxSpoutPending, StoreFull, TooManySpouts, TopologyBusy
from acker_protocol.ids import fold, format_id, parse_id
from acker_protocol.operations import Ack, Fail, Init
from acker_protocol.routes import IDEMPOTENCY_REPLAYED
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed

from acker_service.http.openapi import messages
from acker_service.http.openapi.described import Answer, Body, Content, Described
from acker_service.http.openapi.shapes import Json, ref

SCHEMAS = messages.SCHEMAS

_ROOT, _EDGE, _CHILD = "5f2c1e0b9a7d4836", "00f3a19c5be27d40", "9c41d07e2b6f8a15"
_INIT = {"root_id": _ROOT, "spout_task": "orders-1", "edges": [_EDGE], "message_id": "42", "message_timeout_ms": 60_000}
_ACK = {"root_id": _ROOT, "edge_id": _EDGE, "children": [_CHILD]}
_FAIL = {"root_id": _ROOT, "reason": "card service timed out", "component": "authorize"}
_FOLDED_INIT = {"root_id": _ROOT, "spout_task": "orders-1", "ack_val": _EDGE, "outstanding": 1}
_FOLDED = format_id(fold(parse_id(edge) for edge in (_EDGE, _CHILD)))
_FOLDED_ACK = {"root_id": _ROOT, "ack_val": _FOLDED, "outstanding": 0, "edge_id": _EDGE}
_BODIES: dict[str, Json] = {
    "init": {"named edges": _INIT, "compact": _FOLDED_INIT},
    "ack": {"named edges": _ACK, "without children": {"root_id": _ROOT, "edge_id": _CHILD}, "compact": _FOLDED_ACK},
    "fail": {"with a reason": _FAIL, "without": {"root_id": _ROOT}},
    "reset-timeout": {"a root": {"root_id": _ROOT}},
}
_OPS = [{"op": "init"} | _INIT, {"op": "ack"} | _ACK, {"op": "fail"} | _FAIL, {"op": "reset-timeout", "root_id": _ROOT}]
_PACKED = encode_packed(
    [
        Init(root_id=0x2A, spout_task="orders-1", ack_val=0x11, outstanding=1, message_id="42"),
        Ack(root_id=0x2A, ack_val=0x33, outstanding=0, edge_id=0x11),
        Fail(root_id=0x2A, reason="card service timed out", component="authorize"),
    ]
).decode("ascii")
"""All its bytes are below 128, so that the document can show it as text."""

_REPLAYED: Json = {
    "schema": {"const": "true"},
    "description": "There if every shard knew the `Idempotency-Key` with this content: nothing was applied.",
}
_KEYED = (
    "With an `Idempotency-Key` it may be repeated: the same key with the same content is applied once, and a repeat is "
    "answered with the present state, or again that an operation of a batch was refused. Without one, a request that "
    "holds an ack must not be sent again after `store_unavailable`."
)
_SUMMARIES = {
    "init": ("Emit a root", "A spout task has emitted a root.", "pending"),
    "ack": ("Ack a tuple", "A tuple is done; its children, if any, are named with it.", "pending"),
    "fail": ("Fail a root", "A tuple has failed, and with it its root.", "failed"),
    "reset-timeout": ("Reset a root's timeout", "The root gets its full message timeout again.", "pending"),
}
_FORMS = (
    "Programs that have done the XOR send the compact form, with `ack_val` for the edges; the two forms do not mix. "
    "Edge ids have to be random: edges of one operation that repeat or XOR to zero are `invalid`."
)
_OWN = {
    "init": (Conflict, TopologyBusy, TooManySpouts, MaxSpoutPending, MailboxFull, StoreFull),
    "ack": (StoreFull,),
    "fail": (StoreFull,),
}


def _single(verb: str) -> Described:
    summary, notes, state = _SUMMARIES[verb]
    examples = {
        state: {"root_id": _ROOT, "state": state},
        "finished": {"root_id": _ROOT, "state": "finished", "outcome": "acked"},
    }
    content = Content(schema=messages.answer(verb), examples=examples)
    forms = f" {_FORMS}" if verb in ("init", "ack") else ""
    return Described(
        summary=summary,
        notes=f"{notes}{forms} {_KEYED}",
        body=Body(contents=(Content(schema=messages.one(verb), examples=_BODIES[verb]),)),
        answers=(_applied("How the root stands now.", content),),
        problems=_OWN.get(verb, ()),
    )


def _applied(description: str, content: Content) -> Answer:
    return Answer(status=200, description=description, contents=(content,), headers={IDEMPOTENCY_REPLAYED: _REPLAYED})


def _batch(max_operations: int) -> Described:
    results = {
        "all": {"accepted": 3, "results": ["pending", "pending", "conflict", "acked"]},
        "exceptions": {"accepted": 3, "exceptions": [{"index": 2, "state": "conflict"}]},
    }
    packed = Content(
        kind=CONTENT_TYPE,
        schema={"description": "Fixed-size records and a table of strings: see docs/packed.md."},
        examples={"bytes, as text": _PACKED},
    )
    examples = {"one of each": {"ops": _OPS}, "none": {"ops": []}}
    taken = (Content(schema=messages.batch(max_operations), examples=examples), packed)
    answered = Content(schema={"oneOf": [ref("Results"), ref("Exceptions")]}, examples=results)
    return Described(
        summary="Apply many operations",
        notes=f"At most {max_operations:,}. One that is malformed refuses the whole batch before anything is applied; "
        f"`index` says which. A batch that holds an init needs the scope `spout`. {_KEYED}",
        body=Body(contents=taken),
        answers=(_applied("What each operation came to.", answered),),
        problems=(TopologyBusy, TooManySpouts),
    )


def described(max_operations: int) -> dict[str, Described]:
    """Describe the endpoints; a batch has ``max_operations`` operations at most."""
    return {verb.replace("-", "_"): _single(verb) for verb in _SUMMARIES} | {"batch": _batch(max_operations)}
