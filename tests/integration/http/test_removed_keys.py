"""A key that is removed or changed ends what was begun with it: streams, long polls, and requests that still arrive."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_protocol import routes
from acker_protocol.errors import Unauthorized
from acker_protocol.ids import format_id
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http import auth, long_poll
from acker_service.http.application import Application
from acker_service.http.keys import Key, Scope, digest_of
from acker_service.http.sse import EventStreams
from acker_service.settings import Settings

from tests.support.caller import Caller, ack, init
from tests.support.keys import bearer, keys_file
from tests.support.servers import acker_serve
from tests.support.streams import connected
from tests.support.waiting import eventually, eventually_true

pytestmark = pytest.mark.anyio

KEY = Key(name="checkout", digest=digest_of("secret"), scope=Scope.SPOUT, topologies=frozenset({"default"}))
OTHER = replace(KEY, name="operator", digest=digest_of("other"))
STREAM = {"Accept": "text/event-stream"}
CHANGES = {
    "removed": ((OTHER,), "unauthorized"),
    "another secret": ((replace(KEY, digest=digest_of("new")),), "unauthorized"),
    "other topologies": ((replace(KEY, topologies=frozenset({"payments"})),), "forbidden"),
    "less scope": ((replace(KEY, scope=Scope.ACK),), "forbidden"),
}
"""What becomes of the keys, and what a request with the key is answered from then on."""
CHANGED = pytest.mark.parametrize(("keys", "code"), CHANGES.values(), ids=CHANGES)
COMPLETIONS = routes.completions("default", "orders")
INIT = {"root_id": format_id(7), "spout_task": "new", "edges": [format_id(9)]}
SPOUT = "/v1/topologies/default/spouts/new"
WITH_BODY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an operation": ("POST", "/v1/topologies/default/init", INIT),
    "a batch": ("POST", "/v1/topologies/default/batch", {"ops": [{"op": "init", **INIT}]}),
    "a spout task": ("PUT", SPOUT, {}),
    "a release": ("POST", f"{COMPLETIONS}/release", {"cursor": "none"}),
    "a replay": ("POST", f"{COMPLETIONS.removesuffix('completions')}dead-letters/replay", {}),
    "a topology": ("PUT", "/v1/topologies/default", {"message_timeout_ms": 7_000}),
    "a root that is failed": ("POST", f"{routes.root('default', format_id(1))}/fail", {"reason": "by hand"}),
}
"""Requests whose bodies may come long after their heads, and what they do: a method, an address and a body."""


@pytest.fixture
def app(parts: Components, stopping: asyncio.Event) -> Application:
    """An application with one key, on the store of the caller that needs none."""
    app = make_app(parts, Settings(), stopping)
    auth.install(app, (KEY,))
    return app


@pytest.fixture
async def keyed(app: Application) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=bearer("secret")) as client:
        yield client


async def begun(asking: "asyncio.Task[httpx.Response]", waits: Callable[[], object]) -> None:
    """Wait until a request waits for news."""

    async def look() -> object:
        assert not asking.done(), asking.result().text
        return waits()

    await eventually(look)


async def answered(asking: "asyncio.Task[httpx.Response]") -> httpx.Response:
    """Return the answer, long before a wait of a minute ends."""
    async with asyncio.timeout(30):
        return await asking


def end_of(answer: httpx.Response) -> tuple[list[str], dict[str, Any]]:
    """Return the events of a stream that has ended by their names, and the document of the problem at its end."""
    blocks = [block.split("\n") for block in answer.text.split("\n\n") if block.strip(":")]
    assert blocks.pop() == ["retry: 1000"]
    names = [name.removeprefix("event: ") for name, *_ in blocks]
    return names, json.loads(blocks[-1][-1].removeprefix("data: "))


@CHANGED
async def test_a_long_poll_for_completions_gets_none(
    call: Caller, parts: Components, app: Application, keyed: httpx.AsyncClient, keys: tuple[Key, ...], code: str
) -> None:
    await call.put_spout()
    asking = asyncio.create_task(keyed.get(COMPLETIONS, params={"wait_ms": 60_000}))
    await begun(asking, lambda: parts.mailbox_notifier._mailboxes)
    auth.install(app, keys)
    await call.post(init(1))
    assert (await answered(asking)).json()["code"] == code


@CHANGED
async def test_a_stream_of_completions_ends_with_the_problem(
    call: Caller, parts: Components, app: Application, keyed: httpx.AsyncClient, keys: tuple[Key, ...], code: str
) -> None:
    await call.put_spout()
    asking = asyncio.create_task(keyed.get(COMPLETIONS, headers=STREAM))
    await begun(asking, lambda: parts.mailbox_notifier._mailboxes)
    auth.install(app, keys)
    await call.post(init(1))
    names, problem = end_of(await answered(asking))
    assert (names, problem["code"]) == (["problem"], code)
    assert parts.metrics.http.problems[code]._value.get() == 1


@pytest.mark.parametrize("change", ["removed", "another secret", "other topologies"])
async def test_a_long_poll_for_a_root_is_not_told_its_end(
    call: Caller, parts: Components, app: Application, keyed: httpx.AsyncClient, change: str
) -> None:
    """It needs the scope `ack`, which each of these keys has."""
    keys, code = CHANGES[change]
    await call.post(init(1, 9))
    asking = asyncio.create_task(keyed.get(routes.root("default", format_id(1)), params={"wait_ms": 60_000}))
    await begun(asking, lambda: parts.root_notifier._roots)
    auth.install(app, keys)
    await call.post(ack(1, 9))
    assert (await answered(asking)).json()["code"] == code


async def test_a_long_poll_without_news_ends_within_a_heartbeat(
    call: Caller,
    parts: Components,
    app: Application,
    keyed: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long_poll, "HEARTBEAT_S", 0.05)
    await call.put_spout()
    asking = asyncio.create_task(keyed.get(COMPLETIONS, params={"wait_ms": 60_000}))
    await begun(asking, lambda: parts.mailbox_notifier._mailboxes)
    auth.install(app, (OTHER,))
    assert (await answered(asking)).json()["code"] == "unauthorized"


async def test_a_stream_without_news_ends_within_a_heartbeat(
    call: Caller, parts: Components, stopping: asyncio.Event
) -> None:
    await call.put_spout()
    streams = EventStreams(followers=parts.followers, metrics=parts.metrics.http, stopping=stopping, heartbeat_s=0.02)

    def check() -> None:
        raise Unauthorized("the key is not known here")

    topology = await parts.registry.get("default")
    response = await streams.respond(topology, "orders", None, 10, check=check)
    async with asyncio.timeout(30):
        first, *events, end = [bytes(chunk) async for chunk in response.body_iterator]  # type: ignore[arg-type]
    assert (first, end) == (b":\n\n", b"retry: 1000\n\n")
    assert [event.split(b"\n")[0] for event in events] == [b"event: problem"]


async def test_live_events_end_with_the_problem(
    call: Caller, parts: Components, app: Application, keyed: httpx.AsyncClient
) -> None:
    await call.put()
    asking = asyncio.create_task(keyed.get("/v1/events?limit=30"))
    await begun(asking, parts.metrics.http.event_streams._value.get)
    auth.install(app, (OTHER,))
    names, problem = end_of(await answered(asking))
    assert (names[-1], problem["code"]) == ("problem", "unauthorized")
    assert set(names[:-1]) <= {"topologies"}


async def test_live_events_show_the_topologies_that_the_key_has_now(
    call: Caller, parts: Components, app: Application, keyed: httpx.AsyncClient
) -> None:
    await call.put()
    asking = asyncio.create_task(keyed.get("/v1/events?limit=3"))
    await begun(asking, parts.metrics.http.event_streams._value.get)
    auth.install(app, (replace(KEY, topologies=frozenset({"payments"})),))
    last = (await answered(asking)).text.split("\n\n")[-2]
    assert json.loads(last.split("data: ")[1])["topologies"] == []


async def test_a_key_that_stays_goes_on(
    call: Caller, parts: Components, app: Application, keyed: httpx.AsyncClient
) -> None:
    await call.put_spout()
    asking = asyncio.create_task(keyed.get(COMPLETIONS, params={"wait_ms": 60_000}))
    await begun(asking, lambda: parts.mailbox_notifier._mailboxes)
    auth.install(app, (OTHER, KEY))
    await call.post(init(1))
    assert len((await answered(asking)).json()["completions"]) == 1


@pytest.mark.parametrize(("method", "address", "document"), WITH_BODY.values(), ids=WITH_BODY)
@CHANGED
async def test_a_request_is_not_carried_out_whose_body_comes_after_the_change(
    call: Caller,
    app: Application,
    keyed: httpx.AsyncClient,
    keys: tuple[Key, ...],
    code: str,
    method: str,
    address: str,
    document: dict[str, Any],
) -> None:
    auth.install(app, (replace(KEY, scope=Scope.ADMIN),))
    await call.post(init(1, 9))
    before = await call.show()

    async def arriving() -> AsyncIterator[bytes]:
        body = json.dumps(document).encode()
        yield body[:1]
        auth.install(app, keys)
        yield body[1:]

    answer = await keyed.request(method, address, content=arriving(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (401 if code == "unauthorized" else 403, code)
    assert (await call.http.get(SPOUT)).status_code == 404
    assert (await call.show(), (await call.root(1))["state"]) == (before, "pending")


async def test_a_request_is_carried_out_whose_key_stays(
    call: Caller, app: Application, keyed: httpx.AsyncClient
) -> None:
    async def arriving() -> AsyncIterator[bytes]:
        yield b"{"
        auth.install(app, (OTHER, replace(KEY)))
        yield b"}"

    answer = await keyed.put(SPOUT, content=arriving(), headers={"Content-Type": "application/json"})
    assert answer.is_success
    assert (await call.http.get(SPOUT)).is_success


async def test_nothing_comes_on_a_stream_once_its_key_is_out_of_the_file(tmp_path: Path, valkey_url: str) -> None:
    path = keys_file(tmp_path, "spout", "admin")
    with acker_serve(tmp_path, "--redis-url", valkey_url, "--keys-file", str(path)) as acker:
        async with (
            httpx.AsyncClient(base_url=acker.url, headers=bearer("admin"), timeout=20) as http,
            connected(acker.url) as connection,
        ):
            orders = Caller(http, "removed")
            await orders.put()
            await orders.put_spout()
            status, _ = await connection.get(routes.completions("removed", "orders"), **STREAM, **bearer("spout"))
            assert status == 200
            keys_file(tmp_path, "admin")
            refused = bearer("spout")
            eventually_true(lambda: acker.http.get("/v1/topologies", headers=refused).status_code == 401)
            await orders.states(*(init(root) for root in range(1, 31)))
            events = [event.fields async for event in connection.events() if not event.is_comment]
    assert [fields.get("event", "end") for fields in events] == ["problem", "end"]
    assert json.loads(events[0]["data"])["code"] == "unauthorized"
