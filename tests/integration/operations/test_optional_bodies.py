"""A request whose fields are all optional may leave its body out, whatever content type it names."""

from collections.abc import AsyncIterator

import httpx
import pytest
from acker_service.http.openapi import read_contract

from tests.support.caller import Caller, init

pytestmark = pytest.mark.anyio

NAMES = {"topology": "default", "spout_task": "orders", "root_id": "00000000000000a1"}
ADDRESSES = [
    f"{method.upper()} {path.format_map(NAMES)}"
    for path, item in read_contract()["paths"].items()
    for method, operation in item.items()
    if method in ("post", "put") and not operation.get("requestBody", {}).get("required", False)
]
"""All requests of the contract that need no body."""
REQUIRED = ["POST /v1/topologies/default/init", "POST /v1/topologies/default/batch"]
CONTENT_TYPES = [
    "",
    "application/json",
    "application/json; charset=utf-8",
    "application/x-www-form-urlencoded",
    "text/plain",
]


async def no_chunks() -> AsyncIterator[bytes]:
    """A body of unknown length that has nothing."""
    for chunk in ():
        yield chunk


async def send(call: Caller, asked: str, **request: object) -> httpx.Response:
    method, path = asked.split(" ")
    await call.put_spout(callback={"kind": "webhook", "url": "https://example.com/hook"})
    await call.state(init(0xA1, 0xE1))
    return await call.http.request(method, path, **request)  # type: ignore[arg-type]


def test_there_are_such_requests() -> None:
    assert {"PUT /v1/topologies/default", "POST /v1/topologies/default/spouts/orders/dead-letters/replay"} <= {
        *ADDRESSES
    }


@pytest.mark.parametrize("content_type", CONTENT_TYPES)
@pytest.mark.parametrize("asked", [each for each in ADDRESSES if not each.endswith("/test")])
async def test_a_request_without_a_body_is_one_of_an_empty_object(call: Caller, asked: str, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    for content in (b"", no_chunks()):
        answer = await send(call, asked, content=content, headers=headers)
        assert answer.is_success, answer.text


@pytest.mark.parametrize("asked", REQUIRED)
async def test_a_body_that_is_required_may_not_be_left_out(call: Caller, asked: str) -> None:
    answer = await send(call, asked, content=b"", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
