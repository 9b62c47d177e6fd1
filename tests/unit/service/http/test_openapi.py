"""The contract says what the code says: its addresses, parameters, scopes, limits, states and errors."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from acker_protocol import errors
from acker_protocol.operations import REFUSED, OperationState, Outcome
from acker_protocol.routes import IDEMPOTENCY_KEY
from acker_protocol.signature import COMPLETION_BATCH, COMPLETION_TEST, ID, SIGNATURE, TIMESTAMP, secret_key
from acker_protocol.wire import fields
from acker_service.http import long_poll
from acker_service.http.load_shedding import UNLIMITED_PATHS
from acker_service.http.openapi import read_contract
from acker_service.http.parameters import MAX_DOCUMENT_BYTES
from acker_service.http.problems import RETRY_AFTER_MS, respond
from acker_service.settings import Settings
from acker_service.topologies.callback import URL_CHARACTERS, CallbackStatus
from acker_service.topologies.config import MAX_SPOUT_PENDING
from acker_service.topologies.stats import TOTALS
from hypothesis import given
from hypothesis import strategies as st

from tests.support.declared import declared

Json = dict[str, Any]

JSON = "application/json"
CONTRACT = read_contract()
SCHEMAS, RESPONSES = CONTRACT["components"]["schemas"], CONTRACT["components"]["responses"]

DECLARED = declared()

STATED_MORE_EXACTLY = {"topology", "spout_task", "component", "root_id", IDEMPOTENCY_KEY}
"""Parameters whose schemas the contract shares with bodies."""

OWN_ERRORS = {
    "init": {"conflict", "topology_busy", "too_many_spouts", "max_spout_pending", "mailbox_full", "store_full"},
    "ack": {"store_full"},
    "fail": {"store_full"},
    "batch": {"topology_busy", "too_many_spouts"},
    "put_topology": {"ackers_fixed", "topology_busy", "store_full"},
    "delete_topology": {"topology_busy"},
    "put_spout": {"spout_busy", "too_many_spouts", "store_full"},
    "delete_spout": {"spout_busy"},
    "rotate_secret": {"spout_busy"},
    "resume_callback": {"spout_busy"},
    "list_roots": {"unknown_spout"},
    "stream_events": {"too_many_streams"},
    "pause_callback": {"spout_busy"},
    "get_root": {"unknown_root"},
    "get_tree": {"unknown_root"},
    "fail_root": {"unknown_root"},
    "release_completions": {"mailbox_owned"},
}
"""Errors that do not follow from an address, a key or a body, by operation."""


@given(st.binary(min_size=20, max_size=70), st.sampled_from(["", *"AQgwBEIM08-_"]), st.sampled_from(["", "=", "=="]))
def test_the_patterns_of_a_secret_accept_what_is_accepted(key: bytes, last: str, padding: str) -> None:
    encoded = base64.b64encode(key).decode().rstrip("=") + last + padding
    try:
        accepted = bool(secret_key(f"whsec_{encoded}"))
    except ValueError:
        accepted = False
    given, *_ = SCHEMAS["WebhookChange"]["properties"]["secret"]["anyOf"]
    for schema in (given, SCHEMAS["Callback"]["properties"]["secret"]):
        assert bool(re.fullmatch(schema["pattern"], f"whsec_{encoded}")) is accepted


def operations(document: Json) -> dict[str, Json]:
    """The operations by method and path."""
    paths = document["paths"].items()
    return {f"{method} {path}": operation for path, item in paths for method, operation in item.items()}


OPERATIONS = operations(CONTRACT)
KEYS = sorted(OPERATIONS)
NAMES = sorted(RESPONSES)


def plain(schema: Json) -> Json:
    """The schema of a parameter as a route declares it, without what only FastAPI adds: titles, and null for absent."""
    kept = {name: value for name, value in schema.items() if name not in ("title", "description", "anyOf")}
    for choice in schema.get("anyOf", ()):
        if choice != {"type": "null"}:
            kept |= choice
    return kept


def nodes(node: Any) -> Iterator[Json]:
    """All objects of a document."""
    if isinstance(node, dict):
        yield node
    for member in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(member)


def test_it_has_the_addresses_of_the_routes() -> None:
    assert OPERATIONS.keys() == operations(DECLARED).keys()


@pytest.mark.parametrize("key", KEYS)
def test_an_operation_has_the_parameters_of_its_route(key: str) -> None:
    declared = operations(DECLARED)[key].get("parameters", [])
    written = OPERATIONS[key].get("parameters", [])
    assert [(p["name"], p["in"], p["required"]) for p in written] == [
        (p["name"], p["in"], p["required"]) for p in declared
    ]
    for one, other in zip(written, declared, strict=True):
        assert one["name"] in STATED_MORE_EXACTLY or one["schema"] == plain(other["schema"])


@pytest.mark.parametrize("key", KEYS)
def test_an_operation_has_the_scope_and_the_tags_of_its_route(key: str) -> None:
    declared, written = operations(DECLARED)[key], OPERATIONS[key]
    assert written["security"] == declared.get("security", [])
    assert written["tags"] == declared["tags"]


@pytest.mark.parametrize("key", KEYS)
def test_an_operation_has_its_own_errors_and_those_of_its_address_key_and_body(key: str) -> None:
    operation, path = OPERATIONS[key], key.split(" ")[1]
    said = {code for one in operation["responses"].values() if "$ref" in one for code in codes(one["$ref"])}
    expected = {"invalid", "too_large", "problem"} | OWN_ERRORS.get(operation["operationId"], set())
    if path not in UNLIMITED_PATHS:
        expected |= {"overloaded"}
    if operation["security"]:
        expected |= {"unauthorized", "forbidden", "store_unavailable"}
    if "{topology}" in path:
        expected |= {"not_found", "unknown_topology"}
    if "{spout_task}" in path:
        expected |= {"unknown_spout"}
    if "requestBody" in operation:
        expected |= {"unsupported_media_type"}
    assert said == expected


def codes(reference: str) -> list[str]:
    """The codes of a response, by a reference to it; its name begins with the status."""
    status, *some = reference.rpartition("/")[2].split(".")
    assert status.isdecimal()
    return some


@pytest.mark.parametrize("name", NAMES)
def test_an_error_refers_to_the_one_schema_of_errors_and_shows_its_codes(name: str) -> None:
    response, (status, *some) = RESPONSES[name], name.split(".")
    content = response["content"][errors.MEDIA_TYPE]
    assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
    assert list(content["examples"]) == some
    for code in some:
        kind, example = errors.known()[code], content["examples"][code]
        document = json.loads(bytes(respond(kind(example["value"]["detail"])).body))
        assert example == {"summary": kind.title, "value": document | {"status": int(status)}}
        assert f"- `{code}`: {example['value']['detail']}" in response["description"].splitlines()
    waits = all(code in RETRY_AFTER_MS for code in some)
    assert ("Retry-After" in response.get("headers", {})) == waits


def test_every_body_of_a_request_has_a_name() -> None:
    bodies = [operation["requestBody"]["content"][JSON] for operation in nodes(CONTRACT) if "requestBody" in operation]
    assert bodies
    assert all(body["schema"].keys() == {"$ref"} for body in bodies)


def test_an_operation_of_a_batch_is_told_by_its_op() -> None:
    mapping = SCHEMAS["BatchOperation"]["discriminator"]["mapping"]
    assert SCHEMAS["BatchOperation"]["oneOf"] == [{"$ref": reference} for reference in mapping.values()]
    for op, reference in mapping.items():
        assert SCHEMAS[reference.rpartition("/")[2]]["properties"]["op"] == {"type": "string", "const": op}


def test_its_limits_are_those_of_the_code() -> None:
    timeout, topology, init = span(fields.TIMEOUT_MS), SCHEMAS["Topology"]["properties"], SCHEMAS["Init"]["properties"]
    assert topology["message_timeout_ms"] == init["message_timeout_ms"]["anyOf"][0] == timeout
    none_or_timeout = timeout | {"minimum": 0, "not": {"minimum": 1, "maximum": timeout["minimum"] - 1}}
    assert topology["dedupe_window_ms"] == topology["progress_timeout_ms"]["anyOf"][0] == none_or_timeout
    assert init["progress_timeout_ms"]["anyOf"][0] == none_or_timeout
    assert topology["ackers"] == span(fields.ACKERS)
    assert topology["retention_ms"] == span(fields.RETENTION_MS)
    assert topology["max_spout_pending"]["anyOf"][0] == span(MAX_SPOUT_PENDING)
    outstanding = (SCHEMAS[name]["properties"]["outstanding"] for name in ("Init", "Ack", "PendingRoot", "EarlyRoot"))
    assert all(one["anyOf"][0] == span(fields.OUTSTANDING) for one in outstanding)
    change = SCHEMAS["TopologyChange"]["properties"]
    for name, schema in change.items():
        shown = topology[name].get("anyOf", [topology[name]])[0]
        assert change[name]["anyOf"] == [shown, {"type": "null"}], schema
    assert SCHEMAS["MessageId"]["maxLength"] == fields.MESSAGE_ID_BYTES
    assert SCHEMAS["Reason"]["maxLength"] == fields.REASON_CHARACTERS
    for name in ("WebhookChange", "Callback"):
        assert SCHEMAS[name]["properties"]["url"]["maxLength"] == URL_CHARACTERS
    assert SCHEMAS["Batch"]["properties"]["ops"]["maxItems"] == Settings().max_batch
    sizes = f"at most {Settings().max_body_bytes >> 20} MiB", f"at most {MAX_DOCUMENT_BYTES >> 10} KiB"
    assert all(size in CONTRACT["info"]["description"] for size in sizes)
    reading = OPERATIONS["get /v1/topologies/{topology}/spouts/{spout_task}/completions"]
    assert f"a comment every {long_poll.HEARTBEAT_S:g} s" in reading["description"]


def span(allowed: range) -> Json:
    """The schema of an integer of a range."""
    return {"type": "integer", "minimum": allowed.start, "maximum": allowed.stop - 1}


def test_its_words_are_those_of_the_code() -> None:
    refused = SCHEMAS["BatchExceptionsAnswer"]["properties"]["exceptions"]["items"]["properties"]["state"]
    assert SCHEMAS["BatchAnswer"]["properties"]["results"]["items"]["enum"] == [one.value for one in OperationState]
    assert set(refused["enum"]) == {one.value for one in REFUSED}
    assert set(SCHEMAS["Outcome"]["enum"]) == {one.value for one in Outcome}
    assert SCHEMAS["Callback"]["properties"]["state"]["enum"] == [one.value for one in CallbackStatus]
    assert list(SCHEMAS["Topology"]["properties"]["counts"]["properties"]) == list(TOTALS)
    assert SCHEMAS["CompletionBatch"]["properties"]["type"]["enum"] == [COMPLETION_BATCH, COMPLETION_TEST]
    callbacks = OPERATIONS["put /v1/topologies/{topology}/spouts/{spout_task}"]["callbacks"]["completions"]
    (posted,) = (item["post"] for item in callbacks.values())
    assert [header["name"] for header in posted["parameters"]] == [ID, TIMESTAMP, SIGNATURE]
