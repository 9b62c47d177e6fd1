"""Tests who is let in where: the contract's table, over every route that the application has."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_protocol.wire.operations import decode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service import VERSION
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http.auth import Needs
from acker_service.http.keys import Scope
from acker_service.http.operations import ROUTES
from acker_service.settings import Settings
from fastapi import FastAPI
from fastapi.routing import RouteContext, iter_route_contexts

from tests.support.keys import SCOPES, bearer, keys_file
from tests.support.servers import acker_serve, run_acker
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.anyio

OPEN = {"/", "/livez", "/readyz", "/metrics", "/openapi.json", "/ui"}
TOPOLOGY = "/v1/topologies/{topology}"
SPOUT = TOPOLOGY + "/spouts/{spout_task}"
ROOT = TOPOLOGY + "/roots/{root_id}"
CONTRACT = {
    "GET /v1/audit": "admin",
    "GET /v1/events": "ack",
    "GET /v1/links": "ack",
    "GET /v1/status": "admin",
    "GET /v1/topologies": "ack",
    f"GET {TOPOLOGY}": "ack",
    f"PUT {TOPOLOGY}": "admin",
    f"DELETE {TOPOLOGY}": "admin",
    f"POST {TOPOLOGY}/init": "spout",
    f"POST {TOPOLOGY}/ack": "ack",
    f"POST {TOPOLOGY}/fail": "ack",
    f"POST {TOPOLOGY}/reset-timeout": "ack",
    f"POST {TOPOLOGY}/batch": "ack",
    f"GET {TOPOLOGY}/ages": "ack",
    f"GET {TOPOLOGY}/components": "ack",
    f"GET {TOPOLOGY}/failures": "ack",
    f"GET {TOPOLOGY}/history": "ack",
    f"GET {TOPOLOGY}/roots": "ack",
    f"POST {TOPOLOGY}/roots/states": "ack",
    f"GET {ROOT}": "ack",
    f"GET {ROOT}/tree": "ack",
    f"POST {ROOT}/fail": "admin",
    f"GET {TOPOLOGY}/spouts": "spout",
    f"GET {SPOUT}": "spout",
    f"PUT {SPOUT}": "spout",
    f"DELETE {SPOUT}": "spout",
    f"POST {SPOUT}/secret/rotate": "spout",
    f"POST {SPOUT}/resume": "spout",
    f"POST {SPOUT}/pause": "spout",
    f"POST {SPOUT}/test": "spout",
    f"GET {SPOUT}/completions": "spout",
    f"POST {SPOUT}/completions/release": "spout",
    f"POST {SPOUT}/completions/discard": "admin",
    f"GET {SPOUT}/dead-letters": "spout",
    f"POST {SPOUT}/dead-letters/replay": "spout",
    f"POST {SPOUT}/dead-letters/discard": "admin",
}
"""What each endpoint of the contract asks for; HEAD asks for what GET asks for."""
NOWHERE = "redis://127.0.0.1:1"


def client_of(app: FastAPI, **more: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1", **more)


def every_route() -> Iterable[RouteContext]:
    app = make_app(Components(NOWHERE, window_ms=600_000), Settings(), asyncio.Event())
    return [route for route in iter_route_contexts(app.routes) if route.path not in OPEN]


def endpoints() -> list[tuple[str, str, str]]:
    """Every (method, path, scope the contract asks for) of the application."""
    found = [f"{method} {route.path_format}" for route in every_route() for method in sorted(route.methods or {"?"})]
    found += [f"POST {route.template}" for route in ROUTES.values()]
    return [(*name.split(" "), CONTRACT.get(name.replace("HEAD ", "GET "), "not of the contract")) for name in found]  # type: ignore[misc]


ENDPOINTS = endpoints()


@pytest.fixture
async def storeless(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """An application whose store cannot be reached, with a key of each scope for the topology `orders`."""
    parts = Components(NOWHERE, window_ms=600_000)
    settings = Settings(keys_file=keys_file(tmp_path, *SCOPES, topologies=["orders"]))
    async with client_of(make_app(parts, settings, asyncio.Event())) as client:
        yield client
    await parts.close()


@pytest.fixture
async def keyed(parts: Components, stopping: asyncio.Event, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The whole application on a real store, with a key of each scope for `orders`; there is `payments` as well."""
    settings = Settings(keys_file=keys_file(tmp_path, *SCOPES, topologies=["orders"]))
    app = make_app(parts, settings, stopping)
    async with client_of(make_app(parts, Settings(), stopping)) as anybody:
        for topology in ("orders", "payments"):
            await anybody.put(f"/v1/topologies/{topology}")
    async with client_of(app) as client:
        yield client


def address(path: str, topology: str) -> str:
    once = "?limit=1" if path == "/v1/events" else ""  # the stream would not end
    return path.format(topology=topology, spout_task="orders-1", root_id="00000000000000a1") + once


async def ask(client: httpx.AsyncClient, method: str, target: str, headers: dict[str, str]) -> tuple[int, str]:
    answer = await client.request(method, target, headers=headers)
    return answer.status_code, code_of(answer)


def code_of(answer: httpx.Response) -> str:
    is_json = answer.headers.get("content-type", "").endswith("json")
    return str(answer.json().get("code", "")) if is_json and answer.content else ""


def refusal(method: str, status: int, code: str) -> tuple[int, str]:
    """What a refused request is answered; the answer to HEAD has no body, and so no code."""
    return status, "" if method == "HEAD" else code


def test_every_route_declares_what_it_needs():
    declared = {
        f"{method} {route.path_format}": [need.dependency.scope for need in route.dependencies if _is_need(need)]
        for route in every_route()
        for method in route.methods or {"?"}
    }
    declared |= {f"POST {route.template}": [route.need] for route in ROUTES.values()}
    assert declared == {f"{method} {path}": [Scope(scope)] for method, path, scope in ENDPOINTS}


def _is_need(dependency: Any) -> bool:
    return isinstance(dependency.dependency, Needs)


@pytest.mark.parametrize(("method", "path", "need"), ENDPOINTS)
async def test_without_a_key_nobody_is_let_in(storeless, method, path, need):
    for headers in ({}, bearer("unknown"), bearer(""), {"Authorization": "Basic admin"}, {"Authorization": "admin"}):
        answer = await storeless.request(method, address(path, "orders"), headers=headers)
        assert (answer.status_code, code_of(answer)) == refusal(method, 401, "unauthorized")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("method", "path", "need", "scope"), [(*endpoint, scope) for endpoint, scope in product(ENDPOINTS, SCOPES)]
)
async def test_a_scope_is_let_in_where_the_contract_says_so(storeless, method, path, need, scope):
    status, code = await ask(storeless, method, address(path, "orders"), bearer(scope))
    if Scope(scope).includes(Scope(need)):
        assert status not in (401, 403)
    else:
        assert (status, code) == refusal(method, 403, "forbidden")


@pytest.mark.parametrize(
    ("method", "path", "scope"), [(m, path, s) for (m, path, _), s in product(ENDPOINTS, SCOPES) if "{" in path]
)
async def test_a_foreign_topology_is_forbidden_whatever_the_scope(storeless, method, path, scope):
    for topology in ("payments", "default", "order", "Orders", "no%20name"):
        answer = await ask(storeless, method, address(path, topology), bearer(scope))
        assert answer == refusal(method, 403, "forbidden")


async def test_a_foreign_topology_looks_the_same_whether_it_exists_or_not(keyed):
    answers = [await keyed.get(f"/v1/topologies/{name}", headers=bearer("admin")) for name in ("payments", "nothing")]
    assert answers[0].status_code == 403
    assert answers[0].text.replace("payments", "nothing") == answers[1].text


@pytest.mark.parametrize("path", ["/", "/livez", "/readyz", "/metrics", "/openapi.json"])
async def test_who_watches_the_process_needs_no_key(keyed, path):
    assert (await keyed.get(path)).is_success


@pytest.mark.parametrize("headers", [{}, bearer("unknown"), {"Authorization": "Basic YWNrOmFjaw=="}])
async def test_the_index_gives_the_version_only_with_a_key(keyed, headers):
    without, shown = [(await keyed.get("/", headers=each)).json() for each in (headers, bearer("ack"))]
    assert without == {name: value for name, value in shown.items() if name != "version"}
    assert (shown["name"], shown["version"]) == ("acker", VERSION)
    for path in shown["links"].values():
        assert (await keyed.get(path, headers=bearer("ack"))).is_success


async def test_only_topologies_that_the_key_is_for_are_listed(keyed):
    listed = (await keyed.get("/v1/topologies", headers=bearer("ack"))).json()["topologies"]
    assert [topology["topology"] for topology in listed] == ["orders"]


async def test_the_document_says_which_scope_each_endpoint_asks_for(keyed):
    paths = (await keyed.get("/openapi.json")).json()["paths"]
    told = {(method.upper(), path): op.get("security") for path, ops in paths.items() for method, op in ops.items()}
    assert {where: told[where] for where in told if where[1] not in OPEN} == {
        (method, path): [{"key": [need]}] for method, path, need in ENDPOINTS if method != "HEAD"
    }


async def test_the_scheme_is_written_in_any_case(keyed):
    assert (await keyed.get("/v1/topologies/orders", headers={"Authorization": "bearer ack"})).is_success


@pytest.mark.parametrize(("secret", "status"), [("unknown", 401), ("ack", 403)])
async def test_who_is_not_let_in_sends_no_body(storeless, secret, status):
    async def body() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    headers = bearer(secret) | {"Content-Type": "application/json"}
    answer = await storeless.post("/v1/topologies/orders/init", content=body(), headers=headers)
    assert answer.status_code == status


INIT = {"op": "init", "root_id": "00000000000000a1", "spout_task": "orders-1", "edges": ["00000000000000b1"]}
ACK = {"op": "ack", "root_id": "00000000000000a1", "edge_id": "00000000000000b1"}


class TestBatch:
    async def post(self, client: httpx.AsyncClient, scope: str, *ops: dict[str, Any]) -> httpx.Response:
        return await client.post("/v1/topologies/orders/batch", json={"ops": ops}, headers=bearer(scope))

    async def test_acks_need_the_scope_ack(self, keyed):
        assert (await self.post(keyed, "ack", ACK)).json()["results"] == ["early"]

    async def test_an_init_among_them_needs_the_scope_spout_and_nothing_is_applied(self, keyed):
        refused = await self.post(keyed, "ack", ACK, INIT)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        applied = await self.post(keyed, "spout", INIT, ACK)
        assert applied.json()["results"] == ["pending", "acked"]

    @pytest.mark.parametrize(("scope", "status"), [("ack", 403), ("spout", 200)])
    async def test_an_init_among_them_needs_the_scope_spout_in_the_packed_form_too(self, keyed, scope, status):
        body = encode_packed(decode_batch({"ops": [ACK, INIT]}, max_operations=2))
        headers = bearer(scope) | {"Content-Type": CONTENT_TYPE}
        answer = await keyed.post("/v1/topologies/orders/batch", content=body, headers=headers)
        assert answer.status_code == status


async def test_a_discard_of_a_spout_task_needs_the_scope_admin(storeless):
    spout_task = "/v1/topologies/orders/spouts/orders-1"
    assert await ask(storeless, "DELETE", f"{spout_task}?discard=true", bearer("spout")) == (403, "forbidden")
    assert await ask(storeless, "DELETE", f"{spout_task}?discard=false", bearer("spout")) == (503, "store_unavailable")
    assert await ask(storeless, "DELETE", f"{spout_task}?discard=true", bearer("admin")) == (503, "store_unavailable")


class TestProcess:
    def test_a_file_that_changes_is_taken_over(self, tmp_path: Path, valkey_url: str):
        path = keys_file(tmp_path, "ack")
        with acker_serve(tmp_path, "--redis-url", valkey_url, "--keys-file", str(path)) as acker:

            def status(secret: str) -> int:
                return acker.http.get("/v1/topologies/default", headers=bearer(secret)).status_code

            assert (status("ack"), status("admin")) == (200, 401)
            keys_file(tmp_path, "admin")
            eventually_true(lambda: (status("ack"), status("admin")) == (401, 200))
            path.write_text("{")
            eventually_true(lambda: "the keys stay as they are" in acker.log.read_text())
            assert (status("ack"), status("admin")) == (401, 200)

    def test_with_keys_any_address_is_served(self, tmp_path: Path, valkey_url: str):
        options = ("--redis-url", valkey_url, "--host", "0.0.0.0", "--keys-file", str(keys_file(tmp_path, "ack")))
        with acker_serve(tmp_path, *options) as acker:
            assert acker.http.get("/v1/topologies").status_code == 401

    def test_keys_that_cannot_be_read_end_it_before_anything_is_begun(self, tmp_path: Path):
        path, data = keys_file(tmp_path, "root"), tmp_path / "data"
        done = run_acker("serve", "--keys-file", str(path), "--data-dir", str(data), "--port", "0")
        assert done.returncode == 2
        error = f"{path}: keys.0.scope: Input should be 'ack', 'spout' or 'admin'"
        assert done.stderr == f"acker: --keys-file (ACKER_KEYS_FILE): {error}; docs/access.md shows such a file\n"
        assert not data.exists()
