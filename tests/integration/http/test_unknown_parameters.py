"""A parameter of a query that is not known is refused, with the name that was meant."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.settings import Settings

from tests.support.caller import Caller, init
from tests.support.keys import bearer, keys_file

pytestmark = pytest.mark.anyio

V1 = "/v1/topologies"
DEFAULT = f"{V1}/default"
SPOUT = f"{DEFAULT}/spouts/orders"
ROOT = f"{DEFAULT}/roots/00000000000000a1"

MEANT = {
    f"GET {DEFAULT}/roots?limt=1": "limit",
    f"GET {DEFAULT}/roots?older_than=1": "older_than_ms",
    f"GET {DEFAULT}/roots?Limit=1": "limit",
    f"GET {ROOT}?waitms=1": "wait_ms",
    f"GET {ROOT}?wait-ms=1": "wait_ms",
    f"GET {SPOUT}/completions?wait=1": "wait_ms",
    f"GET {SPOUT}/completions?limit=1&afer=x": "after",
    f"GET {SPOUT}/dead-letters?limits=1": "limit",
    f"POST {DEFAULT}/batch?result=exceptions": "results",
    f"DELETE {DEFAULT}?forced=true": "force",
    f"DELETE {SPOUT}?discards=true": "discard",
}
"""Requests, and the parameter that each means."""

UNKNOWN = [
    f"GET {V1}?spouttask=x",
    f"GET {V1}?spout_task=x",
    f"GET {DEFAULT}?x=",
    f"GET {DEFAULT}?x",
    f"GET {DEFAULT}/roots?spouttask=x",
    f"GET {DEFAULT}/roots?=1",
    f"GET {DEFAULT}/spouts?limit=1",
    f"PUT {DEFAULT}?ackers=2",
    f"PUT {SPOUT}?ephemeral=true",
    f"POST {DEFAULT}/init?results=all",
    f"POST {DEFAULT}/ack?idempotency_key=k",
    f"POST {DEFAULT}/fail?reason=r",
    f"POST {DEFAULT}/reset-timeout?timeout_ms=1",
    f"POST {ROOT}/fail?reason=r",
    f"POST {SPOUT}/completions/release?cursor=x",
    f"POST {SPOUT}/completions/discard?until=x",
    f"POST {SPOUT}/dead-letters/replay?limit=1",
    f"POST {SPOUT}/dead-letters/discard?limit=1",
    f"POST {SPOUT}/secret/rotate?x=1",
    f"POST {SPOUT}/resume?x=1",
    f"GET {SPOUT}/completions?limit=1&x%20y=1",
]
"""Requests with a parameter that is not known there."""


async def sent(http: httpx.AsyncClient, asked: str) -> httpx.Response:
    method, url = asked.split(" ", 1)
    bodies = {"POST": {"json": {"ops": []}}, "PUT": {"json": {}}}
    return await http.request(method, url, **bodies.get(method, {}))  # type: ignore[arg-type]


@pytest.mark.parametrize(("asked", "meant"), MEANT.items(), ids=MEANT.keys())
async def test_a_parameter_that_is_misspelt_is_refused_with_the_one_that_is_meant(
    call: Caller, asked: str, meant: str
) -> None:
    await call.put_spout()
    answer = await sent(call.http, asked)
    assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (422, "invalid", False)
    assert meant in answer.json()["detail"].replace(asked.split("?")[1], "")


@pytest.mark.parametrize("asked", UNKNOWN)
async def test_a_parameter_that_is_not_known_is_refused_before_anything_is_done(call: Caller, asked: str) -> None:
    await call.put_spout()
    await call.post(init(0xA1, 9))
    before = [await call.show(), await call.spout()]
    answer = await sent(call.http, asked)
    assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (422, "invalid", False)
    assert [await call.show(), await call.spout()] == before


async def test_a_long_name_is_not_repeated_whole(api: httpx.AsyncClient) -> None:
    answer = await api.get(DEFAULT, params={"x" * 10_000: "1"})
    assert answer.status_code == 422
    assert len(answer.json()["detail"]) < 500


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/openapi.json"])
async def test_outside_the_versioned_addresses_any_parameter_is_passed_over(api: httpx.AsyncClient, path: str) -> None:
    """A scraper may add its own."""
    assert (await api.get(path, params={"name[]": "up"})).is_success


@pytest.mark.parametrize("query", ["", "?", "?limit=1", "?limit=1&cursor=", "?&&limit=1"])
async def test_what_is_known_is_taken_as_before(api: httpx.AsyncClient, query: str) -> None:
    assert (await api.get(f"{DEFAULT}/roots{query}")).status_code in {200, 422}
    assert "known" not in (await api.get(f"{DEFAULT}/roots{query}")).text


@pytest.mark.parametrize("key", [None, "no key that is known", "spout"])
async def test_a_caller_without_the_right_hears_no_name_of_a_parameter(
    parts: Components, tmp_path: Path, key: str | None
) -> None:
    app = make_app(parts, Settings(keys_file=keys_file(tmp_path, "spout", "admin")), asyncio.Event())
    headers = {} if key is None else bearer(key)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        refused = await http.delete(f"{DEFAULT}?forse=true", headers=headers)
        assert (refused.status_code, "force" in refused.text) == (403 if key == "spout" else 401, False)
        invalid = await http.delete(f"{DEFAULT}?forse=true", headers=bearer("admin"))
        assert (invalid.status_code, "force" in invalid.text) == (422, True)


async def test_an_unknown_parameter_is_refused_before_the_body_is_read(api: httpx.AsyncClient) -> None:
    async def body() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    answer = await api.post(f"{DEFAULT}/batch?result=all", content=body(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_every_parameter_of_the_document_is_known(api: httpx.AsyncClient) -> None:
    """And each is refused at every address that does not declare it."""
    document = (await api.get("/openapi.json")).json()
    declared = {
        (method, path): {
            parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"
        }
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if path.startswith("/v1")
    }
    for (method, path), known in declared.items():
        url = path.format(topology="none", spout_task="none", root_id="00000000000000a1")
        for name in set().union(*declared.values()):
            answer = await api.request(method, url, params={name: "1"})
            assert ("is not a parameter of the query" in answer.text) == (name not in known), (method, path, name)
