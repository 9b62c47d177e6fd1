"""HEAD is answered wherever GET is: as GET, without a body, without its work and without its waits."""

import asyncio
from pathlib import Path

import anyio
import httpx
import pytest
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http.routes.events import MEDIA_TYPE
from acker_service.settings import Role, Settings
from acker_service.topologies.deletion import DeleteMode
from fastapi.routing import iter_route_contexts

from tests.support.caller import Caller, ack, fail, init
from tests.support.keys import SCOPES, bearer, keys_file
from tests.support.servers import acker_serve
from tests.support.trips import counted

pytestmark = pytest.mark.anyio

NOWHERE = "redis://127.0.0.1:1"
DEFAULT = "/v1/topologies/default"
SPOUT = f"{DEFAULT}/spouts/orders"
ROOT = f"{DEFAULT}/roots/00000000000000a1"
EVENTS = {"Accept": MEDIA_TYPE}
ONE_CONNECTION = httpx.Limits(max_connections=1)
CONFIGURATION = {"HMGET", "HGET", "HGETALL"}
"""The commands that read a topology or a spout task, whatever its roots and completions are."""

PRESENT = [
    *("/", "/livez", "/readyz", "/metrics", "/openapi.json", "/ui/", "/ui", "/ui/app.js"),
    *("/v1/topologies", "/v1/audit", "/v1/status", "/v1/events?limit=1"),
    *(DEFAULT, f"{DEFAULT}/history", f"{DEFAULT}/history?window=all", f"{DEFAULT}/failures"),
    *(f"{DEFAULT}/roots", f"{DEFAULT}/roots?message_id=42&spout_task=orders"),
    *(ROOT, f"{ROOT}/tree", f"{DEFAULT}/roots/00000000000000b2", f"{DEFAULT}/roots/00000000000000c3/tree"),
    *(f"{DEFAULT}/spouts", SPOUT, f"{SPOUT}/completions", f"{SPOUT}/dead-letters"),
]
"""Addresses where GET finds something."""

REFUSED = [
    *("/nothing", "/ui/nothing", "/v1/nothing", f"{DEFAULT}/batch", f"{SPOUT}/completions/release"),
    *("/v1/topologies/nothing", "/v1/topologies/nothing/history", "/v1/topologies/nothing/roots"),
    *("/v1/topologies/nothing/failures", "/v1/topologies/nothing/spouts", "/v1/topologies/nothing/spouts/orders"),
    *("/v1/topologies/nothing/spouts/orders/completions", "/v1/topologies/nothing/spouts/orders/dead-letters"),
    *(f"{DEFAULT}/spouts/nobody", f"{DEFAULT}/spouts/nobody/completions", f"{DEFAULT}/spouts/nobody/dead-letters"),
    *(f"{DEFAULT}/roots/00000000000000ff", f"{DEFAULT}/roots/00000000000000ff/tree", f"{DEFAULT}/roots?cursor=x"),
    *(f"{DEFAULT}/roots?spout_task=nobody", f"{DEFAULT}/roots?limit=0", f"{DEFAULT}/failures?after=x"),
    *(f"{SPOUT}/completions?after=x", f"{SPOUT}/completions?until=x", f"{SPOUT}/completions?wait_ms=-1"),
    *(f"{SPOUT}/dead-letters?after=x", f"{SPOUT}/dead-letters?from_ms=2&to_ms=1", f"{DEFAULT}/history?window=1h"),
    *("/v1/topologies?x=1", "/v1/audit?after=x", "/v1/status?x=1", "/v1/events?limit=0", "/v1/topologies/no%20name"),
]
"""Addresses where GET is refused."""

HEAVY = [
    *("/metrics", "/openapi.json", "/v1/topologies", "/v1/audit", "/v1/status", "/v1/events"),
    *(DEFAULT, f"{DEFAULT}/history", f"{DEFAULT}/failures", f"{DEFAULT}/roots", f"{DEFAULT}/spouts", SPOUT),
    *(f"{SPOUT}/completions?wait_ms=60000", f"{SPOUT}/completions?limit=10000", f"{SPOUT}/dead-letters"),
]
"""Addresses whose GET has work, waits or streams that only its body needs."""


@pytest.fixture
async def busy(call: Caller) -> Caller:
    """A topology with a pending root, one that failed and a traced one."""
    await call.states(init(0xA1, 0xE1, message_id="42"), init(0xB2, 0xE2), fail(0xB2, reason="broken"))
    await call.states(init(0xC3, 0xE3, trace=True), ack(0xC3, 0xE3))
    return call


async def same_as_get(http: httpx.AsyncClient, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
    """Send HEAD and GET, and hold both answers equal, but for the body and a length that only the body tells.

    An age in the body may have one more digit in the later answer: the length is one of those of the GETs around it.
    """
    before, head, got = [await http.request(method, path, headers=headers) for method in ("GET", "HEAD", "GET")]
    assert (head.status_code, head.content) == (got.status_code, b"")
    for name in ("content-type", "allow", "location", "www-authenticate", "cache-control", "etag"):
        assert head.headers.get(name) == got.headers.get(name)
    if (length := head.headers.get("content-length")) is not None:
        assert int(before.headers["content-length"]) <= int(length) <= int(got.headers["content-length"])
    return head


@pytest.mark.parametrize("path", PRESENT)
async def test_head_says_what_get_says_without_its_body(busy: Caller, path: str) -> None:
    assert (await same_as_get(busy.http, path)).status_code in (200, 308)


@pytest.mark.parametrize("path", REFUSED)
async def test_head_is_refused_where_get_is(busy: Caller, path: str) -> None:
    assert (await same_as_get(busy.http, path)).status_code in (404, 405, 422)


@pytest.mark.parametrize("secret", ["", "unknown", *SCOPES])
async def test_head_needs_the_key_that_get_needs(parts: Components, tmp_path: Path, secret: str) -> None:
    settings = Settings(keys_file=keys_file(tmp_path, *SCOPES, topologies=["orders"]))
    transport = httpx.ASGITransport(app=make_app(parts, settings, asyncio.Event()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        for path in (*PRESENT, "/v1/topologies/orders"):
            await same_as_get(http, path, bearer(secret) if secret else {})


@pytest.mark.parametrize("path", HEAVY)
async def test_head_reads_no_more_than_whether_what_the_address_names_is_there(
    parts: Components, busy: Caller, path: str
) -> None:
    await same_as_get(busy.http, f"{SPOUT}/completions")  # the spout task is cached
    with counted(parts) as trips, anyio.fail_after(30):
        head = await busy.http.head(path)
        assert head.status_code == 200
        assert {name for trip in trips.found for name in trip} <= CONFIGURATION
        assert len(trips.found) <= 1


@pytest.mark.parametrize("path", [f"{SPOUT}/completions", f"{SPOUT}/completions?wait_ms=60000", "/v1/events"])
async def test_head_opens_no_stream(parts: Components, busy: Caller, path: str) -> None:
    with anyio.fail_after(30):
        head = await busy.http.head(path, headers=EVENTS)
    assert (head.status_code, head.headers["content-type"]) == (200, f"{MEDIA_TYPE}; charset=utf-8")
    assert head.headers["cache-control"] == "no-store"
    assert "content-length" not in head.headers
    metrics = (await busy.http.get("/metrics")).text
    assert "acker_event_streams 0.0" in metrics
    assert "acker_requests_waiting 0.0" in metrics


async def test_head_does_not_wait_for_a_root_or_a_completion(busy: Caller) -> None:
    await busy.put_spout("empty")
    with anyio.fail_after(30):
        for path in (ROOT, f"{DEFAULT}/spouts/empty/completions"):
            assert (await busy.http.head(f"{path}?wait_ms=60000")).status_code == 200


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0", "text/plain; version=x"])
async def test_head_of_the_metrics_names_the_form_that_get_has(api: httpx.AsyncClient, accept: str) -> None:
    await same_as_get(api, "/metrics", {"Accept": accept})


async def test_head_finds_that_another_replica_has_deleted_a_topology(
    parts: Components, busy: Caller, valkey_url: str
) -> None:
    gone = Caller(busy.http, "gone")
    await gone.put()
    await gone.put_spout()
    paths = [path.replace("default", "gone") for path in (f"{SPOUT}/completions", f"{DEFAULT}/roots", DEFAULT)]
    assert [(await busy.http.head(path)).status_code for path in paths] == [200] * 3
    replica = Components(valkey_url, window_ms=600_000)
    await replica.open()
    await replica.topology_deleter.delete("gone", DeleteMode.DISCARD)
    await replica.close()
    assert [(await busy.http.head(path)).status_code for path in paths] == [404] * 3


def test_nothing_of_a_body_is_on_the_connection(tmp_path: Path) -> None:
    options = ("--data-dir", str(tmp_path / "data"))
    with acker_serve(tmp_path, *options) as acker, httpx.Client(base_url=acker.url, limits=ONE_CONNECTION) as http:
        for path in (
            "/",
            "/livez",
            "/readyz",
            "/metrics",
            "/openapi.json",
            "/ui/",
            "/v1/topologies",
            DEFAULT,
            "/nothing",
        ):
            head = http.head(path)
            assert (head.content, "transfer-encoding" in head.headers) == (b"", False)
            assert http.get("/livez").json() == {"status": "alive"}
        assert "acker_connections 1.0" in http.get("/metrics").text


@pytest.mark.parametrize("role", [Role.ALL, Role.WORKER])
def test_every_route_that_answers_get_answers_head(role: Role) -> None:
    app = make_app(Components(NOWHERE, window_ms=600_000), Settings(role=role, redis_url=NOWHERE), asyncio.Event())
    methods = [route.methods or set() for route in iter_route_contexts(app.routes)]
    assert [each for each in methods if ("GET" in each) != ("HEAD" in each)] == []
