"""The live events: the state of all topologies, once a second, of those that the key is for."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import httpx
import pytest
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http import auth
from acker_service.http.keys import Key, Scope, digest_of
from acker_service.http.load_shedding import EVENTS_SHARE, waits
from acker_service.http.routes import events
from acker_service.http.routes.topologies import show_topology
from acker_service.settings import Settings

from tests.support.caller import Caller, init
from tests.support.keys import bearer, keys_file
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

Document = dict[str, Any]


def read(answer: httpx.Response) -> list[Document]:
    """Read the events of a stream that has ended."""
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    blocks = [block.split("\n") for block in answer.text.split("\n\n") if block]
    assert {name for name, *_ in blocks} == {"event: topologies"}
    return [json.loads(data.removeprefix("data: ")) for _, data in blocks]


async def test_an_event_shows_each_topology_as_its_own_address_does(call: Caller) -> None:
    await call.put_spout()
    await call.post(init(1, 9))
    (event,) = read(await call.http.get("/v1/events?limit=1"))
    (shown,) = event["topologies"]
    assert {name: shown[name] for name in shown if not name.startswith("oldest_")} == await call.show()
    assert shown.keys() >= {"oldest_pending_at_ms", "oldest_unread_at_ms"}


async def test_the_next_event_shows_what_happened_meanwhile(call: Caller) -> None:
    await call.put_spout()
    reading = asyncio.create_task(call.http.get("/v1/events?limit=3"))
    await call.post(init(1, 9))
    found = read(await reading)
    assert found[-1]["topologies"][0]["pending"] == 1
    assert [event["at_ms"] for event in found] == sorted(event["at_ms"] for event in found)


async def test_a_stream_has_only_the_topologies_of_the_key(
    parts: Components, api: httpx.AsyncClient, stopping: asyncio.Event, tmp_path: Path
) -> None:
    for name in ("orders", "payments"):
        await api.put(f"/v1/topologies/{name}")
    app = make_app(parts, Settings(keys_file=keys_file(tmp_path, "ack", topologies=["orders"])), stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        (event,) = read(await http.get("/v1/events?limit=1", headers=bearer("ack")))
        assert [topology["topology"] for topology in event["topologies"]] == ["orders"]
        assert (await http.get("/v1/events?limit=1")).status_code == 401


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Each topology with its counts, as often as it is made into a document."""
    made: list[tuple[Any, Any]] = []

    def note(topology: Any, counts: Any) -> Document:
        made.append((topology, counts))
        return show_topology(topology, counts)

    monkeypatch.setattr(events, "show_topology", note)
    return made


SETS = {
    "one": {"t1"},
    "two": {"t0", "t2"},
    "the same two": {"t2", "t0"},
    "some are gone": {"t3", "gone"},
    "none": {"x"},
}
"""The topologies of keys, by their names."""


async def test_an_event_is_written_once_for_all_streams(
    parts: Components, api: httpx.AsyncClient, stopping: asyncio.Event, shown: list[tuple[Any, Any]]
) -> None:
    for n in range(4):
        await api.put(f"/v1/topologies/t{n}")
    app = make_app(parts, Settings(), stopping)
    keys = [
        Key(name=name, digest=digest_of(name), scope=Scope.ACK, topologies=frozenset(topologies))
        for name, topologies in SETS.items()
    ]
    auth.install(app, [*keys, Key(name="all", digest=digest_of("all"), scope=Scope.ACK)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://acker.localhost") as http:
        names = [*SETS, "all"] * 10
        answers = await asyncio.gather(
            *(http.get("/v1/events?limit=2", headers=bearer(name), timeout=60) for name in names)
        )
    for name, answer in zip(names, answers, strict=True):
        for event in read(answer):
            found = {topology["topology"] for topology in event["topologies"]}
            assert found == {"default", "t0", "t1", "t2", "t3"} & SETS.get(name, {"default", "t0", "t1", "t2", "t3"})
    times = Counter((topology.name, id(counts)) for topology, counts in shown)
    assert max(times.values()) <= 2, "of 60 streams; twice where no snapshot came within a second"


async def test_a_key_of_one_topology_costs_what_one_costs(
    parts: Components, api: httpx.AsyncClient, shown: list[tuple[Any, Any]]
) -> None:
    for n in range(4):
        await api.put(f"/v1/topologies/t{n}")
    live = events.LiveEvents(parts.monitor)
    assert b'"topology":"t1"' in await live.latest(frozenset({"t1"}))
    assert {topology.name for topology, _ in shown} == {"t1"}


async def test_an_event_of_a_store_that_stays_away_goes_on_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        async def latest(self) -> None:
            return None

    live, at_ms = events.LiveEvents(Away()), list[int]()  # type: ignore[arg-type]
    monkeypatch.setattr(events, "INTERVAL_S", 0.0)

    async def goes_on() -> bool:
        event = json.loads((await live.latest(None)).split(b"data: ")[1])
        assert event["topologies"] is None
        at_ms.append(event["at_ms"])
        return at_ms[-1] > at_ms[0]

    await eventually(goes_on)


async def test_so_many_streams_are_open_and_a_further_one_is_told_when_to_come_again(
    parts: Components, stopping: asyncio.Event
) -> None:
    parts.start(stopping)
    app = make_app(parts, Settings(max_waiting=2 * EVENTS_SHARE), stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://acker.localhost") as http:
        first, second = (asyncio.create_task(http.get("/v1/events?limit=10000")) for _ in range(2))

        async def are_open() -> bool:
            return parts.metrics.http.event_streams._value.get() == 2

        await eventually(are_open)
        refused = await http.get("/v1/events?limit=1")
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
        assert (refused.headers["retry-after"], refused.json()["retryable"]) == ("5", True)
        await Caller(http).put_spout()
        assert await Caller(http).completions(wait_ms=50) == {"completions": [], "cursor": ANY}, "others may wait"
        first.cancel()

        async def is_free() -> bool:
            return (await http.get("/v1/events?limit=1")).status_code == 200

        await eventually(is_free)
        stopping.set()
        assert (await second).text.endswith("retry: 1000\n\n")


@pytest.mark.parametrize(("places", "part"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)])
async def test_one_key_has_half_of_the_streams_at_most_and_one_at_least(
    parts: Components, stopping: asyncio.Event, tmp_path: Path, places: int, part: int
) -> None:
    parts.start(stopping)
    settings = Settings(max_waiting=places * EVENTS_SHARE, keys_file=keys_file(tmp_path, "ack", "admin"))
    app = make_app(parts, settings, stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://acker.localhost") as http:

        def opened(key: str) -> "asyncio.Task[httpx.Response]":
            return asyncio.create_task(http.get("/v1/events?limit=10000", headers=bearer(key)))

        async def are_open(count: int) -> None:
            async def look() -> bool:
                return parts.metrics.http.event_streams._value.get() == count

            await eventually(look)

        streams = [opened("ack") for _ in range(part)]
        await are_open(part)
        refused = await http.get("/v1/events?limit=1", headers=bearer("ack"))
        assert refused.status_code == 429
        assert refused.json()["code"] == "too_many_streams"
        assert ("the key ack has" in refused.json()["detail"]) is (places > part)
        if places > part:
            assert (await http.get("/v1/events?limit=1", headers=bearer("admin"))).status_code == 200
        streams[0].cancel()
        await are_open(part - 1)
        streams.append(opened("ack"))
        await are_open(part)
        stopping.set()
        await asyncio.gather(*streams[1:])


async def test_without_a_store_an_event_says_so(stopping: asyncio.Event) -> None:
    parts = Components("redis://127.0.0.1:1", window_ms=600_000)
    app = make_app(parts, Settings(), stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        (event,) = read(await http.get("/v1/events?limit=1"))
    assert event["topologies"] is None
    await parts.close()


async def test_a_stop_of_the_acker_ends_the_streams(api: httpx.AsyncClient, stopping: asyncio.Event) -> None:
    reading = asyncio.create_task(api.get("/v1/events"))
    asyncio.get_running_loop().call_soon(stopping.set)
    async with asyncio.timeout(10):
        assert (await reading).text.endswith("retry: 1000\n\n")


async def test_a_stream_is_counted_and_waits(api: httpx.AsyncClient, parts: Components) -> None:
    scope = {"method": "GET", "path": "/v1/events", "query_string": b"", "headers": []}
    assert waits(scope)
    reading = asyncio.create_task(api.get("/v1/events?limit=2"))

    async def is_counted() -> bool:
        return parts.metrics.http.event_streams._value.get() == 1

    await eventually(is_counted)
    await reading
    assert parts.metrics.http.event_streams._value.get() == 0


@pytest.mark.parametrize("limit", ["0", "10001", "x"])
async def test_a_limit_out_of_bounds_is_refused(api: httpx.AsyncClient, limit: str) -> None:
    answer = await api.get("/v1/events", params={"limit": limit})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


def test_an_event_comes_each_second() -> None:
    assert events.INTERVAL_S == 1.0
