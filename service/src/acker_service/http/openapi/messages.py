"""Schemas of the four operations and of their answers."""

from acker_protocol.operations import REFUSED, OperationState
from acker_protocol.wire import fields

from acker_service.http.openapi.shapes import NULL, Json, all_of, closed, integer, or_null, ref, zero_or

_TIMEOUT = integer(fields.TIMEOUT_MS)
_EDGES: Json = {"type": "array", "items": ref("Id"), "uniqueItems": True}
_OUTSTANDING = or_null(integer(fields.OUTSTANDING), "Children minus edges acked; may be negative. Null: unknown.")

_COMMON: Json = {
    "root_id": ref("Id"),
    "component": or_null(ref("Name"), "Who says so."),
}
_EMIT: Json = _COMMON | {
    "spout_task": ref("Name") | {"description": "Who is told how the root ended; made if it is new."},
    "message_id": or_null(ref("MessageId")),
    "message_timeout_ms": or_null(_TIMEOUT, "Null: the topology's. At most its dedupe window, if it has one."),
    "progress_timeout_ms": zero_or(_TIMEOUT, "Null: the topology's. 0: none."),
}
_NAMED_EMIT = _EMIT | {
    "edges": _EDGES | {"description": "The edges to its first tuples. None: the root is acked at once."},
    "ack_val": NULL,
    "outstanding": NULL,
}
_FOLDED_EMIT = _EMIT | {
    "ack_val": ref("AckVal") | {"description": "The XOR of the edges to its first tuples."},
    "outstanding": _OUTSTANDING,
    "edges": NULL,
}
_NAMED_ACK = _COMMON | {
    "edge_id": ref("Id") | {"description": "The edge to the tuple that is done."},
    "children": or_null(_EDGES, "The edges to the tuples that were born of it."),
    "ack_val": NULL,
    "outstanding": NULL,
}
_FOLDED_ACK = _COMMON | {
    "ack_val": ref("AckVal")
    | {"description": "The XOR of the edge to the tuple that is done and of those to its children."},
    "outstanding": _OUTSTANDING,
    "edge_id": or_null(ref("Id"), "The edge, so that a topology that dedupes applies the ack once."),
    "children": NULL,
}
_FORMS: dict[str, tuple[tuple[str, Json, tuple[str, ...]], ...]] = {
    "init": (
        ("Init", _NAMED_EMIT, ("root_id", "spout_task", "edges")),
        ("CompactInit", _FOLDED_EMIT, ("root_id", "spout_task", "ack_val")),
    ),
    "ack": (
        ("Ack", _NAMED_ACK, ("root_id", "edge_id")),
        ("CompactAck", _FOLDED_ACK, ("root_id", "ack_val")),
    ),
    "fail": (("Fail", _COMMON | {"reason": or_null(ref("Reason"))}, ("root_id",)),),
    "reset-timeout": (("ResetTimeout", _COMMON, ("root_id",)),),
}
"""By verb: the forms of the operation, each with its name, its fields and the required ones."""

_STATES = {
    "init": (OperationState.PENDING, OperationState.ACKED, OperationState.FAILED, OperationState.DUPLICATE),
    "ack": (OperationState.PENDING, OperationState.ACKED, OperationState.EARLY, OperationState.DUPLICATE),
    "fail": (OperationState.FAILED, OperationState.EARLY, OperationState.DUPLICATE),
    "reset-timeout": (OperationState.PENDING, OperationState.UNKNOWN, OperationState.DUPLICATE),
}
"""States that answer an operation with 200, besides `finished`."""

_ANSWERS = {"init": "InitAnswer", "ack": "AckAnswer", "fail": "FailAnswer", "reset-timeout": "ResetTimeoutAnswer"}


def one(verb: str) -> Json:
    """Write the body of a single operation."""
    return _any_of([ref(name) for name, _, _ in _FORMS[verb]])


def answer(verb: str) -> Json:
    """Write the answer to a single operation."""
    return {"oneOf": [ref(_ANSWERS[verb]), ref("FinishedAnswer")]}


def batch(max_operations: int) -> Json:
    """Write a batch of ``max_operations`` operations at most."""
    items = {"oneOf": [ref(f"{name}InBatch") for forms in _FORMS.values() for name, _, _ in forms]}
    return closed({"ops": {"type": "array", "items": items, "maxItems": max_operations}}, "ops")


def _any_of(forms: list[Json]) -> Json:
    return forms[0] if len(forms) == 1 else {"oneOf": forms}


def _in_batch(verb: str, properties: Json, required: tuple[str, ...]) -> Json:
    return closed({"op": {"const": verb}} | properties, "op", *required)


_ALL = [(verb, *form) for verb, forms in _FORMS.items() for form in forms]
_ACCEPTED: Json = {"type": "integer", "minimum": 0, "description": "How many operations were not refused."}

SCHEMAS: dict[str, Json] = {
    **{name: closed(properties, *required) for _, name, properties, required in _ALL},
    **{f"{name}InBatch": _in_batch(verb, properties, required) for verb, name, properties, required in _ALL},
    **{
        _ANSWERS[verb]: all_of({"root_id": ref("Id"), "state": {"enum": [state.value for state in states]}})
        for verb, states in _STATES.items()
    },
    "FinishedAnswer": all_of(
        {"root_id": ref("Id"), "state": {"const": "finished"}, "outcome": ref("Outcome")},
        description="The root had ended before; nothing was done.",
    ),
    "Results": all_of(
        {
            "accepted": _ACCEPTED,
            "results": {"type": "array", "items": {"enum": [state.value for state in OperationState]}},
        },
        description="One word an operation, in their order.",
    ),
    "Exceptions": all_of(
        {
            "accepted": _ACCEPTED,
            "exceptions": {
                "type": "array",
                "items": all_of(
                    {
                        "index": {"type": "integer", "minimum": 0},
                        "state": {"enum": sorted(state.value for state in REFUSED)},
                    }
                ),
            },
        },
        description="Only the operations that were refused.",
    ),
}
