"""What /metrics tells is exactly what happened."""

import asyncio
import itertools
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from acker_protocol.wire.operations import decode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service import VERSION
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http import auth
from acker_service.http.keys import Key, Scope, digest_of
from acker_service.http.sse import EventStreams
from acker_service.monitoring import snapshot
from acker_service.operations.request import ApplyRequest
from acker_service.redis.embedded import EmbeddedServer
from acker_service.settings import Settings
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.caller import Caller, ack, fail, init, reset_timeout
from tests.support.columns import batch_of
from tests.support.exposition import Exposition, read, scrape
from tests.support.raw_http import RawHttp
from tests.support.redis_side import everywhere
from tests.support.servers import acker_serve
from tests.support.tasks import root_expiry, spout_expiry
from tests.support.waiting import eventually, eventually_true

pytestmark = pytest.mark.anyio

E, F, G = 0xE1, 0xE2, 0xE4
SHORT = {"message_timeout_ms": 100}
DEFAULT = "/v1/topologies/default"


def client_of(parts: Components, stopping: asyncio.Event, **settings: Any) -> httpx.AsyncClient:
    app = make_app(parts, Settings(**settings), stopping)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")


async def operations(http: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    """How many operations on the default topology were answered each word."""
    rows = (await scrape(http)).rows("acker_operations_total", "topology", "operation", "state")
    return {key[1:]: count for key, count in rows.items() if key[0] == "default"}


async def value(http: httpx.AsyncClient, sample: str, **labels: str) -> float | None:
    """The value of one sample."""
    return (await scrape(http)).value(sample, **labels)


async def seen(http: httpx.AsyncClient, expected: float, sample: str, **labels: str) -> None:
    """Wait until a look at the store, which may be a second old, tells what is expected."""

    async def look() -> bool:
        return await value(http, sample, **labels) == expected

    await eventually(look)


MIXED = [
    init(1, E),
    init(2, E, F),
    init(3, E, F),
    *(ack(1, E), ack(2, E), ack(2, F), ack(3, E), ack(4, G)),
    init(1, E),
    init(2, E, message_id="another"),
    init(3, E, spout_task="others"),
    *(fail(3), fail(3), reset_timeout(5), reset_timeout(4), init(6, E), reset_timeout(6), init(6, E)),
]
ANSWERED = {
    ("init", "pending"): 4,
    ("init", "finished"): 2,
    ("init", "conflict"): 1,
    ("init", "duplicate"): 1,
    ("ack", "acked"): 2,
    ("ack", "pending"): 2,
    ("ack", "early"): 1,
    ("fail", "failed"): 1,
    ("fail", "finished"): 1,
    ("reset_timeout", "unknown"): 2,
    ("reset_timeout", "pending"): 1,
}


async def one_by_one(call: Caller, _: Components) -> None:
    for op in MIXED:
        await call.post(op)


async def as_json(call: Caller, _: Components) -> None:
    await call.states(*MIXED)


async def as_packed(call: Caller, _: Components) -> None:
    body = encode_packed(decode_batch({"ops": MIXED}, max_operations=100))
    await call.http.post(f"{DEFAULT}/batch", content=body, headers={"Content-Type": CONTENT_TYPE})


async def as_json_that_only_the_reference_codec_reads(call: Caller, _: Components) -> None:
    body = '{"ops": [1], ' + json.dumps({"ops": MIXED})[1:]
    await call.http.post(f"{DEFAULT}/batch", content=body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("send", [one_by_one, as_json, as_packed, as_json_that_only_the_reference_codec_reads])
async def test_operations_are_counted_by_kind_and_word(
    call: Caller, parts: Components, send: Callable[[Caller, Components], Awaitable[None]]
) -> None:
    await send(call, parts)
    assert await operations(call.http) == ANSWERED


async def test_a_repeated_request_is_counted_apart(call: Caller) -> None:
    ops = [init(root, E) for root in (1, 2, 3)] + [ack(1, E), ack(1, E)]
    for _ in range(3):
        await call.batch(*ops, key="k")
    once = {("init", "pending"): 3, ("ack", "acked"): 1, ("ack", "finished"): 1}
    assert await operations(call.http) == once
    rows = (await scrape(call.http)).rows("acker_operations_repeated_total", "operation")
    assert rows == {("init",): 6, ("ack",): 4}
    await seen(call.http, 1, "acker_completions_total", topology="default", outcome="acked")


async def test_each_topology_is_counted_by_itself(call: Caller) -> None:
    other = Caller(call.http, "other")
    await other.put()
    await call.states(init(1, E), init(2, E))
    await other.post(init(1, E))
    rows = (await scrape(call.http)).rows("acker_operations_total", "topology", "state")
    assert rows == {("default", "pending"): 2, ("other", "pending"): 1}
    await seen(call.http, 2, "acker_roots_pending", topology="default")
    await seen(call.http, 1, "acker_roots_pending", topology="other")


async def test_what_is_refused_is_counted_too(call: Caller) -> None:
    await call.put(max_spout_pending=1)
    await call.states(init(1, E), init(2, E))
    await call.post(init(3, E))
    assert await operations(call.http) == {("init", "pending"): 1, ("init", "max_spout_pending"): 2}


async def test_a_fail_by_an_operator_has_a_kind_of_its_own(call: Caller) -> None:
    await call.post(init(1, E))
    for root in (1, 1, 2):
        await call.force_fail(root)
    forced = {("forced_fail", "failed"): 1, ("forced_fail", "finished"): 1}
    assert await operations(call.http) == {("init", "pending"): 1} | forced


async def test_timeouts_are_counted_where_they_happen(call: Caller, parts: Components) -> None:
    await call.states(init(1, E, **SHORT), init(2, E), init(3, E, **SHORT))
    ended: list[int] = []

    async def tick() -> bool:
        ended.append(await parts.expiry.expire(await parts.registry.get("default")))
        return sum(ended) == 2

    await eventually(tick)
    assert await value(call.http, "acker_tick_roots_ended_total", topology="default") == 2
    await seen(call.http, 2, "acker_completions_total", topology="default", outcome="timed_out")
    await seen(call.http, 1, "acker_roots_pending", topology="default")


async def test_the_histogram_of_complete_latencies_holds_every_completion(call: Caller, parts: Components) -> None:
    """Of two replicas, whichever is asked."""
    other = Components(parts.redis.url, window_ms=600_000)
    topology = await other.registry.refresh("default")
    await call.states(*(init(root, E, **SHORT) for root in range(1, 6)), *(init(root, E) for root in range(6, 40)))
    await other.applier.apply(
        topology, ApplyRequest(endpoint="batch", operations=batch_of(decode_batch({"ops": FAILS}, max_operations=100)))
    )
    await call.states(*(ack(root, E) for root in range(20, 40)))
    await eventually(lambda: all_ended(call, other))
    await other.close()
    completions = (await call.completions())["completions"]
    for outcome in ("acked", "failed", "timed_out"):
        latencies = [done["complete_latency_ms"] for done in completions if done["outcome"] == outcome]
        labels = {"topology": "default", "outcome": outcome}
        await seen(call.http, len(latencies), "acker_complete_latency_seconds_count", **labels)
        exposition = await scrape(call.http)
        assert exposition.value("acker_complete_latency_seconds_sum", **labels) == sum(latencies) / 1_000
        buckets = exposition.rows("acker_complete_latency_seconds_bucket", "outcome", "le")
        for exponent in range(23):
            within = sum(latency <= 2**exponent for latency in latencies)
            assert buckets.get((outcome, str(2**exponent / 1_000)), 0) == within


FAILS = [fail(root) for root in range(6, 20)]


async def all_ended(call: Caller, parts: Components) -> bool:
    await parts.expiry.expire(await parts.registry.get("default"))
    return (await call.show())["pending"] == 0


async def test_completions_are_counted_as_they_are_read_released_and_discarded(call: Caller) -> None:
    await call.states(*(init(root) for root in range(1, 6)))
    read = await call.completions(limit=3)
    await call.completions(limit=10)
    await call.release(read["cursor"])
    await call.release(read["cursor"])
    await call.http.post(f"{DEFAULT}/spouts/orders/completions/discard")
    exposition = await scrape(call.http)
    assert exposition.value("acker_completions_read_total", topology="default") == 3 + 5
    assert exposition.value("acker_completions_released_total", topology="default") == 3
    assert exposition.value("acker_completions_discarded_total", topology="default", by="discard") == 2
    await seen(call.http, 0, "acker_completions_unread", topology="default")
    await seen(call.http, 5, "acker_completions_total", topology="default", outcome="acked")


async def test_what_is_removed_is_counted_with_what_was_unread_in_it(call: Caller) -> None:
    gone = Caller(call.http, "gone")
    await gone.put()
    await gone.states(init(1), init(2, spout_task="others"), init(3, spout_task="others"))
    await gone.put_spout("idle")
    await call.http.delete("/v1/topologies/gone/spouts/idle")
    await call.http.delete("/v1/topologies/gone/spouts/others?discard=true")
    await call.http.delete("/v1/topologies/gone?force=true&discard=true")
    exposition = await scrape(call.http)
    why = exposition.rows("acker_spout_tasks_removed_total", "topology", "why")
    assert why == {("gone", "idle"): 1, ("gone", "discard"): 1}
    by = exposition.rows("acker_completions_discarded_total", "topology", "by")
    assert by == {("gone", "spout_task"): 2, ("gone", "topology"): 1}
    assert exposition.value("acker_topologies_removed_total") == 1


async def test_an_ephemeral_spout_task_that_goes_is_counted_as_unused(valkey_url: str, call: Caller) -> None:
    idle = Components(valkey_url, window_ms=600_000, spout_idle_ms=0)
    await call.put_spout("brief", ephemeral=True)

    async def gone() -> bool:
        await idle.spout_deleter.expire_unused(await idle.registry.refresh("default"))
        return "code" in await call.spout("brief")

    await eventually(gone)
    async with client_of(idle, asyncio.Event()) as http:
        rows = (await scrape(http)).rows("acker_spout_tasks_removed_total", "topology", "why")
    await idle.close()
    assert rows == {("default", "unused"): 1}


async def test_early_roots_that_are_dropped_and_unbalanced_ones_are_counted(call: Caller, parts: Components) -> None:
    await call.put(message_timeout_ms=100)
    unbalanced = {"op": "init", "root_id": f"{1:016x}", "spout_task": "orders", "ack_val": f"{E:016x}"}
    await call.states(unbalanced | {"outstanding": 2}, ack(1, E), ack(2, E))
    await eventually(lambda: dropped(call, parts))
    await seen(call.http, 1, "acker_early_roots_dropped_total", topology="default")
    await seen(call.http, 1, "acker_unbalanced_total", topology="default")


async def dropped(call: Caller, parts: Components) -> bool:
    await parts.expiry.expire(await parts.registry.get("default"))
    return bool((await call.show())["counts"]["dropped"])


async def test_requests_are_counted_by_route_method_and_status(call: Caller) -> None:
    await call.post(init(1, E))
    await call.post(init(1, E, spout_task="others"))
    await call.batch(ack(1, E))
    await call.http.get("/v1/topologies/unknown")
    await call.http.get("/no/such/address")
    await call.http.request("BREW", "/livez")
    await call.http.get("/livez")
    await call.http.get("/metrics")
    rows = (await scrape(call.http)).rows("acker_requests_total", "route", "method", "status")
    assert rows == {
        ("/v1/topologies/{topology}/init", "POST", "200"): 1,
        ("/v1/topologies/{topology}/init", "POST", "409"): 1,
        ("/v1/topologies/{topology}/batch", "POST", "200"): 1,
        ("/v1/topologies/{topology}", "GET", "404"): 1,
        ("other", "GET", "404"): 1,
        ("/livez", "other", "405"): 1,
        ("/livez", "GET", "200"): 1,
        ("/metrics", "GET", "200"): 1,
    }
    latencies = (await scrape(call.http)).rows("acker_request_seconds_count", "route", "method")
    assert latencies["/v1/topologies/{topology}/init", "POST"] == 2


async def test_a_fault_of_our_own_is_counted_as_500(call: Caller, parts: Components, stopping: asyncio.Event) -> None:
    parts.roots = None  # type: ignore[assignment]
    transport = httpx.ASGITransport(app=make_app(parts, Settings(), stopping), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        assert (await http.get(f"{DEFAULT}/roots/{1:016x}")).status_code == 500
        rows = (await scrape(http)).rows("acker_requests_total", "route", "status")
        assert rows["/v1/topologies/{topology}/roots/{root_id}", "500"] == 1
        assert (await scrape(http)).rows("acker_problems_total", "code") == {("problem",): 1}


async def test_refusals_of_keys_are_counted(parts: Components, stopping: asyncio.Event) -> None:
    app = make_app(parts, Settings(), stopping)
    auth.install(app, [Key(name="a", digest=digest_of("secret"), scope=Scope.ACK)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        shown = {"Authorization": "Bearer secret"}
        for headers in ({}, {"Authorization": "Bearer wrong"}, shown):
            await http.put(DEFAULT, headers=headers)
        assert (await http.get(DEFAULT, headers=shown)).status_code == 200
        rows = (await scrape(http)).rows("acker_problems_total", "code")
        assert rows == {("unauthorized",): 2, ("forbidden",): 1}


async def test_what_is_under_way_and_what_finds_no_place_is_counted(parts: Components, stopping: asyncio.Event) -> None:
    go = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b" " * 600
        await go.wait()

    bounds = {"max_in_flight": 2, "max_waiting": 0, "max_body_bytes": 1_024, "max_in_flight_bytes": 1_024}
    json = {"Content-Type": "application/json"}
    async with client_of(parts, stopping, **bounds) as http, anyio.create_task_group() as group:
        group.start_soon(lambda: http.post(f"{DEFAULT}/ack", content=slow(), headers=json))
        await eventually(lambda: is_told(http, 600, "acker_body_bytes"))
        assert (await http.post(f"{DEFAULT}/ack", content=b" " * 600, headers=json)).status_code == 503
        assert (await http.get(f"{DEFAULT}/spouts/orders/completions?wait_ms=1000")).status_code == 503
        group.start_soon(lambda: http.post(f"{DEFAULT}/fail", content=slow_head(go), headers=json))
        await eventually(lambda: is_told(http, 2, "acker_requests_in_flight"))
        assert (await http.get(DEFAULT)).status_code == 503
        exposition = await scrape(http)
        go.set()
    reasons = exposition.rows("acker_overloaded_total", "reason")
    assert reasons == {("body_bytes",): 1, ("waiting",): 1, ("in_flight",): 1}
    assert exposition.rows("acker_problems_total", "code") == {("overloaded",): 3}


async def slow_head(go: asyncio.Event) -> AsyncIterator[bytes]:
    await go.wait()
    yield b"{}"


async def is_told(http: httpx.AsyncClient, expected: float, sample: str) -> bool:
    return await value(http, sample) == expected


@pytest.mark.own_application
async def test_who_waits_and_open_streams_are_counted_while_they_do(
    call: Caller, parts: Components, stopping: asyncio.Event
) -> None:
    await call.put_spout()
    streams = EventStreams(followers=parts.followers, metrics=parts.metrics.http, stopping=stopping)
    chunks = await streams.respond(await parts.registry.get("default"), "orders", None, 10, check=lambda: None)
    stream = chunks.body_iterator
    assert await anext(stream) == b":\n\n"
    assert await value(call.http, "acker_event_streams") == 1
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: call.completions(wait_ms=60_000))
        await eventually(lambda: is_told(call.http, 1, "acker_requests_waiting"))
        stopping.set()
    async for _ in stream:
        pass
    assert await value(call.http, "acker_requests_waiting") == 0
    assert await value(call.http, "acker_event_streams") == 0


async def test_calls_to_redis_are_counted(call: Caller, parts: Components) -> None:
    topology = await parts.registry.get("default")
    before = (await scrape(call.http)).rows("acker_store_calls_total", "call")
    await parts.stats.read(topology)
    await call.states(ack(4, E), ack(8, F))
    after = (await scrape(call.http)).rows("acker_store_calls_total", "call")
    assert after["acker_read_counts_v2",] - before["acker_read_counts_v2",] == 4
    assert after["acker_apply_v2",] == 1, "both roots live in one shard"
    trips = (await scrape(call.http)).rows("acker_store_round_trip_seconds_count", "call")
    assert trips["acker_read_counts_v2",] < after["acker_read_counts_v2",]


async def test_a_call_that_was_answered_stale_is_counted(call: Caller, parts: Components) -> None:
    await call.post(ack(4, E))
    other = Components(parts.redis.url, window_ms=600_000)
    await other.registry.create_or_update("default", lambda present: present)  # type: ignore[arg-type, return-value]
    await other.close()
    assert await call.state(ack(4, F)) == "early"
    exposition = await scrape(call.http)
    assert exposition.value("acker_store_stale_total") == 1
    assert await operations(call.http) == {("ack", "early"): 2}


async def test_a_library_that_was_forgotten_is_counted(call: Caller, parts: Components) -> None:
    await everywhere(parts, "FUNCTION", "FLUSH")
    await call.post(ack(4, E))
    assert await value(call.http, "acker_store_library_loads_total") == 1


async def test_hints_are_counted_and_those_that_did_not_come(call: Caller, parts: Components) -> None:
    topology = await parts.registry.get("default")
    await call.put_spout()
    deaf = Components(parts.redis.url, window_ms=600_000)
    spout = await deaf.spouts.get(topology, "orders")
    with deaf.mailbox_notifier.waiting(topology, spout):
        await deaf.mailbox_notifier._poll()
        await call.post(init(1))
        await deaf.mailbox_notifier._poll()
        await deaf.mailbox_notifier._poll()
    async with client_of(deaf, asyncio.Event()) as http:
        exposition = await scrape(http)
    await deaf.close()
    assert exposition.value("acker_hints_missed_total") == 1
    assert exposition.value("acker_hint_sweeps_total") == 3
    assert exposition.value("acker_hints_total") == 0

    roots = itertools.count(2)

    async def hinted() -> bool:
        await call.post(init(next(roots)))
        return bool(await value(call.http, "acker_hints_total"))

    with parts.mailbox_notifier.waiting(topology, spout):
        await eventually(hinted)


async def test_visits_are_counted_by_how_they_went(call: Caller, parts: Components) -> None:
    tick, expiry = root_expiry(parts, interval=1), spout_expiry(parts, interval=1)
    await tick._run_measured("default")
    await expiry._run_measured("default")
    await tick._run_measured("nowhere")
    tick._expiry = None  # type: ignore[assignment]
    await tick._run_measured("default")
    exposition = await scrape(call.http)
    assert exposition.rows("acker_visits_total", "rounds", "result") == Counter(
        [("tick", "done"), ("spout_expiry", "done"), ("tick", "waiting"), ("tick", "failed")]
    )
    assert exposition.rows("acker_visit_seconds_count", "rounds") == {("tick",): 3, ("spout_expiry",): 1}


async def test_the_rounds_tell_how_late_the_event_loop_is(call: Caller, parts: Components) -> None:
    tick = root_expiry(parts, interval=0.01)
    tick.start()

    async def rested() -> bool:
        return (await value(call.http, "acker_event_loop_lag_seconds_count") or 0) >= 3

    await eventually(rested)
    await tick.stop()


@pytest.mark.usefixtures("slow_store_allowed")
async def test_a_store_that_is_away_costs_only_what_is_read_from_it(
    tmp_path: Path, stopping: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MIN_INTERVAL_S", 0.0)  # every scrape looks
    embedded = EmbeddedServer(tmp_path / "valkey")
    await embedded.start()
    parts = Components(embedded.url, window_ms=600_000)
    await parts.open()
    async with client_of(parts, stopping) as http:
        await Caller(http).post(init(1, E))
        assert await value(http, "acker_store_up") == 1
        assert await value(http, "acker_roots_pending", topology="default") == 1
        await embedded.stop()
        exposition = await scrape(http)
        assert exposition.value("acker_store_up") == 0
        assert "acker_roots_pending" not in exposition.families
        assert "acker_store_used_bytes" not in exposition.families
        assert await operations(http) == {("init", "pending"): 1}
        assert exposition.value("acker_store_faults_total", kind="connection") != 0
    await parts.close()


async def test_a_store_that_hangs_is_not_waited_for(tmp_path: Path, stopping: asyncio.Event) -> None:
    embedded = EmbeddedServer(tmp_path / "valkey")
    await embedded.start()
    parts = Components(embedded.url, window_ms=600_000)
    await parts.open()
    os.kill(embedded.pid, signal.SIGSTOP)
    try:
        async with client_of(parts, stopping) as http:
            exposition = await scrape(http)
    finally:
        os.kill(embedded.pid, signal.SIGCONT)
    await parts.close()
    await embedded.stop()
    assert exposition.value("acker_store_up") == 0
    assert exposition.value("acker_store_faults_total", kind="timeout") == 0, "it came before Redis's time was up"


@pytest.mark.usefixtures("slow_store_allowed")
async def test_a_store_that_is_full_is_told(tmp_path: Path, stopping: asyncio.Event) -> None:
    embedded = EmbeddedServer(tmp_path / "valkey")
    await embedded.start()
    parts = Components(embedded.url, window_ms=600_000)
    await parts.open()
    async with client_of(parts, stopping) as http:
        used = await value(http, "acker_store_used_bytes")
        assert used is not None
        assert await value(http, "acker_store_full") == 0
        await everywhere(parts, "CONFIG SET", "maxmemory", int(used))
        await parts.backpressure.refresh()
        assert await value(http, "acker_store_full") == 1
        assert await value(http, "acker_store_max_bytes") == int(used)
        await Caller(http).post(init(1, E))
        assert await operations(http) == {("init", "store_full"): 1}
    await parts.close()
    await embedded.stop()


async def test_two_ackers_in_a_process_count_apart(call: Caller, valkey_url: str, stopping: asyncio.Event) -> None:
    replica = Components(valkey_url, window_ms=600_000)
    async with client_of(replica, stopping) as http:
        await Caller(http).post(init(1, E))
        assert await operations(http) == {("init", "pending"): 1}
        assert await operations(call.http) == {}
    await replica.close()


async def test_whoever_prefers_openmetrics_gets_it(api: httpx.AsyncClient) -> None:
    await Caller(api).post(init(1, E))
    answer = await api.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families["acker_operations"].samples[0].value == 1


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain;version=x", "application/openmetrics-text;version=1.x.y"])
async def test_everybody_else_gets_text(api: httpx.AsyncClient, accept: str) -> None:
    answer = await api.get("/metrics", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/plain")


async def test_the_version_is_told(api: httpx.AsyncClient) -> None:
    assert await value(api, "acker_build_info", version=VERSION) == 1


def test_a_process_tells_its_connections_and_the_heads_it_refused(tmp_path: Path) -> None:
    options = ("--data-dir", str(tmp_path / "data"), "--max-connections", "2", "--max-header-bytes", "1024")
    with acker_serve(tmp_path, *options) as acker:

        def now(sample: str, **labels: str) -> float | None:
            return exposition_of(acker.http.get("/metrics")).value(sample, **labels)

        eventually_true(lambda: now("acker_connections") == 1)
        with RawHttp(acker.url) as first, RawHttp(acker.url) as second:
            assert (first.get("/livez")[0], second.get("/livez")[0]) == (200, 200)
            assert now("acker_connections") == 3
            assert acker.http.get(DEFAULT).status_code == 503
            first.send(b"GET / HTTP/1.1\r\na: " + b"x" * 2_000 + b"\r\n\r\n")
            assert first.answer()[0] == 431
            assert now("acker_heads_refused_total", code="too_large") == 1
            assert now("acker_overloaded_total", reason="connections") == 1
        eventually_true(lambda: now("acker_connections") == 1)
        eventually_true(lambda: (now("acker_visits_total", rounds="tick", result="done") or 0) > 0)


def exposition_of(answer: httpx.Response) -> Exposition:
    assert answer.status_code == 200
    return read(answer.text)
