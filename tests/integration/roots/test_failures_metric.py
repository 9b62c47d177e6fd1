"""Failures are counted by component in Redis: once, whichever replica is asked, in a bounded number of series."""

import asyncio

import httpx
import pytest
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.settings import Settings
from acker_service.topologies.stats import MAX_COMPONENTS

from tests.integration.roots.test_failures import time_out
from tests.support.caller import Caller, ack, fail, init
from tests.support.exposition import scrape
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

E, F = 0xE1, 0xE2
Rows = dict[tuple[str, ...], float]


async def rows(http: httpx.AsyncClient) -> Rows:
    return (await scrape(http)).rows("acker_failures_total", "topology", "outcome", "component")


async def seen(http: httpx.AsyncClient, expected: Rows) -> None:
    """Wait until a look at the store, which may be a second old, shows what is expected."""

    async def look() -> bool:
        return await rows(http) == expected

    await eventually(look)


async def test_failures_are_counted_by_outcome_and_component(call: Caller) -> None:
    await call.put(ackers=4)
    await call.states(*[op for root in range(1, 31) for op in (init(root, E), fail(root, component="price"))])
    await call.states(init(31, E), fail(31, reason="no component"), init(32, E), fail(32, component="pack"))
    await call.states(fail(32, component="price"))
    counted = {("default", "failed", "price"): 30, ("default", "failed", ""): 1, ("default", "failed", "pack"): 1}
    await seen(call.http, counted)


async def test_a_root_that_timed_out_counts_for_the_component_that_acked_last(call: Caller, parts: Components) -> None:
    await time_out(parts, call, [1])
    await call.states(init(2, E, F, message_timeout_ms=100), ack(2, E, component="stock"))
    topology = await parts.registry.get("default")

    async def is_over() -> bool:
        return await parts.expiry.expire(topology) == 1

    await eventually(is_over)
    await seen(call.http, {("default", "timed_out", ""): 1, ("default", "timed_out", "stock"): 1})


async def test_each_replica_shows_the_failures_of_all(call: Caller, parts: Components, stopping: asyncio.Event) -> None:
    other = Components(parts.redis.url, window_ms=600_000)
    transport = httpx.ASGITransport(app=make_app(other, Settings(), stopping))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        await call.states(init(1, E), fail(1, component="price"))
        await Caller(http).states(init(2, E), fail(2, component="price"))
        for replica in (call.http, http):
            await seen(replica, {("default", "failed", "price"): 2})
    await other.close()


async def test_components_beyond_a_bound_share_a_series(call: Caller) -> None:
    wide = Caller(call.http, "wide")
    await wide.put(ackers=8)
    number = 4 * MAX_COMPONENTS
    for root in range(1, number + 1):
        await wide.states(init(root, E), fail(root, component=f"bolt-{root}"))

    async def all_counted() -> bool:
        return sum((await rows(call.http)).values()) == number

    await eventually(all_counted)
    found = await rows(call.http)
    assert len(found) == MAX_COMPONENTS + 1
    assert found["wide", "failed", "other"] == number - MAX_COMPONENTS
    assert found["wide", "failed", "bolt-1"] == 1
