"""A packed batch whose records share long texts counts as large as it becomes when it is unpacked."""

from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from acker_protocol import routes
from acker_protocol.errors import MEDIA_TYPE
from acker_protocol.operations import Ack, Fail, Init, Operation
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.components import Components

from tests.support.caller import Caller, init
from tests.support.dump import dump
from tests.support.redis_side import used_memory
from tests.support.servers import acker_serve

pytestmark = pytest.mark.anyio

MAX_BATCH = 10_000
MAX_BODY_BYTES = 4_194_304
MEGABYTE = 1_000_000
E = 9
LONGEST_REASON = "😀" * 1_024
LONGEST_MESSAGE_ID = "m" * 1_024

Batch = Sequence[Operation]


def fails(count: int, reason: str) -> Batch:
    return [Fail(root_id=root, reason=reason) for root in range(1, count + 1)]


def inits(count: int, message_id: str) -> Batch:
    return [
        Init(root_id=root, spout_task="orders", ack_val=E, outstanding=1, message_id=message_id)
        for root in range(1, count + 1)
    ]


def mixed(count: int) -> Batch:
    """Acks that carry little, and fails that carry much: only the sum is too large."""
    acks = [Ack(root_id=root, ack_val=E, component="c" * 128) for root in range(1, count + 1)]
    return [*acks, *fails(count, LONGEST_REASON)]


TOO_LARGE = {
    "fails that share a reason": fails(MAX_BATCH, LONGEST_REASON),
    "fewer of them": fails(1_100, LONGEST_REASON),
    "inits that share a message id": inits(MAX_BATCH, LONGEST_MESSAGE_ID),
    "fails among acks": mixed(2_000),
    "two texts by turns": [*fails(3_000, "a" * 1_024), *fails(3_000, "b" * 1_024)],
}


async def post(call: Caller, operations: Batch, *, key: str | None = None) -> httpx.Response:
    body = encode_packed(operations)
    assert len(body) < MAX_BODY_BYTES, "as it is sent it is small"
    headers = {"Content-Type": CONTENT_TYPE} | ({} if key is None else {routes.IDEMPOTENCY_KEY: key})
    return await call.http.post(routes.operation("default", "batch"), content=body, headers=headers)


@pytest.mark.parametrize("key", [None, "k"], ids=["without a key", "with a key"])
@pytest.mark.parametrize("operations", TOO_LARGE.values(), ids=TOO_LARGE.keys())
async def test_a_batch_that_unpacks_to_more_than_a_body_may_have_is_too_large(
    call: Caller, parts: Components, operations: Batch, key: str | None
) -> None:
    await call.post(init(MAX_BATCH + 1, E))
    before = await dump(parts)
    answer = await post(call, operations, key=key)
    assert (answer.status_code, answer.headers["content-type"]) == (413, MEDIA_TYPE)
    assert (answer.json()["code"], answer.json()["retryable"]) == ("too_large", False)
    assert await dump(parts) == before


async def test_such_batches_sent_again_and_again_fill_no_memory(call: Caller, parts: Components) -> None:
    await call.post(init(MAX_BATCH + 1, E))
    before = await used_memory(parts)
    for attempt in range(3):
        await post(call, fails(MAX_BATCH, LONGEST_REASON), key=str(attempt))
    assert await used_memory(parts) - before < 4 * MEGABYTE


SMALL_ENOUGH = {
    "records without texts": [Ack(root_id=root, ack_val=E) for root in range(1, MAX_BATCH + 1)],
    "a short reason for all": fails(MAX_BATCH, "card service timed out"),
    "a long reason for some": fails(900, LONGEST_REASON),
    "a component of the greatest length for all": [
        Fail(root_id=root, component="c" * 128) for root in range(1, MAX_BATCH + 1)
    ],
    "a spout task of the greatest length for all": [
        Init(root_id=root, spout_task="s" * 128, ack_val=E) for root in range(1, MAX_BATCH + 1)
    ],
}


@pytest.mark.parametrize("operations", SMALL_ENOUGH.values(), ids=SMALL_ENOUGH.keys())
async def test_texts_may_be_shared_as_long_as_the_whole_is_no_larger_than_a_body(
    call: Caller, operations: Batch
) -> None:
    answer = await post(call, operations)
    assert answer.status_code == 200, answer.text
    assert answer.json()["accepted"] == len(operations)


async def test_a_batch_that_shares_nothing_may_be_as_large_as_a_body(call: Caller) -> None:
    operations = [
        Init(root_id=root, spout_task="orders", ack_val=E, message_id=f"{root:01000}") for root in range(1, 3_900)
    ]
    body = encode_packed(operations)
    assert 0.98 * MAX_BODY_BYTES < len(body) <= MAX_BODY_BYTES
    headers = {"Content-Type": CONTENT_TYPE}
    answer = await call.http.post(routes.operation("default", "batch"), content=body, headers=headers)
    assert answer.status_code == 200, answer.text


async def test_an_operation_that_is_not_valid_is_pointed_at_in_a_batch_of_any_size(call: Caller) -> None:
    answer = await post(call, [*fails(5, "short"), Fail(root_id=0, reason="short")])
    assert (answer.status_code, answer.json()["index"]) == (422, 5)


def test_the_bound_is_the_one_that_is_set(tmp_path: Path, valkey_url: str) -> None:
    with acker_serve(tmp_path, "--redis-url", valkey_url, "--max-body-bytes", "20000") as acker:
        for count, status in ((15, 200), (25, 413)):
            body, headers = encode_packed(fails(count, "r" * 1_000)), {"Content-Type": CONTENT_TYPE}
            answer = acker.http.post(routes.operation("default", "batch"), content=body, headers=headers)
            assert answer.status_code == status, answer.text
