"""What the fast path takes, and what it passes on; each answer is the one that FastAPI gives."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_protocol.errors import InvalidRequest, StoreUnavailable
from acker_protocol.operations import Ack
from acker_protocol.wire.operations import encode_batch
from acker_protocol.wire.packed import CONTENT_TYPE as PACKED
from acker_protocol.wire.packed import encode_packed
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http.application import Application
from acker_service.http.exchange import CYCLE
from acker_service.http.fast_path import MAX_PATHS, FastPath
from acker_service.settings import Role, Settings
from acker_service.topologies.topology import Deletion
from fastapi import FastAPI

from tests.support.caller import Caller, ack, fail, init, reset_timeout
from tests.support.keys import bearer, keys_file

pytestmark = pytest.mark.anyio

R, E, F = 0xA1, 0xE1, 0xE2
ACK = "/v1/topologies/default/ack"
BODY = b'{"root_id":"00000000000000a1","edge_id":"00000000000000e1"}'
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def passed_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that the fast path left to FastAPI; it is on, whatever the other tests do without."""
    monkeypatch.setattr(FastPath, "enabled", True)
    paths, answer = list[str](), FastAPI.__call__

    async def noted(self: FastAPI, scope: Any, receive: Any, send: Any) -> None:
        paths.append(scope["path"].rpartition("/")[2])
        await answer(self, scope, receive, send)

    monkeypatch.setattr(FastAPI, "__call__", noted)
    return paths


@pytest.fixture
async def ready(call: Caller, passed_on: list[str]) -> Caller:
    """The default topology, cached, with a spout task and a pending root."""
    await call.words(init(R, E, F))
    passed_on.clear()
    return call


async def test_lawful_single_operations_are_taken(ready: Caller, passed_on: list[str]) -> None:
    words = [await ready.word(op) for op in (init(1, E), ack(1, E, F), reset_timeout(1), fail(1), ack(1, E))]
    assert words == ["pending", "pending", "pending", "failed", "finished"]
    assert passed_on == []


async def test_repeats_are_taken_and_say_so(ready: Caller, passed_on: list[str]) -> None:
    answers = [await ready.post(op, key="k") for op in (init(1, E), init(1, E), ack(1, E), ack(1, E))]
    assert [answer.headers.get("Idempotency-Replayed") for answer in answers] == [None, "true"] * 2
    assert passed_on == []


async def test_a_refusal_is_answered_as_a_problem(ready: Caller, passed_on: list[str]) -> None:
    conflict = await ready.post(init(R, E, message_id="another"))
    assert (conflict.status_code, conflict.json()["code"]) == (409, "conflict")
    assert passed_on == []


async def test_an_operation_on_an_uncached_topology_is_passed_on(call: Caller, passed_on: list[str]) -> None:
    assert await Caller(call.http, "no-such").word(ack(R, E)) == "unknown_topology"
    assert passed_on == ["ack"]


async def test_an_init_of_a_new_spout_task_is_passed_on(ready: Caller, passed_on: list[str]) -> None:
    assert await ready.word(init(1, E, spout_task="new")) == "pending"
    assert await ready.word(init(2, E, spout_task="new")) == "pending"
    assert passed_on == ["init"]


async def test_an_init_under_a_cap_is_passed_on(ready: Caller, passed_on: list[str]) -> None:
    await ready.put(max_spout_pending=1)
    passed_on.clear()
    assert await ready.word(init(1, E)) == "max_spout_pending"
    assert await ready.word(ack(R, E, 7)) == "pending"
    assert passed_on == ["init"]


async def test_an_init_beyond_the_dedupe_window_is_passed_on(ready: Caller, passed_on: list[str]) -> None:
    await ready.put(dedupe_window_ms=60_000)
    await ready.word(init(1, E))
    passed_on.clear()
    assert await ready.word(init(2, E, message_timeout_ms=60_001)) == "invalid"
    assert await ready.word(init(2, E, message_timeout_ms=60_000)) == "pending"
    assert passed_on == ["init"]


async def test_an_init_into_a_mailbox_that_was_full_is_passed_on(
    ready: Caller, parts: Components, passed_on: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.backpressure, "was_full", lambda *_: True)
    assert await ready.word(init(1, E)) == "pending"
    assert passed_on == ["init"]


async def test_a_full_store_takes_acks_and_refuses_inits(
    ready: Caller, parts: Components, passed_on: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.backpressure, "is_store_full", True)
    assert [await ready.word(op) for op in (init(1, E), ack(2, E), ack(R, E))] == [
        "store_full",
        "store_full",
        "pending",
    ]
    assert passed_on == []


async def test_a_stale_stamp_is_passed_on_with_nothing_applied(
    ready: Caller, parts: Components, passed_on: list[str]
) -> None:
    other = Components(parts.redis.url, window_ms=600_000)
    await other.registry.create_or_update("default", lambda present: present)  # type: ignore[arg-type, return-value]
    await other.close()
    assert await ready.word(ack(R, E)) == "pending"
    assert passed_on == ["ack"]
    assert await ready.word(ack(R, F)) == "acked"
    assert passed_on == ["ack"]


async def test_a_topology_that_is_being_deleted_is_passed_on(
    ready: Caller, parts: Components, passed_on: list[str]
) -> None:
    await parts.registry.set_deletion(await parts.registry.get("default"), Deletion.DRAINING)
    assert [await ready.word(op) for op in (ack(R, E), init(1, E))] == ["pending", "topology_busy"]
    assert passed_on == ["ack", "init"]


@pytest.mark.parametrize(("key", "retryable"), [(None, False), ("k", True)])
async def test_a_store_that_does_not_answer_is_told_as_fastapi_tells_it(
    ready: Caller,
    parts: Components,
    passed_on: list[str],
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
    retryable: Any,
) -> None:
    def lost(*_: Any) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(StoreUnavailable("no answer"))
        return future

    monkeypatch.setattr(parts.applier.batcher, "apply", lost)
    ready.http.headers["X-Request-Id"] = "r1"
    fast = await ready.post(ack(R, E), key=key)
    assert passed_on == []
    monkeypatch.setattr(FastPath, "enabled", False)
    slow = await ready.post(ack(R, E), key=key)
    assert (fast.status_code, fast.json()["retryable"]) == (503, retryable)
    assert (fast.content, fast.headers) == (slow.content, slow.headers)


@pytest.mark.parametrize("error", [ValueError, RecursionError, InvalidRequest])
@pytest.mark.parametrize("form", ["single", "JSON", "packed"])
async def test_an_error_of_what_applies_is_never_passed_on(
    ready: Caller,
    parts: Components,
    passed_on: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
    form: str,
) -> None:
    """Whatever was applied before it would be applied again."""

    def failed(*_: Any) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(error("after the call"))
        return future

    monkeypatch.setattr(parts.applier.batcher, "apply", failed)
    if form == "single":
        answer = await ready.post(ack(R, E))
    else:
        content, kind = (encode_packed, PACKED) if form == "packed" else (encode_batch, "application/json")
        headers = {"Content-Type": kind}
        answer = await ready.http.post(
            ACK.replace("/ack", "/batch"), content=content([Ack(root_id=R, ack_val=E)]), headers=headers
        )
    assert answer.is_error
    assert passed_on == []


async def test_a_request_and_its_scope_do_not_refer_to_each_other(ready: Caller) -> None:
    """Otherwise every request would stay until the garbage collector comes."""
    app = ready.http._transport.app  # type: ignore[attr-defined]
    scope = {"type": "http", "method": "GET", "path": "/livez", "query_string": b"", "headers": [], CYCLE: object()}

    async def nothing(*_: Any) -> Any:
        return {"type": "http.request"}

    await app(scope, nothing, nothing)
    assert CYCLE not in scope


async def test_an_unexpected_error_is_logged_and_answered(
    ready: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(parts.single_applier, "_limits_of", lambda _: 1 / 0)
    answer = await ready.post(ack(R, E))
    assert (answer.status_code, answer.json()["code"]) == (500, "problem")
    assert "POST /v1/topologies/default/ack failed" in caplog.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json; charset=utf-8"},
        {"Content-Type": "text/plain"},
        JSON | {"Idempotency-Key": "no space"},
        JSON | {"Content-Length": "9" * 11},
        JSON | {"Transfer-Encoding": "chunked"},
        [("Content-Type", "application/json"), ("X-Other", "1"), ("X-Other", "2")],
    ],
)
async def test_unusual_heads_are_passed_on(ready: Caller, passed_on: list[str], headers: Any) -> None:
    await ready.http.post(ACK, content=BODY, headers=headers)
    assert passed_on == ["ack"]


@pytest.mark.parametrize(
    "path", [f"{ACK}?x=1", ACK.replace("default", "def%61ult"), f"{ACK}/", "/v1/topologies/a/b/ack"]
)
async def test_unusual_addresses_are_passed_on(ready: Caller, passed_on: list[str], path: str) -> None:
    await ready.http.post(path, content=BODY, headers=JSON)
    assert len(passed_on) == 1


async def test_many_addresses_are_not_all_remembered(ready: Caller) -> None:
    fast_path = ready.http._transport.app.fast_path  # type: ignore[attr-defined]
    for number in range(MAX_PATHS + 1):
        assert fast_path._target(b"/v1/topologies/t%d/ack" % number) is not None
    assert 0 < len(fast_path._targets) <= MAX_PATHS


@pytest.mark.own_application
async def test_addresses_without_a_route_are_not_remembered(ready: Caller) -> None:
    fast_path = ready.http._transport.app.fast_path  # type: ignore[attr-defined]
    assert fast_path._target(b"/" + b"a" * 60_000) is None
    assert fast_path._target(b"/v1/topologies/default/other") is None
    assert not [path for path in fast_path._targets if b"/a" in path or b"other" in path]


async def test_a_body_that_is_cut_off_is_passed_on(ready: Caller, passed_on: list[str]) -> None:
    app: Application = ready.http._transport.app  # type: ignore[attr-defined]
    sent = []
    messages = iter([{"type": "http.request", "body": BODY[:9], "more_body": True}, {"type": "http.disconnect"}])
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
    scope = {"type": "http", "method": "POST", "path": ACK, "raw_path": ACK.encode(), "query_string": b""}

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope | {"headers": headers, "root_path": "", "http_version": "1.1"}, receive, send)
    assert (sent[0]["status"], passed_on) == (422, ["ack"])
    assert (await ready.root(R))["outstanding"] == 2


@pytest.fixture
async def narrow(parts: Components, stopping: asyncio.Event) -> AsyncIterator[httpx.AsyncClient]:
    """An application that takes bodies of a kilobyte, and one request at a time."""
    app = make_app(parts, Settings(max_body_bytes=1_024, max_in_flight=1), stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://acker") as http:
        await http.get("/v1/topologies/default")
        yield http


async def test_a_body_that_is_too_large_is_passed_on(narrow: httpx.AsyncClient, passed_on: list[str]) -> None:
    passed_on.clear()
    answer = await narrow.post(ACK, content=BODY + b" " * 1_024, headers=JSON)
    assert (answer.json()["code"], passed_on) == ("too_large", ["ack"])
    assert (await narrow.post(ACK, content=BODY, headers=JSON)).json()["state"] == "early"
    assert passed_on == ["ack"]


async def test_both_ways_share_the_limit_of_requests_in_flight(
    narrow: httpx.AsyncClient, parts: Components, passed_on: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, begun, release = parts.applier.batcher.apply, asyncio.Event(), asyncio.Event()

    async def held(*args: Any) -> Any:
        begun.set()
        await release.wait()
        return await apply(*args)

    monkeypatch.setattr(parts.applier.batcher, "apply", held)
    passed_on.clear()
    first = asyncio.create_task(narrow.post(ACK, content=BODY, headers=JSON))
    await begun.wait()
    refused = [await narrow.post(ACK, content=BODY, headers=JSON), await narrow.get("/v1/topologies/default")]
    assert [answer.json()["code"] for answer in refused] == ["overloaded"] * 2
    release.set()
    assert (await first).json()["state"] == "early"
    assert (await narrow.get("/v1/topologies/default")).is_success
    assert passed_on == ["ack", "default", "default"]


async def test_keys_are_checked_as_fastapi_checks_them(
    parts: Components, stopping: asyncio.Event, tmp_path: Path, passed_on: list[str]
) -> None:
    settings = Settings(keys_file=keys_file(tmp_path, "ack", "spout", topologies=["orders"]))
    app = make_app(parts, settings, stopping)
    await parts.registry.refresh("default")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://acker") as http:
        codes = [
            (await http.post(ACK, content=BODY, headers=JSON | headers)).json()["code"]
            for headers in ({}, bearer("nobody"), bearer("ack"))
        ]
    assert codes == ["unauthorized", "unauthorized", "forbidden"]
    assert passed_on == ["ack"] * 3


async def test_a_worker_has_no_fast_path(parts: Components, stopping: asyncio.Event) -> None:
    assert make_app(parts, Settings(role=Role.WORKER, redis_url=parts.redis.url), stopping).fast_path is None
