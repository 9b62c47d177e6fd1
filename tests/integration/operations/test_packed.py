"""The packed form over HTTP on a real Valkey: it does what JSON does, and malformed it does nothing."""

from typing import Any

import httpx
import pytest
from acker_protocol import routes
from acker_protocol.errors import MEDIA_TYPE
from acker_protocol.operations import Ack, Operation
from acker_protocol.wire.operations import decode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, RECORD, encode_packed
from acker_service.components import Components

from tests.integration.operations.test_operations import ROWS, Row
from tests.support.caller import Caller, Document, ack, compact_ack, compact_init, fail, init, reset_timeout
from tests.support.dump import dump

pytestmark = pytest.mark.anyio

R, S, T = 0xA1, 0xB2, 0xC3
E, F = 0xE1, 0xE2


def packed(*ops: Document) -> bytes:
    return encode_packed(decode_batch({"ops": list(ops)}, max_operations=10_000))


async def post(
    call: Caller, body: bytes, *, key: str | None = None, kind: str = CONTENT_TYPE, **query: str
) -> httpx.Response:
    headers = {"Content-Type": kind} | ({} if key is None else {routes.IDEMPOTENCY_KEY: key})
    return await call.http.post(routes.operation(call.topology, "batch"), content=body, headers=headers, params=query)


async def states(call: Caller, *ops: Document) -> list[str]:
    answer = await post(call, packed(*ops))
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"])


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
async def test_what_each_order_does_in_one_packed_batch(api: httpx.AsyncClient, row: Row) -> None:
    fresh = Caller(api, "fresh")
    await fresh.put(**row.topology)
    assert await states(fresh, *row.ops) == row.states.split()
    assert sorted(await fresh.outcomes()) == sorted(row.outcomes)


async def test_names_texts_and_timeouts_arrive(call: Caller, parts: Components) -> None:
    long = "long " * 200
    await states(
        call,
        init(R, E, message_id="№ 1", component="shop", message_timeout_ms=100, progress_timeout_ms=0),
        init(S, E, message_id=long, message_timeout_ms=600_000),
        init(T, E, spout_task="others", message_id=""),
        fail(S, reason="no — never", component="count"),
        fail(T, reason=""),
    )
    outcomes = {
        done["root_id"]: done for name in ("orders", "others") for done in (await call.completions(name))["completions"]
    }
    assert {(done["message_id"], done["reason"], done["component"]) for done in outcomes.values()} == {
        (long, "no — never", "count"),
        ("", "", None),
    }
    pending = await call.root(R)
    assert (pending["message_id"], pending["outstanding"], pending["spout_task"]) == ("№ 1", 1, "orders")


async def test_only_exceptions_are_told_if_asked_for(call: Caller) -> None:
    await call.put(max_spout_pending=2)
    ops = (init(R, E), init(R, E, message_id="another"), init(S, E), init(T, E), ack(0xD4, E))
    answer = await post(call, packed(*ops), results="exceptions")
    assert answer.json() == {
        "accepted": 3,
        "exceptions": [{"index": 1, "state": "conflict"}, {"index": 3, "state": "max_spout_pending"}],
    }
    answer = await post(call, packed(reset_timeout(S)), results="exceptions")
    assert answer.json() == {"accepted": 1, "exceptions": []}


async def test_an_empty_batch_is_answered(call: Caller) -> None:
    assert (await post(call, packed())).json() == {"accepted": 0, "results": []}


@pytest.mark.parametrize("first", [CONTENT_TYPE, "application/json"])
async def test_a_request_is_the_same_in_either_form_and_one_by_one(call: Caller, first: str) -> None:
    ops = [init(R, E, F, message_id="1"), ack(S, E), compact_init(T, E), compact_ack(T, F, outstanding=-1), fail(S)]

    async def send(kind: str) -> httpx.Response:
        return await (post(call, packed(*ops), key="k") if kind == CONTENT_TYPE else call.batch(*ops, key="k"))

    assert routes.IDEMPOTENCY_REPLAYED not in (await send(first)).headers
    for kind in (CONTENT_TYPE, "application/json"):
        again = await send(kind)
        assert again.headers[routes.IDEMPOTENCY_REPLAYED] == "true"
    other = await post(call, packed(*ops[:-1]), key="k")
    assert routes.IDEMPOTENCY_REPLAYED not in other.headers


async def test_an_edge_is_the_same_in_a_packed_batch_and_in_a_call_of_its_own(call: Caller) -> None:
    await call.put(dedupe_window_ms=60_000)
    await call.states(init(R, E, F))
    assert await states(call, ack(R, E)) == ["pending"]
    assert await call.state(ack(R, E)) == "duplicate"
    assert await call.state(ack(R, F)) == "acked"
    await call.states(init(S, E, F), init(T, E))
    assert await call.state(ack(S, E)) == "pending"
    assert await states(call, ack(S, E), reset_timeout(S), ack(T, E, component="c")) == [
        "duplicate",
        "pending",
        "acked",
    ]


async def test_many_operations_go_to_their_shards_and_their_answers_come_back_in_order(call: Caller) -> None:
    inits = [init(root, E, message_id=str(root)) for root in range(1, 301)]
    acks = [ack(root, E) for root in range(300, 0, -2)]
    unknown = [reset_timeout(root) for root in range(1_000, 1_050)]
    assert await states(call, *inits, *unknown, *acks) == ["pending"] * 300 + ["unknown"] * 50 + ["acked"] * 150
    assert sorted(await call.outcomes(limit=1_000)) == [(root, "acked") for root in range(2, 301, 2)]


MALFORMED: dict[str, tuple[bytes, int | None]] = {
    "nothing": (b"", None),
    "JSON": (b'{"ops": []}', None),
    "a record that is cut": (packed(init(R, E), init(S, E))[:-60], None),
    "a byte too many": (packed(init(R, E)) + b"\0", None),
    "a root id of zero": (encode_packed([Ack(root_id=R, ack_val=E), Ack(root_id=0, ack_val=E)]), 1),
    "an op that is none": (packed(init(R, E))[:16] + b"\0\x09" + packed(init(R, E))[18:], 0),
    "a spout task that is no name": (packed(init(R, E)).replace(b"orders", b"or ers"), 0),
    "a string that is not UTF-8": (packed(init(R, E)).replace(b"orders", b"\xfferders"[:6]), None),
}


@pytest.mark.parametrize(("body", "index"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_malformed_batch_is_refused_and_changes_nothing(
    call: Caller, parts: Components, body: bytes, index: int | None
) -> None:
    await call.states(init(R, E, F))
    before = await dump(parts)
    answer = await post(call, body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, MEDIA_TYPE)
    assert (answer.json()["code"], answer.json().get("index")) == ("invalid", index)
    assert await dump(parts) == before


async def test_a_timeout_beyond_the_dedupe_window_is_pointed_at(call: Caller, parts: Components) -> None:
    await call.put(dedupe_window_ms=60_000)
    before = await dump(parts)
    answer = await post(call, packed(ack(R, E), init(S, E, message_timeout_ms=60_001)))
    assert (answer.status_code, answer.json()["index"]) == (422, 1)
    assert await dump(parts) == before


async def test_too_many_records_and_too_many_bytes_are_too_large(call: Caller, parts: Components) -> None:
    before = await dump(parts)
    message: Operation = Ack(root_id=R, ack_val=E)
    for body in (encode_packed([message] * 10_001), encode_packed([message] * (4 * 1024 * 1024 // RECORD.size + 1))):
        answer = await post(call, body)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert await dump(parts) == before
    assert (await post(call, encode_packed([message] * 10_000))).status_code == 200


@pytest.mark.parametrize("kind", ["application/octet-stream", "application/vnd.acker.packed2", "text/plain", ""])
async def test_another_content_type_is_told_both_that_are_taken(call: Caller, kind: str) -> None:
    answer = await post(call, packed(init(R, E)), kind=kind)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert "application/json" in answer.json()["detail"]
    assert CONTENT_TYPE in answer.json()["detail"]


async def test_a_single_operation_is_not_taken_packed(call: Caller) -> None:
    answer: Any = await call.http.post(
        routes.operation("default", "ack"), content=packed(ack(R, E)), headers={"Content-Type": CONTENT_TYPE}
    )
    assert answer.status_code == 415
    assert CONTENT_TYPE not in answer.json()["detail"].split("send")[1]


async def test_parameters_of_the_content_type_are_let_pass(call: Caller) -> None:
    assert (await post(call, packed(init(R, E)), kind=f"{CONTENT_TYPE.upper()} ; v=1")).status_code == 200
