"""A JSON number without a fraction is an integer, however it is written: 30000, 30000.0, 3e4."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from acker_service.http.openapi import read_contract

from tests.support.caller import Caller, init

pytestmark = pytest.mark.anyio

CONTRACT = read_contract()
DEFAULT = "/v1/topologies/default"
ROOT, EDGE = "00000000000000a1", "00000000000000e1"
JSON = {"Content-Type": "application/json"}
LARGE = " " * 70_000
"""Bodies above 64 KiB have their shape checked before they are built."""

TOPOLOGY = f"PUT {DEFAULT}"
INIT = {"root_id": ROOT, "spout_task": "orders", "ack_val": EDGE}
ACK = {"root_id": ROOT, "ack_val": EDGE}
DEAD_LETTERS = f"POST {DEFAULT}/spouts/orders/dead-letters"


@dataclass(frozen=True, kw_only=True)
class Field:
    """An integer of a request: which request, what else is in it, and a value that the contract allows."""

    asked: str
    name: str
    value: int
    beside: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.asked}-{self.name}-{self.value}"

    def body(self, number: str, *, space: str = "") -> bytes:
        """Write the request with the number as it is given."""
        return self.document(number).replace("{", "{" + space, 1).encode()

    def batch(self, number: str, *, space: str = "") -> bytes:
        """Write a batch of the one operation."""
        verb = self.asked.rpartition("/")[2]
        return f'{{"ops": [{space}{self.document(number, op=verb)}]}}'.encode()

    def document(self, number: str, **more: str) -> str:
        return json.dumps(more | self.beside | {self.name: "NUMBER"}).replace('"NUMBER"', number)


OPERATIONS = [
    Field(asked=f"POST {DEFAULT}/init", name="outstanding", value=1, beside=INIT),
    Field(asked=f"POST {DEFAULT}/init", name="message_timeout_ms", value=30_000, beside=INIT),
    Field(asked=f"POST {DEFAULT}/init", name="progress_timeout_ms", value=20_000, beside=INIT),
    Field(asked=f"POST {DEFAULT}/init", name="progress_timeout_ms", value=0, beside=INIT),
    Field(asked=f"POST {DEFAULT}/ack", name="outstanding", value=-1, beside=ACK),
]
DOCUMENTS = [
    Field(asked=TOPOLOGY, name="ackers", value=4, beside={}),
    Field(asked=TOPOLOGY, name="message_timeout_ms", value=30_000, beside={}),
    Field(asked=TOPOLOGY, name="progress_timeout_ms", value=20_000, beside={}),
    Field(asked=TOPOLOGY, name="progress_timeout_ms", value=0, beside={}),
    Field(asked=TOPOLOGY, name="max_spout_pending", value=1_000, beside={}),
    Field(asked=TOPOLOGY, name="dedupe_window_ms", value=60_000, beside={}),
    Field(asked=TOPOLOGY, name="dedupe_window_ms", value=0, beside={}),
    Field(asked=TOPOLOGY, name="retention_ms", value=60_000, beside={}),
    Field(asked=TOPOLOGY, name="grace_ms", value=10_000, beside={}),
    Field(asked=f"{DEAD_LETTERS}/replay", name="from_ms", value=1_000, beside={}),
    Field(asked=f"{DEAD_LETTERS}/discard", name="to_ms", value=1_000, beside={}),
]
NO_INTEGERS = ["1.5", "1e400", "NaN", "Infinity", '"1000.0"', "true", "[1000.0]"]


def as_others_write_it(value: int) -> Iterator[str]:
    """Write an integer as libraries of other languages do."""
    yield f"{value}.0"
    yield f"{value}.000"
    yield f"{value}e0"
    yield f"{value * 100}E-2"
    if value and value % 1_000 == 0:
        yield f"{value // 1_000}e+3"


async def send(call: Caller, asked: str, body: bytes) -> httpx.Response:
    method, path = asked.split(" ")
    return await call.http.request(method, path, content=body, headers=JSON)


def integers(schema: Any) -> Iterator[str]:
    """The names of the integers of a request's schema."""
    reference = schema.get("$ref")
    if reference:
        schema = CONTRACT["components"]["schemas"][reference.rpartition("/")[2]]
    for part in ("allOf", "oneOf", "anyOf"):
        for each in schema.get(part, ()):
            yield from integers(each)
    for name, each in schema.get("properties", {}).items():
        kinds = [one.get("type") for one in (each, *each.get("anyOf", ()), *each.get("oneOf", ()))]
        if "integer" in kinds or ["integer", "null"] in kinds or "_ms" in name:
            yield name


def test_every_integer_of_a_request_is_tried_here() -> None:
    bodies = [operation.get("requestBody") for item in CONTRACT["paths"].values() for operation in item.values()]
    schemas = [body["content"]["application/json"]["schema"] for body in bodies if body]
    found = {name for schema in schemas for name in integers(schema)}
    assert found == {field.name for field in (*OPERATIONS, *DOCUMENTS)}


@pytest.mark.parametrize("field", OPERATIONS, ids=str)
async def test_an_operation_takes_it_alone_and_in_a_batch(call: Caller, field: Field) -> None:
    expected, roots = await effect(call, field, str(field.value), 1), iter(range(2, 100))
    for number in as_others_write_it(field.value):
        for space in ("", LARGE):
            assert await effect(call, field, number, next(roots), space=space) == expected, number
            assert await effect(call, field, number, next(roots), space=space, in_batch=True) == expected, number


async def effect(
    call: Caller, field: Field, number: str, root: int, *, space: str = "", in_batch: bool = False
) -> tuple[str, int]:
    """Send an operation on a root of its own; give the state that answers it, and the count that the root has then."""
    if field.asked.endswith("ack"):
        await call.state(init(root, 0xE2, 0xE3))
    write = field.batch if in_batch else field.body
    asked = f"POST {DEFAULT}/batch" if in_batch else field.asked
    answer = await send(call, asked, write(number, space=space).replace(ROOT.encode(), f"{root:016x}".encode()))
    assert answer.status_code == 200, answer.text
    state = answer.json()["results"][0] if in_batch else answer.json()["state"]
    return state, (await call.root(root))["outstanding"]


@pytest.mark.parametrize("field", DOCUMENTS, ids=str)
async def test_a_document_takes_it(call: Caller, field: Field) -> None:
    await call.put_spout()
    expected = await send(call, field.asked, field.body(str(field.value)))
    assert expected.is_success, expected.text
    for number in as_others_write_it(field.value):
        answer = await send(call, field.asked, field.body(number))
        assert (answer.is_success, answer.text) == (True, expected.text), number


@pytest.mark.parametrize("number", NO_INTEGERS)
@pytest.mark.parametrize("field", [*OPERATIONS, *DOCUMENTS], ids=str)
async def test_what_is_no_integer_is_refused(call: Caller, field: Field, number: str) -> None:
    await call.put_spout()
    answer = await send(call, field.asked, field.body(number))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
