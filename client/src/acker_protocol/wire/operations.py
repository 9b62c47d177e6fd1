"""Knows the JSON form of the operations, single and in a batch."""

import json
from typing import TYPE_CHECKING, Any

from acker_protocol.ids import fold, format_id
from acker_protocol.messages import Ack, Fail, Init, Message, ResetTimeout
from acker_protocol.problems import Invalid
from acker_protocol.wire import fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Checks = dict[str, Callable[[Any], Any]]

_timeout = fields.integer(fields.TIMEOUT_MS)
_COMMON: "Checks" = {"root_id": fields.identity, "component": fields.name}
_CHECKS: "dict[str, Checks]" = {
    "init": _COMMON
    | {
        "spout_task": fields.name,
        "edges": fields.edges,
        "ack_val": fields.ack_val,
        "outstanding": fields.integer(fields.OUTSTANDING),
        "message_id": fields.message_id,
        "message_timeout_ms": _timeout,
        "progress_timeout_ms": fields.or_zero(_timeout),
    },
    "ack": _COMMON
    | {
        "edge_id": fields.identity,
        "children": fields.edges,
        "ack_val": fields.ack_val,
        "outstanding": fields.integer(fields.OUTSTANDING),
    },
    "fail": _COMMON | {"reason": fields.reason},
    "reset-timeout": _COMMON,
}
VERBS = tuple(_CHECKS)
"""The four operations, as they stand in an address and in ``op``."""


def decode_json(body: bytes) -> dict[str, Any]:
    """Read a body that must be a JSON object in UTF-8. Raises `Invalid`."""
    try:
        document = json.loads(body.decode())
    except (ValueError, RecursionError) as fault:
        raise Invalid(f"the body is not JSON: {fault}") from None
    if not isinstance(document, dict):
        raise Invalid("the body must be a JSON object")
    return document


def decode_operation(verb: str, document: dict[str, Any]) -> Message:
    """Read one operation. Raises `Invalid` that names the field."""
    values = check(document, _CHECKS[verb])
    if "root_id" not in values:
        raise Invalid("root_id is missing")
    match verb:
        case "init":
            return _init(values)
        case "ack":
            return _ack(values)
        case "fail":
            return Fail(**values)
        case _:
            return ResetTimeout(**values)


def decode_batch(document: dict[str, Any], *, most: int) -> list[Message]:
    """Read the operations of a batch, ``most`` at most. Raises `Invalid` with the index of the first malformed one."""
    ops = document.get("ops")
    if set(document) != {"ops"} or not isinstance(ops, list):
        raise Invalid('the body must be {"ops": [...]} and nothing else')
    if len(ops) > most:
        raise Invalid(f"ops must hold at most {most} operations")
    return [_decode_one(index, op) for index, op in enumerate(ops)]


def encode_operation(message: Message) -> dict[str, Any]:
    """Write one operation in its compact form, with its ``op``; what is None is left out."""
    match message:
        case Init():
            return _filled(op="init", **_ids(message), spout_task=message.spout_task, **_optional(message))
        case Ack():
            return _filled(op="ack", **_ids(message), **_optional(message))
        case Fail():
            return _filled(op="fail", **_ids(message), **_optional(message))
        case _:
            return _filled(op="reset-timeout", **_ids(message), **_optional(message))


def encode_batch(messages: "Iterable[Message]") -> bytes:
    """Write a batch."""
    ops = [encode_operation(message) for message in messages]
    return json.dumps({"ops": ops}, separators=(",", ":"), ensure_ascii=False).encode()


def check(document: dict[str, Any], checks: "Checks") -> dict[str, Any]:
    """Check every field that is not null, and that there is no other. Raises `Invalid` that names the field."""
    values = {}
    for key, value in document.items():
        if key not in checks:
            raise Invalid(f"{fields.shown(key)} is not a field here")
        if value is not None:
            try:
                values[key] = checks[key](value)
            except ValueError as fault:
                raise Invalid(f"{key} {fault}") from None
    return values


def _decode_one(index: int, op: Any) -> Message:
    try:
        if not isinstance(op, dict):
            raise Invalid("an operation must be a JSON object")
        verb = op.get("op")
        if not isinstance(verb, str) or verb not in _CHECKS:
            raise Invalid(f"op must be one of {', '.join(VERBS)}")
        return decode_operation(verb, {key: value for key, value in op.items() if key != "op"})
    except Invalid as fault:
        raise Invalid(f"ops[{index}]: {fault.detail}", index=index) from None


def _init(values: dict[str, Any]) -> Init:
    if "spout_task" not in values:
        raise Invalid("spout_task is missing")
    if ("edges" in values) == ("ack_val" in values):
        raise Invalid("an init takes either edges or ack_val")
    edges = values.pop("edges", None)
    if edges is None:
        return Init(**values)
    _refuse_mixture(values)
    return Init(ack_val=fold(edges), outstanding=len(edges), **values)


def _ack(values: dict[str, Any]) -> Ack:
    if "ack_val" in values:
        if "children" in values:
            raise Invalid("an ack takes either children or ack_val")
        return Ack(**values)
    if "edge_id" not in values:
        raise Invalid("an ack takes either edge_id or ack_val")
    _refuse_mixture(values)
    children = values.pop("children", ())
    edges = (values["edge_id"], *children)
    try:
        fields.distinct(edges)
    except ValueError as fault:
        raise Invalid(f"edge_id and children {fault}") from None
    return Ack(ack_val=fold(edges), outstanding=len(children) - 1, **values)


def _refuse_mixture(values: dict[str, Any]) -> None:
    if "outstanding" in values:
        raise Invalid("outstanding goes with ack_val; named edges are counted")


def _ids(message: Message) -> dict[str, str]:
    ids = {"root_id": format_id(message.root_id)}
    if isinstance(message, Init | Ack):
        ids["ack_val"] = format_id(message.ack_val)
    if isinstance(message, Ack) and message.edge_id is not None:
        ids["edge_id"] = format_id(message.edge_id)
    return ids


_OPTIONAL = ("outstanding", "message_id", "message_timeout_ms", "progress_timeout_ms", "reason", "component")


def _optional(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name, None) for name in _OPTIONAL}


def _filled(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
