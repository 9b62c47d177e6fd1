"""Bad input of every kind is told as a problem and changes nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from acker_protocol.errors import MEDIA_TYPE, known
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.settings import Settings

from tests.integration.http.bad_input import ADDRESSES, BATCHES, BODIES, DEFAULT, DOCUMENTS, QUERIES, SPOUT, Bad
from tests.support.caller import Caller, ack, init
from tests.support.dump import dump
from tests.support.redis_side import flush

pytestmark = pytest.mark.anyio

R, S, E, F = 0xA1, 0xB2, 0xE1, 0xE2
MOST_BYTES = 4 * 1024 * 1024
BATCH = "/v1/topologies/default/batch"
INIT = {"root_id": "00000000000000c1", "spout_task": "orders", "edges": ["00000000000000e1"]}


@pytest.fixture(scope="module")
async def parts(valkey_url: str) -> AsyncIterator[Components]:
    """One store for all tests here: they change nothing in it."""
    parts = Components(valkey_url, window_ms=600_000)
    await flush(parts)
    await parts.open()
    yield parts
    await parts.close()


@pytest.fixture(scope="module")
async def api(parts: Components) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_app(parts, Settings(), asyncio.Event()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture(scope="module")
async def busy(api: httpx.AsyncClient) -> Caller:
    """The default topology with a pending root, an early one and an unread completion; a second topology beside it."""
    call = Caller(api)
    await call.put(dedupe_window_ms=60_000)
    await call.states(init(R, E, F, message_id="42"), ack(R, E), ack(S, E), init(0xC3))
    await Caller(api, "other").put()
    return call


def assert_problem(answer: httpx.Response, code: str) -> dict[str, Any]:
    """The answer is the problem of this code, with all its members, and return it."""
    kind = known()[code]
    assert (answer.status_code, answer.headers["content-type"]) == (kind.status, MEDIA_TYPE), answer.text
    problem: dict[str, Any] = answer.json()
    assert (problem["type"], problem["code"]) == (f"urn:acker:problem:{code}", code)
    assert (problem["status"], problem["title"], problem["retryable"]) == (
        kind.status,
        kind.title,
        kind.retryable_by_default,
    )
    assert problem["detail"]
    assert "Traceback" not in answer.text
    return problem


async def assert_refused(call: Caller, parts: Components, bad: Bad) -> dict[str, Any]:
    """The request is refused with its problem, and nothing in the store is another."""
    before = await dump(parts)
    answer = await call.http.request(bad.method, bad.path, **bad.request)
    problem = assert_problem(answer, bad.code)
    assert bad.says in problem["detail"]
    assert await dump(parts) == before
    return problem


@pytest.mark.parametrize("bad", BODIES.values(), ids=BODIES.keys())
async def test_a_body_that_cannot_be_read_is_refused(busy: Caller, parts: Components, bad: Bad) -> None:
    await assert_refused(busy, parts, bad)


@pytest.mark.parametrize("bad", DOCUMENTS.values(), ids=DOCUMENTS.keys())
async def test_a_document_of_another_form_is_refused(busy: Caller, parts: Components, bad: Bad) -> None:
    problem = await assert_refused(busy, parts, bad)
    assert "index" not in problem


@pytest.mark.parametrize("bad", BATCHES.values(), ids=BATCHES.keys())
async def test_one_bad_operation_refuses_the_whole_batch_and_is_pointed_at(
    busy: Caller, parts: Components, bad: Bad
) -> None:
    problem = await assert_refused(busy, parts, bad)
    assert problem.get("index") == bad.index


@pytest.mark.parametrize("bad", ADDRESSES.values(), ids=ADDRESSES.keys())
async def test_an_address_where_nothing_is_or_a_wrong_method_is_refused(
    busy: Caller, parts: Components, bad: Bad
) -> None:
    await assert_refused(busy, parts, bad)


@pytest.mark.parametrize("bad", QUERIES.values(), ids=QUERIES.keys())
async def test_a_bad_query_or_header_is_refused(busy: Caller, parts: Components, bad: Bad) -> None:
    await assert_refused(busy, parts, bad)


async def test_a_wrong_method_is_told_the_right_ones(api: httpx.AsyncClient) -> None:
    assert (await api.get(BATCH)).headers["Allow"] == "POST"
    for path in (DEFAULT, SPOUT):
        assert (await api.post(path)).headers["Allow"] == "DELETE, GET, HEAD, PUT"


async def test_a_body_whose_length_is_over_the_limit_is_refused_unread(busy: Caller) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    headers = {"Content-Type": "application/json", "Content-Length": str(MOST_BYTES + 1)}
    assert_problem(await busy.http.post(BATCH, content=never(), headers=headers), "too_large")


async def test_a_body_that_grows_over_the_limit_is_refused_while_it_comes(busy: Caller, parts: Components) -> None:
    async def growing() -> AsyncIterator[bytes]:
        for _ in range(MOST_BYTES // 65_536 + 1):
            yield b" " * 65_536
        raise AssertionError("it was read on")

    before = await dump(parts)
    answer = await busy.http.post(BATCH, content=growing(), headers={"Content-Type": "application/json"})
    assert_problem(answer, "too_large")
    assert await dump(parts) == before


async def test_a_body_of_just_the_limit_is_taken_chunked_too(busy: Caller) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"ops": []'
        yield b" " * (MOST_BYTES - 11)
        yield b"}"

    answer = await busy.http.post(BATCH, content=chunks(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 200


async def test_a_batch_of_too_many_operations_is_too_large(busy: Caller, parts: Components) -> None:
    before = await dump(parts)
    ops = [{"op": "reset-timeout", "root_id": "00000000000000c1"}] * 10_001
    assert_problem(await busy.http.post(BATCH, json={"ops": ops}), "too_large")
    assert await dump(parts) == before
    assert (await busy.http.post(BATCH, json={"ops": ops[1:]})).status_code == 200


async def test_ackers_cannot_be_changed(busy: Caller, parts: Components) -> None:
    before = await dump(parts)
    for document in ({"ackers": 5}, {"ackers": 0}, {"ackers": 5, "retention_ms": 5_000}):
        assert_problem(await busy.http.put("/v1/topologies/default", json=document), "ackers_fixed")
    assert await dump(parts) == before


async def test_an_init_may_not_outlive_the_dedupe_window(busy: Caller, parts: Components) -> None:
    before = await dump(parts)
    long = INIT | {"message_timeout_ms": 60_001}
    assert_problem(await busy.http.post("/v1/topologies/default/init", json=long), "invalid")
    for ops, index in (([init(R, E), {"op": "init"} | long], 1), ([{"op": "init"} | long], 0)):
        problem = assert_problem(await busy.http.post(BATCH, json={"ops": ops}), "invalid")
        assert problem["index"] == index
    assert await dump(parts) == before


async def test_an_init_may_last_as_long_as_the_dedupe_window(busy: Caller) -> None:
    longest = INIT | {"root_id": "00000000000000d1", "message_timeout_ms": 60_000}
    assert (await busy.http.post("/v1/topologies/default/init", json=longest)).status_code == 200


@pytest.mark.parametrize("changed", [{"message_timeout_ms": 60_001}, {"dedupe_window_ms": 29_999}])
async def test_the_dedupe_window_may_not_be_shorter_than_the_message_timeout(
    busy: Caller, parts: Components, changed: dict[str, int]
) -> None:
    before = await dump(parts)
    assert_problem(await busy.http.put("/v1/topologies/default", json=changed), "invalid")
    assert await dump(parts) == before


async def test_a_cursor_that_was_not_given_here_is_refused_on_release_too(busy: Caller, parts: Components) -> None:
    before = await dump(parts)
    for cursor in ("", "?", "AQ", "é", "A" * 23, 7, None):
        path = "/v1/topologies/default/spouts/orders/completions/release"
        assert_problem(await busy.http.post(path, json={"cursor": cursor}), "invalid")
    assert await dump(parts) == before


async def test_a_fault_of_the_service_itself_is_a_problem_without_a_trace_of_it(
    api: httpx.AsyncClient, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(parts.roots, "read", broken)
    transport = httpx.ASGITransport(app=api._transport.app, raise_app_exceptions=False)  # type: ignore[attr-defined]
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/v1/topologies/default/roots/00000000000000a1")
    assert (answer.status_code, answer.headers["content-type"]) == (500, MEDIA_TYPE)
    assert "secret" not in answer.text
