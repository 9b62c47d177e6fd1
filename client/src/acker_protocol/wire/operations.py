"""The JSON form of the operations, single and in a batch."""

import json
from typing import TYPE_CHECKING, Any

from acker_protocol.errors import InvalidRequest
from acker_protocol.ids import fold, format_id
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire import fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Checks = dict[str, Callable[[Any], Any]]

CONTENT_TYPE = "application/json"

_timeout = fields.integer(fields.TIMEOUT_MS)
_COMMON: "Checks" = {"root_id": fields.identity, "component": fields.name}
_ENDED: "Checks" = {
    "edge_id": fields.identity,
    "children": fields.edges,
    "ack_val": fields.ack_val,
    "outstanding": fields.integer(fields.OUTSTANDING),
}
"""The fields of an edge that ended."""
_CHECKS: "dict[str, Checks]" = {
    "init": _COMMON
    | {
        "spout_task": fields.name,
        "edges": fields.edges,
        "ack_val": fields.ack_val,
        "outstanding": fields.integer(fields.OUTSTANDING),
        "message_id": fields.message_id,
        "message_timeout_ms": _timeout,
        "progress_timeout_ms": fields.allow_zero(_timeout),
        "trace": fields.boolean,
        "traceparent": fields.traceparent,
        "end_on": fields.end_on,
    },
    "ack": _COMMON | _ENDED | {"dropped": fields.boolean},
    "fail": _COMMON | _ENDED | {"reason": fields.reason},
    "reset-timeout": _COMMON,
}
VERBS = tuple(_CHECKS)
"""The names of the four operations, in a path and in ``op``."""
FIELDS = frozenset({"op"}.union(*_CHECKS.values()))
"""The names of all fields that an operation of any kind may have."""


def decode_json(body: bytes) -> dict[str, Any]:
    """Read a body that must be a JSON object in UTF-8. Raises `InvalidRequest`."""
    try:
        document = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidRequest("the body must be a JSON object")
    return document


def decode_operation(verb: str, document: dict[str, Any]) -> Operation:
    """Read one operation. Raises `InvalidRequest` that names the field."""
    values = check(document, _CHECKS[verb])
    if "root_id" not in values:
        raise InvalidRequest("root_id is missing")
    match verb:
        case "init":
            return _init(values)
        case "ack":
            return Ack(**_ended_edge(values, "an ack"))
        case "fail":
            return Fail(**_ended_edge(values, "a fail") if values.keys() & _ENDED else values)
        case _:  # reset-timeout
            return ResetTimeout(**values)


def decode_batch(document: dict[str, Any], *, max_operations: int) -> list[Operation]:
    """Read the operations of a batch, at most ``max_operations``.

    Raises `InvalidRequest`, with the index of the first malformed operation if there is one.
    """
    ops = document.get("ops")
    if set(document) != {"ops"} or not isinstance(ops, list):
        raise InvalidRequest('the body must be {"ops": [...]} and nothing else')
    if len(ops) > max_operations:
        raise InvalidRequest(f"ops must hold at most {max_operations} operations")
    return [_decode_one(index, op) for index, op in enumerate(ops)]


def encode_operation(operation: Operation) -> dict[str, Any]:
    """Write one operation with its ``op``, in its compact form unless it names its edges; what is None is left out."""
    match operation:
        case Init():
            ids, trace = _ids(operation), operation.trace or None
            return _without_none(op="init", **ids, spout_task=operation.spout_task, **_optional(operation), trace=trace)
        case Ack():
            return _write_ack(operation)
        case Fail():
            return _without_none(op="fail", **_ids(operation), **_optional(operation))
        case _:  # ResetTimeout
            return _without_none(op="reset-timeout", **_ids(operation), **_optional(operation))


def encode_batch(operations: "Iterable[Operation]") -> bytes:
    """Write a batch."""
    ops = [encode_operation(operation) for operation in operations]
    return json.dumps({"ops": ops}, separators=(",", ":"), ensure_ascii=False).encode()


def check(document: dict[str, Any], checks: "Checks") -> dict[str, Any]:
    """Check every field that is not null, and that there is no other. Raises `InvalidRequest` that names the field."""
    values = {}
    for key, value in document.items():
        if key not in checks:
            raise InvalidRequest(f"{fields.abbreviate(key)} is not a field here")
        if value is not None:
            try:
                values[key] = checks[key](value)
            except ValueError as error:
                raise InvalidRequest(f"{key} {error}") from None
    return values


def _decode_one(index: int, op: Any) -> Operation:
    try:
        if not isinstance(op, dict):
            raise InvalidRequest("an operation must be a JSON object")
        verb = op.get("op")
        if not isinstance(verb, str) or verb not in _CHECKS:
            raise InvalidRequest(f"op must be one of {', '.join(VERBS)}")
        return decode_operation(verb, {key: value for key, value in op.items() if key != "op"})
    except InvalidRequest as error:
        raise InvalidRequest(f"ops[{index}]: {error.detail}", index=index) from None


def _init(values: dict[str, Any]) -> Init:
    if "spout_task" not in values:
        raise InvalidRequest("spout_task is missing")
    if ("edges" in values) == ("ack_val" in values):
        raise InvalidRequest("an init takes either edges or ack_val")
    edges = values.pop("edges", None)
    if not values.get("trace", True):
        del values["trace"]
    if edges is None:
        return Init(**values)
    _check_no_outstanding(values)
    return Init(ack_val=fold(edges), outstanding=len(edges), edges=edges, **values)


def _ended_edge(values: dict[str, Any], verb: str) -> dict[str, Any]:
    """Return the fields of an ack, or of a fail that ends an edge, with the ack val and the count of what it names."""
    if "ack_val" in values:
        if "children" in values:
            raise InvalidRequest(f"{verb} takes either children or ack_val")
        return values
    if "edge_id" not in values:
        raise InvalidRequest(f"{verb} takes either edge_id or ack_val")
    _check_no_outstanding(values)
    children = values.pop("children", ())
    edges = (values["edge_id"], *children)
    try:
        fields.check_distinct(edges)
    except ValueError as error:
        raise InvalidRequest(f"edge_id and children {error}") from None
    return values | {"ack_val": fold(edges), "outstanding": len(children) - 1, "children": children}


def _check_no_outstanding(values: dict[str, Any]) -> None:
    if "outstanding" in values:
        raise InvalidRequest("outstanding goes with ack_val; named edges are counted")


def _ids(operation: Operation) -> dict[str, Any]:
    ids: dict[str, Any] = {"root_id": format_id(operation.root_id)}
    names = names_of(operation)
    if isinstance(operation, Init | Fail) and names is None and operation.ack_val is not None:
        ids["ack_val"] = format_id(operation.ack_val)
    if isinstance(operation, Fail) and operation.edge_id is not None:
        ids["edge_id"] = format_id(operation.edge_id)
    if names is not None:
        ids["edges" if isinstance(operation, Init) else "children"] = [format_id(name) for name in names]
    return ids


def _write_ack(ack: Ack) -> dict[str, Any]:
    """Write an ack, without the steps of the others: it is what is written most."""
    document: dict[str, Any] = {"op": "ack", "root_id": format_id(ack.root_id)}
    if ack.children is None:
        document["ack_val"] = format_id(ack.ack_val)
    if ack.edge_id is not None:
        document["edge_id"] = format_id(ack.edge_id)
    if ack.children is not None:
        document["children"] = [format_id(child) for child in ack.children]
    elif ack.outstanding is not None:
        document["outstanding"] = ack.outstanding
    if ack.component is not None:
        document["component"] = ack.component
    if ack.dropped:
        document["dropped"] = True
    return document


def names_of(operation: Operation) -> tuple[int, ...] | None:
    """Return the edges of an init or the children of an ack or a fail, where these are named."""
    match operation:
        case Init(edges=names) | Ack(children=names) | Fail(children=names):
            return names
        case _:
            return None


_OPTIONAL = (
    *("outstanding", "message_id", "message_timeout_ms", "progress_timeout_ms", "reason", "component"),
    *("traceparent", "end_on"),
)


def _optional(operation: Operation) -> dict[str, Any]:
    values = {name: getattr(operation, name, None) for name in _OPTIONAL}
    if names_of(operation) is not None:
        del values["outstanding"]  # named edges are counted
    return values


def _without_none(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
