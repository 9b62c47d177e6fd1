"""Schemas that many endpoints share (ids, names, cursors), and helpers that write schemas."""

from typing import Any

from acker_protocol.ids import format_id
from acker_protocol.wire import fields

Json = dict[str, Any]

_ID = "^[0-9a-f]{16}$"
NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
KEY = "^[!-~]{1,128}$"
NULL: Json = {"type": "null"}

SCHEMAS: dict[str, Json] = {
    "Id": {
        "type": "string",
        "pattern": _ID,
        "not": {"const": format_id(0)},
        "description": "A root id or an edge id: 64 random bits as 16 lowercase hex digits, never zero.",
        "examples": ["5f2c1e0b9a7d4836"],
    },
    "AckVal": {
        "type": "string",
        "pattern": _ID,
        "description": "The XOR of edge ids, as 16 lowercase hex digits; may be zero.",
        "examples": ["00f3a19c5be27d40"],
    },
    "Name": {
        "type": "string",
        "pattern": NAME,
        "description": "A topology, a spout task or a component.",
        "examples": ["orders-1"],
    },
    "MessageId": {
        "type": "string",
        "maxLength": fields.MESSAGE_ID_BYTES,
        "description": f"The spout's own name for a message, at most {fields.MESSAGE_ID_BYTES:,} bytes of UTF-8; "
        "given back as it came.",
    },
    "Reason": {
        "type": "string",
        "maxLength": fields.REASON_CHARACTERS,
        "description": "Why a tuple failed.",
    },
    "Outcome": {"enum": ["acked", "failed", "timed_out"], "description": "How a root ended."},
    "Cursor": {
        "type": "string",
        "description": "Opaque: taken from an answer, given back as it is. A list takes only its own: another's is "
        "422 `invalid`.",
    },
}
"""Shared schemas, by their names in the document."""


def ref(name: str) -> Json:
    """Refer to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def or_null(schema: Json, description: str = "") -> Json:
    """Allow null, which in a request means the same as an absent field."""
    described = {"description": description} if description else {}
    return {"anyOf": [schema, NULL], **described}


def integer(allowed: range, description: str = "") -> Json:
    """An integer of a range."""
    described = {"description": description} if description else {}
    return {"type": "integer", "minimum": allowed.start, "maximum": allowed.stop - 1, **described}


def count(description: str) -> Json:
    """A count in an answer."""
    return {"type": "integer", "minimum": 0, "description": description}


def zero_or(schema: Json, description: str) -> Json:
    """Allow 0 (none) and null (absent)."""
    return {"anyOf": [schema, {"const": 0}, NULL], "description": description}


def closed(properties: Json, *required: str, **more: Any) -> Json:
    """A JSON object of a request, which has no other fields."""
    return opened(properties, *required, **more) | {"additionalProperties": False}


def opened(properties: Json, *required: str, **more: Any) -> Json:
    """A JSON object of an answer, which may have further fields."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, **more}


def all_of(properties: Json, **more: Any) -> Json:
    """A JSON object of an answer in which all fields are required."""
    return opened(properties, *properties, **more)
