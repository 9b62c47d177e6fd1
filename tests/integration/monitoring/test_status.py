"""The status: the store, the settings in force, the keys, the processes and the load."""

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_protocol.errors import Overloaded
from acker_service import VERSION
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.metrics.instruments import IN_FLIGHT, WAITING
from acker_service.redis import keys
from acker_service.settings import Settings

from bench.servers import one
from tests.support.keys import SCOPES, bearer, keys_file
from tests.support.redis_side import at, everywhere
from tests.support.servers import AckerProcess, acker_serve, free_port, valkey
from tests.support.waiting import eventually, eventually_true

pytestmark = pytest.mark.anyio

Document = dict[str, Any]


async def status(http: httpx.AsyncClient) -> Document:
    answer = await http.get("/v1/status")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def seen(acker: AckerProcess) -> Document:
    answer = acker.http.get("/v1/status")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@contextlib.asynccontextmanager
async def other_process(parts: Components, role: str) -> AsyncIterator[Components]:
    """The parts of another process on the same store."""
    other = Components(parts.redis.url, window_ms=600_000, role=role)
    yield other
    await other.close()


async def test_a_status_shows_the_acker_as_it_is(api: httpx.AsyncClient, parts: Components) -> None:
    shown = await status(api)
    assert (shown["version"], shown["role"]) == (VERSION, "all")
    assert shown["started_at_ms"] <= shown["now_ms"]
    assert shown["keys"] == {"count": 0, "file": False, "error": None, "loaded_at_ms": None}
    assert shown["store"]["up"]
    assert not shown["store"]["full"]
    assert shown["store"]["server"].partition(" ")[0] in ("valkey", "redis")
    assert shown["store"]["server"].partition(" ")[2][:1].isdecimal()
    assert shown["store"]["used_bytes"] > 0
    assert shown["store"]["durability"] == "relaxed"


async def test_time_passes_while_a_worker_ends_overdue_roots(api: httpx.AsyncClient, parts: Components) -> None:
    assert (await status(api))["store"]["ticked"] is False
    await parts.expiry.mark_worker_alive()
    assert (await status(api))["store"]["ticked"] is True


async def test_the_limit_of_the_memory_is_shown(api: httpx.AsyncClient, parts: Components) -> None:
    assert (await status(api))["store"]["max_bytes"] is None
    await everywhere(parts, "CONFIG SET", "maxmemory", 1_000_000_000)
    try:
        assert (await status(api))["store"]["max_bytes"] == 1_000_000_000
    finally:
        await everywhere(parts, "CONFIG SET", "maxmemory", 0)


async def test_a_full_store_and_its_cause_are_shown(api: httpx.AsyncClient, parts: Components) -> None:
    await everywhere(parts, "CONFIG SET", "maxmemory-policy", "allkeys-lru")
    try:
        await parts.backpressure.refresh()
        store = (await status(api))["store"]
    finally:
        await everywhere(parts, "CONFIG SET", "maxmemory-policy", "noeviction")
        await parts.backpressure.refresh()
    assert store["full"]
    assert any("maxmemory-policy allkeys-lru, which evicts pending roots" in warning for warning in store["warnings"])
    assert not (await status(api))["store"]["full"]


async def test_a_store_that_may_forget_is_warned_of(api: httpx.AsyncClient, parts: Components) -> None:
    [kept, *_] = await everywhere(parts, "CONFIG GET", "appendonly")
    kept = next(iter(kept.values())) if isinstance(kept, dict) else kept[-1]
    await everywhere(parts, "CONFIG SET", "appendonly", "no")
    try:
        assert any("no append-only file" in warning for warning in (await status(api))["store"]["warnings"])
        await everywhere(parts, "CONFIG SET", "appendonly", "yes")
        assert (await status(api))["store"]["warnings"] == []
    finally:
        await everywhere(parts, "CONFIG SET", "appendonly", kept)


async def test_the_processes_of_all_replicas_are_listed_by_their_start(
    api: httpx.AsyncClient, parts: Components
) -> None:
    async with other_process(parts, "worker") as other:
        await other.processes.note()
        found = (await status(api))["processes"]
        assert [process["role"] for process in found] == ["all", "worker"]
        assert [process["id"] for process in found] == [parts.processes.own.id, other.processes.own.id]
        assert set(found[1]) == {"id", "role", "version", "host", "pid", "started_at_ms", "seen_at_ms"}


async def test_a_note_of_a_process_holds_for_ten_seconds(api: httpx.AsyncClient, parts: Components) -> None:
    async with other_process(parts, "worker") as other:
        await other.processes.note()
        assert 0 < await at(parts, "PTTL", keys.PROCESSES) <= 10_000
        noted = await at(parts, "HGET", keys.PROCESSES, other.processes.own.id)
        noted_ms, _, document = noted.partition(b" ")
        await at(parts, "HSET", keys.PROCESSES, other.processes.own.id, b"%d %s" % (int(noted_ms) - 10_001, document))
        assert [process["role"] for process in (await status(api))["processes"]] == ["all"]
        await parts.processes.note()
        assert await at(parts, "HEXISTS", keys.PROCESSES, other.processes.own.id) == 0


async def test_a_refusal_by_any_process_is_shown(api: httpx.AsyncClient, parts: Components) -> None:
    assert (await status(api))["load"]["overloaded_recently_at_ms"] is None
    parts.metrics.http.count_overloaded(WAITING)
    own = (await status(api))["load"]["overloaded_recently_at_ms"]
    assert abs(own - time.time() * 1_000) < 60_000
    async with other_process(parts, "api") as other:
        other.metrics.http.count_overloaded(IN_FLIGHT)
        other.metrics.http.overloaded_at_ms = own + 1
        await other.processes.note()
        assert (await status(api))["load"]["overloaded_recently_at_ms"] == own + 1


async def test_the_load_of_the_process_that_answers_is_shown(parts: Components, stopping: asyncio.Event) -> None:
    settings = Settings(max_in_flight=7, max_waiting=1, max_in_flight_bytes=5_000_000)
    transport = httpx.ASGITransport(app=make_app(parts, settings, stopping))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        parts.start(stopping)
        waiting = asyncio.create_task(http.get("/v1/events"))

        async def load_with_a_stream() -> Document | None:
            found: Document = (await status(http))["load"]
            return found if found["waiting"] else None

        load = await eventually(load_with_a_stream)
        assert load is not None
        assert (load["in_flight"], load["in_flight_limit"]) == (1, 7), "this request itself"
        assert (load["waiting"], load["waiting_limit"]) == (1, 1)
        assert load["body_bytes_limit"] == 5_000_000
        refused = await http.get("/v1/events")
        assert refused.json()["code"] == Overloaded.code
        assert (await status(http))["load"]["overloaded_recently_at_ms"] is not None
        stopping.set()
        await waiting


async def test_settings_show_their_sources_and_no_login(
    parts: Components, stopping: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKER_REDIS_URL", "rediss://operator:hunter2@redis:6380/3?sentinel_password=hunter3")
    settings = Settings(mailbox_max=7)
    transport = httpx.ASGITransport(app=make_app(parts, settings, stopping))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answer = await http.get("/v1/status")
    shown = answer.json()["settings"]
    assert set(shown) == {f"ACKER_{name.upper()}" for name in Settings.model_fields}
    assert shown["ACKER_REDIS_URL"] == {"value": "rediss://redis:6380/3", "source": "environment"}
    assert shown["ACKER_MAILBOX_MAX"] == {"value": 7, "source": "option"}
    assert shown["ACKER_MAX_SPOUTS"] == {"value": 10_000, "source": "default"}
    assert "hunter" not in answer.text


async def test_nothing_of_a_key_or_a_webhook_is_shown(
    parts: Components, stopping: asyncio.Event, tmp_path: Path
) -> None:
    settings = Settings(keys_file=keys_file(tmp_path, *SCOPES))
    transport = httpx.ASGITransport(app=make_app(parts, settings, stopping))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=bearer("admin")) as http:
        hook = {"callback": {"kind": "webhook", "url": "https://orders.example/"}}
        secret = (await http.put("/v1/topologies/default/spouts/orders", json=hook)).json()["callback"]["secret"]
        answer = await http.get("/v1/status")
    assert answer.json()["keys"]["count"] == len(SCOPES)
    assert answer.json()["keys"]["file"]
    for entry in json.loads((tmp_path / "keys.json").read_text())["keys"]:
        assert entry["sha256"] not in answer.text
    assert secret not in answer.text


async def test_without_redis_a_key_is_checked_and_the_status_answered(tmp_path: Path, stopping: asyncio.Event) -> None:
    parts = Components("redis://operator:hunter2@127.0.0.1:1", window_ms=600_000, role="api")
    settings = Settings(keys_file=keys_file(tmp_path, *SCOPES))
    transport = httpx.ASGITransport(app=make_app(parts, settings, stopping))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        assert (await http.get("/v1/status", headers=bearer("unknown"))).status_code == 401
        answer = await http.get("/v1/status", headers=bearer("admin"))
    await parts.close()
    shown = answer.json()
    assert shown["store"] == {"url": "redis://127.0.0.1:1", "up": False, "full": False, "server": None,
                              "used_bytes": None, "max_bytes": None, "early_max_bytes": 67_108_864,
                              "remembered_max_bytes": 1_073_741_824, "durability": "relaxed", "ticked": None,
                              "warnings": []}  # fmt: skip
    assert [process["role"] for process in shown["processes"]] == ["api"]
    assert abs(shown["now_ms"] - time.time() * 1_000) < 60_000
    assert "hunter2" not in answer.text


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with valkey(tmp_path_factory.mktemp("store"), port=port):
        yield f"redis://127.0.0.1:{port}"


def roles(acker: AckerProcess) -> list[str]:
    return sorted(process["role"] for process in seen(acker)["processes"])


def test_processes_behind_one_address_are_all_seen_and_the_settings_are_those_of_the_whole(
    redis_url: str, tmp_path: Path
) -> None:
    options = ("--redis-url", redis_url, "--processes", "2", "--max-in-flight", "9", "--max-connections", "1000")
    with (
        acker_serve(tmp_path, *options, environment={"ACKER_MAX_BATCH": "77"}) as acker,
        acker_serve(tmp_path, "--redis-url", redis_url, "--role", "worker") as worker,
    ):
        eventually_true(lambda: roles(acker) == ["api", "api", "worker", "worker"])
        shown = seen(acker)
        assert worker.process.pid in {process["pid"] for process in shown["processes"]}
        assert len({process["id"] for process in shown["processes"]}) == 4
        assert shown["role"] == "api"
        assert shown["settings"]["ACKER_ROLE"] == {"value": "all", "source": "default"}
        assert shown["settings"]["ACKER_MAX_IN_FLIGHT"] == {"value": 9, "source": "option"}
        assert shown["settings"]["ACKER_MAX_BATCH"] == {"value": 77, "source": "environment"}
        assert shown["load"]["in_flight_limit"] in (4, 5)
        assert shown["load"]["connections_limit"] == 500
        assert shown["load"]["connections"] >= 1


def test_time_stands_still_once_the_last_worker_is_killed(redis_url: str, tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--redis-url", redis_url, "--role", "api") as acker:
        with acker_serve(tmp_path, "--redis-url", redis_url, "--role", "worker") as worker:
            eventually_true(lambda: seen(acker)["store"]["ticked"] and roles(acker).count("worker") == 1)
            worker.kill()
        eventually_true(lambda: seen(acker)["store"]["ticked"] is False)
        eventually_true(lambda: roles(acker) == ["api"])


@pytest.mark.parametrize("way", ["killed", "frozen"])
def test_a_store_that_goes_away_and_comes_back_is_seen(tmp_path: Path, way: str) -> None:
    with one(tmp_path / "valkey") as store, acker_serve(tmp_path, "--redis-url", store.url) as acker:
        eventually_true(lambda: seen(acker)["store"]["up"])
        store.stop() if way == "killed" else store.process.send_signal(signal.SIGSTOP)
        eventually_true(lambda: not seen(acker)["store"]["up"])
        assert seen(acker)["store"]["ticked"] is None
        assert len(seen(acker)["processes"]) == 1
        store.start() if way == "killed" else store.process.send_signal(signal.SIGCONT)
        eventually_true(lambda: seen(acker)["store"]["up"] and seen(acker)["store"]["ticked"])


def test_a_broken_file_of_keys_is_seen_until_it_is_corrected(tmp_path: Path) -> None:
    file = keys_file(tmp_path, *SCOPES)
    good = file.read_text()
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--keys-file", str(file)) as acker:
        acker.http.headers.update(bearer("admin"))
        before = seen(acker)["keys"]
        assert (before["count"], before["error"]) == (3, None)
        file.write_text('{"keys": [{"name": "x"}]}')
        eventually_true(lambda: seen(acker)["keys"]["error"])
        broken = seen(acker)["keys"]
        assert "keys.0.sha256" in broken["error"]
        assert (broken["count"], broken["loaded_at_ms"]) == (3, before["loaded_at_ms"])
        file.write_text(good + " ")
        eventually_true(lambda: seen(acker)["keys"]["error"] is None)
        assert seen(acker)["keys"]["loaded_at_ms"] > before["loaded_at_ms"]
