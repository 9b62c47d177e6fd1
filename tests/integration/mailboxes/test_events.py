"""Completions as server-sent events: told as they come, taken up again where they ended, let go at a stop."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TypeVar

import anyio
import httpx
import pytest
import uvicorn
from acker_protocol import routes
from acker_protocol.errors import StoreUnavailable
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.http.sse import EventStreams
from acker_service.redis.embedded import EmbeddedServer
from acker_service.server import UvicornServer
from acker_service.settings import Settings

from tests.support.caller import Caller, Document, init
from tests.support.servers import AckerProcess, acker_serve, free_port
from tests.support.streams import Connection, Event, connected
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

T = TypeVar("T")
SSE = {"Accept": "text/event-stream"}
numbers = count(1)


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder)) as acker:
        yield acker


@pytest.fixture
async def real(acker: AckerProcess) -> AsyncIterator[Caller]:
    """Speaks to a topology of its own, on a real acker."""
    async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
        caller = Caller(http, f"t{next(numbers)}")
        await caller.put()
        await caller.put_spout("orders")
        yield caller


def path(call: Caller, spout_task: str = "orders") -> str:
    return routes.completions(call.topology, spout_task)


async def soon(awaited: Awaitable[T]) -> T:
    """Return what is awaited; it has to come before a heartbeat would bring it."""
    with anyio.fail_after(12):
        return await awaited


@contextlib.asynccontextmanager
async def streaming(call: Caller, query: str = "", **headers: str) -> AsyncIterator[AsyncIterator[Event]]:
    """Stream events on a connection of their own; comments are left out."""
    async with connected(str(call.http.base_url)) as connection:
        status, _ = await soon(connection.get(path(call) + query, **SSE, **headers))
        assert status == 200
        yield events(connection)


async def events(connection: Connection) -> AsyncIterator[Event]:
    async for event in connection.events():
        if not event.is_comment:
            yield event


async def take(events: AsyncIterator[Event], number: int) -> list[Event]:
    return [await soon(anext(events)) for _ in range(number)]


def roots(events: list[Event]) -> list[int]:
    return [int(event.completion["root_id"], 16) for event in events]


async def test_what_is_there_and_what_comes_is_streamed(real: Caller) -> None:
    await real.post(init(1, message_id="42"))
    async with streaming(real) as events:
        (event,) = await take(events, 1)
        assert event.completion == (await real.completions())["completions"][0]
        await real.post(init(2))
        assert roots(await take(events, 1)) == [2]


async def test_an_answer_of_events_is_not_kept_and_not_buffered(real: Caller) -> None:
    async with connected(str(real.http.base_url)) as connection:
        status, headers = await connection.get(path(real), **SSE)
        assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
        assert (await soon(anext(connection.events()))).is_comment, "it begins at once"


async def test_a_stream_is_taken_up_right_behind_each_event(real: Caller) -> None:
    await real.states(*(init(n) for n in range(1, 13)))
    async with streaming(real) as events:
        first = await take(events, 12)
    for n, event in enumerate(first[:-1], 1):
        async with streaming(real, Last_Event_ID=event.fields["id"]) as events:
            assert roots(await take(events, 12 - n)) == roots(first[n:])


async def test_the_id_of_an_event_is_a_cursor(real: Caller) -> None:
    await real.states(*(init(n) for n in range(1, 6)))
    async with streaming(real) as events:
        taken = await take(events, 3)
    assert await real.release(taken[-1].fields["id"]) == 3
    assert {root for root, _ in await real.outcomes()} == set(range(1, 6)) - set(roots(taken))


async def test_the_last_event_id_wins_over_after(real: Caller) -> None:
    await real.states(*(init(n * 4) for n in range(1, 4)))
    async with streaming(real) as events:
        ids = [event.fields["id"] for event in await take(events, 3)]
    async with streaming(real, f"?after={ids[1]}") as events:
        assert roots(await take(events, 1)) == [12]
    async with streaming(real, f"?after={ids[1]}", Last_Event_ID=ids[0]) as events:
        assert roots(await take(events, 2)) == [8, 12]


async def test_nothing_is_lost_or_doubled_over_many_breaks(real: Caller) -> None:
    """Completions come in entries of several shards, pages are small, and the stream breaks all the time."""

    async def emit() -> None:
        for first in range(1, 301, 20):
            await real.states(*(init(n) for n in range(first, first + 20)))

    emitting = asyncio.create_task(emit())
    found: list[int] = []
    last: dict[str, str] = {}
    while len(found) < 300:
        async with streaming(real, "?limit=3", **last) as events:
            taken = await take(events, min(7 + len(found) % 5, 300 - len(found)))
        found += roots(taken)
        last = {"Last_Event_ID": taken[-1].fields["id"]}
    await emitting
    assert sorted(found) == list(range(1, 301))


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("/v1/topologies/nowhere/spouts/orders/completions", "unknown_topology"),
        ("/v1/topologies/default/spouts/nobody/completions", "unknown_spout"),
    ],
)
async def test_a_stream_that_cannot_begin_is_a_problem(real: Caller, address: str, code: str) -> None:
    answer = await real.http.get(address, headers=SSE)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code


async def test_a_stream_from_no_cursor_is_a_problem(real: Caller) -> None:
    answer = await real.http.get(path(real), headers=SSE | {"Last-Event-ID": "nonsense"})
    assert answer.json()["code"] == "invalid"


@pytest.mark.parametrize(
    ("accept", "streamed"),
    [
        ("text/event-stream", True),
        ("application/json;q=0.1, Text/Event-Stream;q=0.9", True),
        ("*/*", False),
        ("text/*", False),
        ("application/json", False),
        ("text/event-stream;q=0", False),
        ("text/event-stream;q=0.000, */*", False),
    ],
)
async def test_only_who_asks_for_events_gets_them(real: Caller, accept: str, streamed: bool) -> None:  # noqa: FBT001
    async with connected(str(real.http.base_url)) as connection:
        _, headers = await soon(connection.get(path(real), Accept=accept))
    assert headers["content-type"].startswith("text/event-stream" if streamed else "application/json")


async def test_a_stream_ends_when_its_spout_task_goes(real: Caller) -> None:
    async with streaming(real) as events:
        await real.http.delete(routes.spout(real.topology, "orders"))
        problem, end = [event.fields async for event in events]
    assert (problem["event"], json.loads(problem["data"])["code"]) == ("problem", "unknown_spout")
    assert end == {"retry": "1000"}


async def test_a_stop_ends_streams_and_polls_at_once(tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path)) as acker:
        async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http, connected(acker.url) as polling:
            call = Caller(http)
            await call.put_spout("orders")
            poll = asyncio.create_task(polling.poll(f"{path(call)}?wait_ms=60000"))
            async with streaming(call) as events:
                await call.post(init(1))
                await take(events, 1)
                await soon(poll)
                again = asyncio.create_task(polling.poll(f"{path(call)}?wait_ms=60000&after={(await poll)['cursor']}"))
                code = asyncio.create_task(asyncio.to_thread(acker.terminate))
                assert [event.fields async for event in events] == [{"retry": "1000"}]
                assert await code == 0
                with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):  # it came when all was over
                    assert (await soon(again))["completions"] == []
        log = acker.log.read_text()
    assert "Traceback" not in log
    assert "graceful shutdown exceeded" not in log


@pytest.fixture
async def served(parts: Components, stopping: asyncio.Event) -> AsyncIterator[Caller]:
    """Speaks to a real server in this process, on a store that the test looks into."""
    config = uvicorn.Config(make_app(parts, Settings(), stopping), port=free_port(), log_config=None)
    server = UvicornServer(config, stopping, address="")
    parts.start(stopping)
    serving = asyncio.create_task(server.serve())
    await true_soon(lambda: server.started)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{config.port}", timeout=20) as http:
        await Caller(http).put_spout("orders")
        yield Caller(http)
    stopping.set()
    server.should_exit = True
    await serving


async def true_soon(look: Callable[[], object]) -> None:
    async def seen() -> object:
        return look()

    await eventually(seen)


@pytest.mark.parametrize("headers", [SSE, {}], ids=["a stream", "a long poll"])
async def test_one_who_goes_away_is_forgotten_at_once(
    served: Caller, parts: Components, headers: dict[str, str]
) -> None:
    async with connected(str(served.http.base_url)) as connection:
        asking = asyncio.create_task(connection.get(f"{path(served)}?wait_ms=60000", **headers))
        await true_soon(lambda: len(parts.mailbox_notifier._mailboxes) == 1)
    await true_soon(lambda: len(parts.mailbox_notifier._mailboxes) == 0)
    await asyncio.gather(asking, return_exceptions=True)


async def test_a_root_is_waited_for_no_more_when_the_caller_goes(served: Caller, parts: Components) -> None:
    await served.post(init(1, 9))
    async with connected(str(served.http.base_url)) as connection:
        waits = f"{routes.root('default', f'{1:016x}')}?wait_ms=60000"
        asking = asyncio.create_task(connection.get(waits))
        await true_soon(lambda: len(parts.root_notifier._roots) == 1)
    await true_soon(lambda: len(parts.root_notifier._roots) == 0)
    await asyncio.gather(asking, return_exceptions=True)


async def test_silence_is_broken_by_comments(call: Caller, parts: Components, stopping: asyncio.Event) -> None:
    await call.put_spout("orders")
    events = EventStreams(followers=parts.followers, metrics=parts.metrics.http, stopping=stopping, heartbeat_s=0.02)
    chunks = await begin(events, parts)
    assert [await soon(anext(chunks)) for _ in range(4)] == [b":\n\n"] * 4
    await call.post(init(1))
    while (chunk := await soon(anext(chunks))) == b":\n\n":
        pass
    assert chunk.startswith(b"event: completion\n")
    stopping.set()
    assert await rest(chunks) == b"retry: 1000\n\n"


async def begin(events: EventStreams, parts: Components, after: str | None = None) -> AsyncIterator[bytes]:
    """Begin a stream in this process."""
    response = await events.respond(await parts.registry.get("default"), "orders", after, 10, check=lambda: None)
    return response.body_iterator  # type: ignore[return-value]


async def rest(chunks: AsyncIterator[bytes]) -> bytes:
    """Read a stream to its end, without the comments."""
    with anyio.fail_after(20):
        return b"".join([chunk async for chunk in chunks]).replace(b":\n\n", b"")


async def test_a_store_that_goes_away_ends_a_stream_which_is_taken_up_again(
    tmp_path: Path, stopping: asyncio.Event
) -> None:
    port = free_port()
    embedded = await valkey_on(port, tmp_path)
    parts = Components(f"redis://127.0.0.1:{port}", window_ms=600_000)
    await parts.open()
    async with client(parts, stopping) as call:
        await call.states(init(4), init(8))
        events = EventStreams(
            followers=parts.followers, metrics=parts.metrics.http, stopping=stopping, heartbeat_s=0.02
        )
        chunks = await begin(events, parts)
        await embedded.stop()
        *_, last, problem, end = (await rest(chunks)).decode().strip().split("\n\n")
        assert problem.startswith("event: problem\n")
        assert json.loads(problem.split("data: ")[1])["code"] == "store_unavailable"
        assert end == "retry: 1000"
        with pytest.raises(StoreUnavailable):
            await begin(events, parts)
        embedded = await valkey_on(port, tmp_path)
        await eventually(lambda: answered(call, init(12)))
        again = await begin(events, parts, last.split("\n")[1].removeprefix("id: "))
        assert b"000000000000000c" in await anext(skipped(again))
    await parts.close()
    await embedded.stop()


async def test_an_outage_of_the_store_ends_no_process(tmp_path: Path) -> None:
    port = free_port()
    embedded = await valkey_on(port, tmp_path / "store")
    with acker_serve(tmp_path, "--redis-url", f"redis://127.0.0.1:{port}") as acker:
        async with httpx.AsyncClient(base_url=acker.url, timeout=20) as http:
            call = Caller(http)
            await call.put_spout("orders")
            last: dict[str, str] = {}
            async with streaming(call) as events:
                await call.post(init(1))
                last["Last_Event_ID"] = (await take(events, 1))[0].fields["id"]
                await embedded.stop()
                assert (await call.state(init(2))) == "store_unavailable"
                assert (await http.get("/livez")).is_success
                embedded = await valkey_on(port, tmp_path / "store")
                await eventually(lambda: answered(call, init(2)))
                event = await soon(anext(events))
                if "retry" not in event.fields:
                    assert roots([event]) == [2]
            async with streaming(call, **last) as events:
                assert roots(await take(events, 1)) == [2]
    await embedded.stop()


async def valkey_on(port: int, folder: Path) -> EmbeddedServer:
    """Start a Valkey; one that is started again has the data of before."""
    embedded = EmbeddedServer(folder, port=port)
    await embedded.start()
    return embedded


async def answered(call: Caller, op: Document) -> bool:
    return await call.state(op) in {"acked", "finished"}


async def skipped(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Skip the comments."""
    async for chunk in chunks:
        if chunk != b":\n\n":
            yield chunk


@contextlib.asynccontextmanager
async def client(parts: Components, stopping: asyncio.Event) -> AsyncIterator[Caller]:
    """Speak to an application inside this process."""
    parts.start(stopping)
    transport = httpx.ASGITransport(app=make_app(parts, Settings(), stopping))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        yield Caller(http)
