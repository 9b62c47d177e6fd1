"""Tells schemathesis what it cannot know of this API: how long to wait, what packed is, what no schema can say.

And has it hold the answers to more than the document promises: they have no field that the document does not name.
"""

import re
from typing import Any

import schemathesis
from acker_protocol.errors import MEDIA_TYPE
from acker_protocol.wire.fields import WAIT_MS
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from hypothesis import strategies as st
from schemathesis.core.failures import Failure
from schemathesis.openapi.checks import RejectedPositiveData

from tests.support.strategies import messages

MOST_WAIT_MS = 20
EVENTS, MOST_EVENTS = "/v1/events", 10_000

UNSAYABLE = re.compile(
    r"cursor is not one that was given here"
    r"|cursor was given by another list"
    r"|discard goes with force=true"
    r"|dedupe_window_ms must be 0 or at least message_timeout_ms"
    r"|message_timeout_ms must not be longer than the dedupe window"
    r"|must not name an edge twice"
    r"|must not name edges that XOR to zero"
    r"|must be at most 1024 bytes of UTF-8"
    r"|callback (url|secret) must"
    r"|callback cannot be pubsub"
    r"|from_ms \d+ is after to_ms \d+"
    r"|has no webhook"
    r"|has no callback"
)
"""Rules of the contract over several fields, over what was given before, and over bytes: a schema has no words for
them, so what schemathesis takes for valid may break them. The document tells them in prose."""

schemathesis.openapi.media_type(CONTENT_TYPE, st.lists(messages, max_size=5).map(encode_packed))


@schemathesis.hook
def before_load_schema(context: schemathesis.HookContext, raw_schema: dict[str, Any]) -> None:
    """Close the objects of answers, hold errors to the codes of their examples, and give packed examples as bytes."""
    parts = raw_schema["components"]
    for name, response in parts["responses"].items():
        narrow(response["content"][MEDIA_TYPE], status=int(name.partition(".")[0]))
    for name, schema in parts["schemas"].items():
        if name != "Problem":
            close(schema)
    close(parts["responses"])
    for operation in operations(raw_schema):
        close(operation["responses"])
    for example in packed_examples(raw_schema):
        example["value"] = example["value"].encode()


def narrow(content: dict[str, Any], *, status: int) -> None:
    """Let an error have no other status, and no other code than one that it has an example of."""
    own = {"type": "object", "properties": {"status": {"const": status}, "code": {"enum": list(content["examples"])}}}
    content["schema"] = {"allOf": [content["schema"], own]}


def close(schema: Any) -> None:
    """Let the objects in here have no more than what is named, unless something else is said of one."""
    match schema:
        case {"allOf": _}:
            schema.setdefault("unevaluatedProperties", False)
        case dict():
            if "properties" in schema and schema.get("type") == "object":
                schema.setdefault("additionalProperties", False)
            for member in schema.values():
                close(member)
        case list():
            for member in schema:
                close(member)


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for item in document["paths"].values() for operation in item.values()]


def packed_examples(document: dict[str, Any]) -> list[dict[str, Any]]:
    bodies = [operation.get("requestBody", {}) for operation in operations(document)]
    contents = [body["content"][CONTENT_TYPE] for body in bodies if CONTENT_TYPE in body.get("content", {})]
    return [example for content in contents for example in content["examples"].values()]


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """Wait shortly wherever the contract lets one wait, and end the stream of live events after one of them."""
    query = dict(case.query or {})
    if MOST_WAIT_MS < (wait_ms := integer(query.get("wait_ms"))) < WAIT_MS.stop:
        case.query = query = query | {"wait_ms": wait_ms % MOST_WAIT_MS}
    if case.operation.path == EVENTS and str(query.get("limit", "2")).isdecimal():
        asked = int(query.get("limit", "2"))
        case.query = {**query, "limit": 1 if 1 <= asked <= MOST_EVENTS else asked}


def integer(value: Any) -> int:
    """Return the integer that a parameter is in any of its forms: a number, or its digits; 0 for all else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0
    return int(number) if number.is_integer() else 0


@schemathesis.hook
def filter_failure(
    context: schemathesis.HookContext, failure: Failure, case: schemathesis.Case, response: schemathesis.Response
) -> bool:
    """Let those requests be refused that break what no schema can say."""
    return not (isinstance(failure, RejectedPositiveData) and UNSAYABLE.search(response.text))
