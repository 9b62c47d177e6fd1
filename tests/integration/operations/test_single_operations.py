"""Single operations over HTTP: what is applied and answered, also where one call of the store does not suffice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
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
from acker_service.http.operations import MAX_ADDRESSES
from acker_service.settings import Role, Settings
from acker_service.topologies.topology import Deletion
from fastapi import FastAPI

from tests.support.caller import Caller, ack, fail, init, reset_timeout
from tests.support.keys import bearer, keys_file
from tests.support.trips import counted

pytestmark = pytest.mark.anyio

R, E, F = 0xA1, 0xE1, 0xE2
ACK = "/v1/topologies/default/ack"
BODY = b'{"root_id":"00000000000000a1","edge_id":"00000000000000e1"}'
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def seen_by_fastapi(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that FastAPI has answered."""
    paths, answer = list[str](), FastAPI.__call__

    async def noted(self: FastAPI, scope: Any, receive: Any, send: Any) -> None:
        paths.append(scope["path"])
        await answer(self, scope, receive, send)

    monkeypatch.setattr(FastAPI, "__call__", noted)
    return paths


@pytest.fixture
async def ready(call: Caller) -> Caller:
    """The default topology, cached, with a spout task and a pending root."""
    await call.states(init(R, E, F))
    return call


async def test_each_kind_of_operation_is_applied(ready: Caller) -> None:
    states = [await ready.state(op) for op in (init(1, E), ack(1, E, F), reset_timeout(1), fail(1), ack(1, E))]
    assert states == ["pending", "pending", "pending", "failed", "finished"]


async def test_repeats_say_so(ready: Caller) -> None:
    answers = [await ready.post(op, key="k") for op in (init(1, E), init(1, E), ack(1, E), ack(1, E))]
    assert [answer.headers.get("Idempotency-Replayed") for answer in answers] == [None, "true"] * 2


async def test_a_refusal_is_answered_as_a_problem(ready: Caller) -> None:
    conflict = await ready.post(init(R, E, message_id="another"))
    assert (conflict.status_code, conflict.json()["code"]) == (409, "conflict")


async def test_an_operation_on_a_topology_that_is_not_there_is_refused(call: Caller) -> None:
    assert await Caller(call.http, "no-such").state(ack(R, E)) == "unknown_topology"


async def test_only_the_first_init_of_a_spout_task_takes_more_than_one_call(ready: Caller, parts: Components) -> None:
    with counted(parts) as trips:
        assert await ready.state(init(1, E, spout_task="new")) == "pending"
        assert sum(map(len, trips.found)) > 1
    with counted(parts) as trips:
        assert await ready.state(init(2, E, spout_task="new")) == "pending"
        assert sum(map(len, trips.found)) == 1


async def test_an_init_over_a_cap_is_refused(ready: Caller) -> None:
    await ready.put(max_spout_pending=1)
    assert await ready.state(init(1, E)) == "max_spout_pending"
    assert await ready.state(ack(R, E, 7)) == "pending"


async def test_an_init_whose_timeout_is_beyond_the_dedupe_window_is_refused(ready: Caller) -> None:
    await ready.put(dedupe_window_ms=60_000)
    await ready.state(init(1, E))
    assert await ready.state(init(2, E, message_timeout_ms=60_001)) == "invalid"
    assert await ready.state(init(2, E, message_timeout_ms=60_000)) == "pending"


@pytest.mark.parametrize("send", [Caller.post, Caller.batch])
async def test_an_init_is_not_refused_for_a_window_that_another_process_has_lengthened(
    ready: Caller, parts: Components, send: Callable[..., Any]
) -> None:
    await ready.put(dedupe_window_ms=60_000)
    longer = init(1, E, message_timeout_ms=60_001)
    other = Components(parts.redis.url, window_ms=600_000)
    await other.registry.create_or_update("default", lambda present: replace(present, dedupe_window_ms=120_000))  # type: ignore[type-var]
    await other.close()
    answer = await send(ready, longer)
    assert answer.status_code == 200, answer.text
    assert (await ready.root(1))["state"] == "pending"


async def test_an_init_into_a_mailbox_that_was_full_is_applied_once_it_is_not(
    ready: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.backpressure, "was_full", lambda *_: True)
    assert await ready.state(init(1, E)) == "pending"


async def test_a_full_store_takes_acks_and_refuses_inits(
    ready: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.backpressure, "is_store_full", True)
    assert [await ready.state(op) for op in (init(1, E), ack(2, E), ack(R, E))] == [
        "store_full",
        "store_full",
        "pending",
    ]


async def test_an_ack_under_a_stale_stamp_is_applied_once(ready: Caller, parts: Components) -> None:
    other = Components(parts.redis.url, window_ms=600_000)
    await other.registry.create_or_update("default", lambda present: present)  # type: ignore[arg-type, return-value]
    await other.close()
    assert await ready.state(ack(R, E)) == "pending"
    assert await ready.state(ack(R, F)) == "acked"


async def test_a_topology_that_is_being_deleted_takes_acks_and_no_inits(ready: Caller, parts: Components) -> None:
    await parts.registry.set_deletion(await parts.registry.get("default"), Deletion.DRAINING)
    assert [await ready.state(op) for op in (ack(R, E), init(1, E))] == ["pending", "topology_busy"]


@pytest.mark.parametrize(("key", "retryable"), [(None, False), ("k", True)])
async def test_a_store_that_does_not_answer_is_told(
    ready: Caller,
    parts: Components,
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
    retryable: Any,
) -> None:
    def lost(*call: Any) -> None:
        call[-1].set_exception(StoreUnavailable("no answer"))

    monkeypatch.setattr(parts.applier.batcher, "begin", lost)
    answer = await ready.post(ack(R, E), key=key)
    assert (answer.status_code, answer.json()["retryable"]) == (503, retryable)


@pytest.mark.parametrize("error", [ValueError, RecursionError, InvalidRequest])
@pytest.mark.parametrize("form", ["single", "JSON", "packed"])
async def test_what_has_failed_is_not_applied_again(
    ready: Caller,
    parts: Components,
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
    form: str,
) -> None:
    """Whatever was applied before it would be applied again."""

    calls = list[Any]()

    def failed(*call: Any) -> None:
        calls.append(call)
        call[-1].set_exception(error("after the call"))

    monkeypatch.setattr(parts.applier.batcher, "begin", failed)
    if form == "single":
        answer = await ready.post(ack(R, E))
    else:
        content, kind = (encode_packed, PACKED) if form == "packed" else (encode_batch, "application/json")
        headers = {"Content-Type": kind}
        answer = await ready.http.post(
            ACK.replace("/ack", "/batch"), content=content([Ack(root_id=R, ack_val=E)]), headers=headers
        )
    assert answer.is_error
    assert len(calls) == 1


async def test_an_unexpected_error_is_logged_and_answered(
    ready: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(parts.applier, "_limits", lambda *_: 1 / 0)
    answer = await ready.post(ack(R, E))
    assert (answer.status_code, answer.json()["code"]) == (500, "problem")
    assert "POST /v1/topologies/default/ack failed" in caplog.text


@pytest.mark.parametrize(
    ("headers", "state"),
    [
        ({"Content-Type": "application/json; charset=utf-8"}, "pending"),
        ({"Content-Type": "text/plain"}, "unsupported_media_type"),
        (JSON | {"Idempotency-Key": "no space"}, "invalid"),
        (JSON | {"Content-Length": "9" * 11}, "too_large"),
        (JSON | {"Transfer-Encoding": "chunked"}, "pending"),
        ([("Content-Type", "application/json"), ("X-Other", "1"), ("X-Other", "2")], "pending"),
        ([("Content-Type", "application/json"), ("Content-Type", "text/plain")], "pending"),
    ],
)
async def test_unusual_heads(ready: Caller, headers: Any, state: str) -> None:
    answer = (await ready.http.post(ACK, content=BODY, headers=headers)).json()
    assert answer.get("state", answer.get("code")) == state


@pytest.mark.parametrize(
    ("path", "state"),
    [
        (f"{ACK}?x=1", "invalid"),
        (f"{ACK}?", "pending"),
        (ACK.replace("default", "def%61ult"), "pending"),
        (ACK.replace("default", ".default"), "invalid"),
        (f"{ACK}/", "not_found"),
        ("/v1/topologies/a/b/ack", "not_found"),
    ],
)
async def test_unusual_addresses(ready: Caller, path: str, state: str) -> None:
    answer = (await ready.http.post(path, content=BODY, headers=JSON)).json()
    assert answer.get("state", answer.get("code")) == state


@pytest.mark.parametrize("method", ["POST", "GET", "HEAD", "PUT", "OPTIONS"])
@pytest.mark.parametrize("verb", ["init", "ack", "fail", "reset-timeout", "batch"])
async def test_fastapi_sees_no_request_to_operations(
    api: httpx.AsyncClient, seen_by_fastapi: list[str], verb: str, method: str
) -> None:
    answer = await api.request(method, f"/v1/topologies/default/{verb}", headers=JSON, content=b"{}")
    assert answer.status_code == (422 if method == "POST" else 405)
    assert (answer.headers.get("Allow") == "POST") is (method != "POST")
    assert seen_by_fastapi == []


async def test_many_addresses_are_not_all_remembered(ready: Caller) -> None:
    operations = ready.http._transport.app.exchanges.operations  # type: ignore[attr-defined]
    for number in range(MAX_ADDRESSES + 1):
        assert operations.find(f"/v1/topologies/t{number}/ack") is not None
    assert 0 < len(operations._addresses) <= MAX_ADDRESSES


@pytest.mark.own_application
async def test_addresses_of_no_operation_and_names_of_no_topology_are_not_remembered(ready: Caller) -> None:
    operations = ready.http._transport.app.exchanges.operations  # type: ignore[attr-defined]
    assert operations.find("/" + "a" * 60_000) is None
    assert operations.find("/v1/topologies/default/other") is None
    assert operations.find(f"/v1/topologies/{'a' * 60_000}/ack") is not None
    assert not [path for path in operations._addresses if "aa" in path or "other" in path]


async def test_a_body_that_is_cut_off_is_refused(ready: Caller) -> None:
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
    assert sent[0]["status"] == 422
    assert b"the body was cut off" in sent[1]["body"]
    assert (await ready.root(R))["outstanding"] == 2


@pytest.fixture
async def narrow(parts: Components, stopping: asyncio.Event) -> AsyncIterator[httpx.AsyncClient]:
    """An application that takes bodies of a kilobyte, and one request at a time."""
    app = make_app(parts, Settings(max_body_bytes=1_024, max_in_flight=1), stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        await http.get("/v1/topologies/default")
        yield http


async def test_a_body_that_is_too_large_is_refused(narrow: httpx.AsyncClient) -> None:
    answer = await narrow.post(ACK, content=BODY + b" " * 1_024, headers=JSON)
    assert answer.json()["code"] == "too_large"
    assert (await narrow.post(ACK, content=BODY, headers=JSON)).json()["state"] == "early"


async def test_operations_and_other_requests_share_the_limit_of_requests_in_flight(
    narrow: httpx.AsyncClient, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun, release = parts.applier.batcher.begin, asyncio.Event(), list[Callable[[], None]]()

    def held(*args: Any) -> None:
        release.append(partial(begin, *args))
        begun.set()

    monkeypatch.setattr(parts.applier.batcher, "begin", held)
    first = asyncio.create_task(narrow.post(ACK, content=BODY, headers=JSON))
    await begun.wait()
    refused = [await narrow.post(ACK, content=BODY, headers=JSON), await narrow.get("/v1/topologies/default")]
    assert [answer.json()["code"] for answer in refused] == ["overloaded"] * 2
    release[0]()
    monkeypatch.undo()
    assert (await first).json()["state"] == "early"
    assert (await narrow.get("/v1/topologies/default")).is_success


async def test_keys_are_checked(parts: Components, stopping: asyncio.Event, tmp_path: Path) -> None:
    settings = Settings(keys_file=keys_file(tmp_path, "ack", "spout", topologies=["orders"]))
    app = make_app(parts, settings, stopping)
    await parts.registry.refresh("default")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        codes = [
            (await http.post(ACK, content=BODY, headers=JSON | headers)).json()["code"]
            for headers in ({}, bearer("nobody"), bearer("ack"))
        ]
    assert codes == ["unauthorized", "unauthorized", "forbidden"]


async def test_a_worker_has_no_operations(parts: Components, stopping: asyncio.Event) -> None:
    app = make_app(parts, Settings(role=Role.WORKER, redis_url=parts.redis.url), stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        answer = await http.post(ACK, content=BODY, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
