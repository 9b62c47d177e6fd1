"""A subscriber is told every completion once, whatever becomes of its subscription, and releases none it missed."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from acker_client import Acker, AckerError, AsyncAcker, UsageError
from acker_client.asyncio._redis import AsyncRedisConnection
from acker_client.config import SystemClock
from acker_protocol import routes
from acker_protocol.routes import IDEMPOTENCY_KEY
from acker_service.background import cancel_and_wait
from acker_service.components import Components
from acker_service.redis.embedded import EmbeddedServer
from redis import Redis

from tests.support.caller import init
from tests.support.redis_side import everywhere
from tests.support.servers import AckerProcess, acker_serve, free_port, valkey
from tests.support.waiting import eventually, eventually_true

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "callbacks.md"
SPOUT = "orders"
TIMEOUT_MS = 600_000
"""No root is overdue here: what is told is told by Redis or by the mailbox, and not found out by asking."""

_numbers = itertools.count(1)


class Time(SystemClock):
    """A clock that passes only in sleeps, and when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:  # type: ignore[override]
        return self.now_s

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.now_s += seconds


class Listener:
    """A program that listens: what it was told, in this order."""

    def __init__(self, process: AckerProcess, parts: Components, topology: str) -> None:
        self.process = process
        self.store = parts
        self.topology = topology
        self.time = Time()
        self.told = list[str]()
        self.ended = 0
        self.acker = AsyncAcker(process.url, topology, clock=self.time)
        self.spout = self.acker.shared_spout(SPOUT)
        self.listening: asyncio.Task[None] | None = None

    async def listen(self) -> None:
        """Listen from now on; comes back when the mailbox was read to its end, and what ends is told live."""

        async def run() -> None:
            async for done in self.spout.subscribe(self.store.redis.url):
                self.told.append(str(done.message_id))

        async def live() -> bool:
            """Of two told one after the other, the first is released before the second unless it was told live."""
            for _ in range(2):
                await self.end(1)
                await self.is_told()
            return await self.unread() >= 2

        self.listening = asyncio.create_task(run())
        await eventually(live, within=60)

    async def close(self) -> None:
        if self.listening is not None:
            await cancel_and_wait(self.listening)
        await self.acker.close()
        await self.store.close()

    async def end(self, count: int) -> list[str]:
        """Let roots end at once, they have no edges; asks until that is answered."""
        names = [f"m{self.ended + number}" for number in range(count)]
        common = {"spout_task": SPOUT, "message_timeout_ms": TIMEOUT_MS}
        ops = [init(next(_numbers), message_id=name, **common) for name in names]
        path = routes.operation(self.topology, "batch")
        key = {IDEMPOTENCY_KEY: f"{self.topology}-{names[0]}"}

        async def is_answered() -> bool:
            answer = await asyncio.to_thread(self.process.http.post, path, json={"ops": ops}, headers=key)
            assert answer.status_code in {200, 503}, answer.text
            assert answer.status_code == 503 or set(answer.json()["results"]) <= {"acked", "finished"}, answer.text
            return answer.is_success

        await eventually(is_answered, within=60)
        self.ended += count
        return names

    async def is_told(self) -> None:
        """All that has ended is told, each once."""

        async def told() -> bool:
            assert self.listening is not None
            assert not self.listening.done(), self.listening.exception()
            return len(self.told) >= self.ended

        await eventually(told, within=60)
        assert sorted(self.told) == sorted(f"m{number}" for number in range(self.ended))

    async def unread(self) -> int:
        return int((await self.show(SPOUT))["unread"])

    async def show(self, *rest: str) -> Any:
        path = "/".join([routes.spout(self.topology, rest[0]), *rest[1:]])
        return (await asyncio.to_thread(self.process.http.get, path)).json()

    async def is_released(self) -> None:
        async def released() -> bool:
            return await self.unread() == 0

        await eventually(released, within=60)

    def half_a_minute_later(self) -> None:
        self.time.now_s += 31


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory, valkey_url: str) -> Iterator[AckerProcess]:
    with acker_serve(tmp_path_factory.mktemp("acker"), "--redis-url", valkey_url, "--tick-ms", "50") as process:
        yield process


@pytest.fixture
async def listener(process: AckerProcess, valkey_url: str) -> AsyncIterator[Listener]:
    """One who listens, in a topology of his own."""
    topology = f"t{next(_numbers)}"
    assert process.http.put(routes.topology(topology)).is_success
    listener = Listener(process, Components(valkey_url, window_ms=600_000), topology)
    yield listener
    await listener.close()


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Put None here, and the next message is lost on its way from Redis, and found here."""
    lost: list[Any] = []
    read = AsyncRedisConnection.read

    async def read_some(self: AsyncRedisConnection, seconds: float) -> Any:
        found = await read(self, seconds)
        if lost == [None] and found and found[0] in (b"message", b"smessage"):
            lost[0] = found
            return None
        return found

    monkeypatch.setattr(AsyncRedisConnection, "read", read_some)
    return lost


async def test_what_ended_before_is_told_and_what_ends_now_is_told_live(listener: Listener) -> None:
    await listener.end(5)
    await listener.listen()
    before = await listener.unread()
    await listener.end(5)
    await listener.is_told()
    assert await listener.unread() == before + 5
    listener.half_a_minute_later()
    await listener.is_released()
    await listener.is_told()


async def test_a_live_message_that_is_lost_is_told_by_the_next_reading_and_not_released_before(
    listener: Listener, lost: list[Any]
) -> None:
    """The one behind it is told live, and its cursor would release both."""
    await listener.listen()
    before = await listener.unread()
    lost.append(None)
    [first] = await listener.end(1)

    async def is_lost() -> bool:
        return lost != [None]

    await eventually(is_lost, within=60)
    [second] = await listener.end(1)

    async def is_told() -> bool:
        return second in listener.told

    await eventually(is_told, within=60)
    assert first not in listener.told
    assert await listener.unread() == before + 2
    listener.half_a_minute_later()
    await listener.is_told()
    await listener.is_released()


async def test_a_burst_while_the_subscription_is_lost_again_and_again_is_told_once_each(listener: Listener) -> None:
    await listener.listen()
    for _ in range(10):
        await listener.end(20)
        await everywhere(listener.store, "CLIENT", "KILL", "TYPE", "pubsub")
        await listener.end(20)
    await listener.is_told()


async def test_what_is_published_twice_is_told_once_and_what_is_no_message_is_passed_over(listener: Listener) -> None:
    await listener.listen()
    page = json.dumps(await listener.show(SPOUT, "completions")).encode()
    assert b"root_id" in page
    for message in (page, b"{", b"[1]", page):
        await listener.store.redis.publish(routes.channel(listener.topology, SPOUT), message)
    await listener.end(1)
    await listener.is_told()


async def test_a_completion_whose_loop_body_raises_is_not_released(listener: Listener) -> None:
    await listener.end(3)

    async def fail() -> None:
        async with contextlib.aclosing(listener.spout.subscribe(listener.store.redis.url)) as told:
            async for _ in told:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await listener.unread() == 3
    await listener.listen()


async def test_a_spout_task_with_a_webhook_has_no_subscriber(listener: Listener) -> None:
    callback = {"kind": "webhook", "url": "https://orders.example/acker"}
    path = routes.spout(listener.topology, SPOUT)
    assert (await asyncio.to_thread(listener.process.http.put, path, json={"callback": callback})).is_success
    with pytest.raises(UsageError, match="webhook"):
        await anext(listener.spout.subscribe(listener.store.redis.url))


def test_a_program_of_threads_listens_likewise(process: AckerProcess, valkey_url: str) -> None:
    told: list[str] = []
    ended = threading.Event()
    topology = f"t{next(_numbers)}"
    assert process.http.put(routes.topology(topology)).is_success
    with Acker(process.url, topology) as acker:
        spout = acker.spout(SPOUT)

        def listen() -> None:
            told.extend(str(done.message_id) for done in spout.subscribe(valkey_url, stop=ended.is_set))

        def emit(name: str) -> None:
            with spout.emit(message_id=name) as root:
                headers = root.headers()
            with acker.receive(headers, component="charge"):
                pass

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            for name in ("1", "2", "3"):
                emit(name)
                eventually_true(lambda: len(told) == int(name), within=60)  # noqa: B023 - it is waited for here
        finally:
            ended.set()
            listening.join(60)
    assert (told, listening.is_alive()) == (["1", "2", "3"], False)


@pytest.fixture
def own_process(tmp_path: Path, own_valkey: tuple[EmbeddedServer, str]) -> Iterator[AckerProcess]:
    with acker_serve(tmp_path, "--redis-url", own_valkey[1], "--tick-ms", "50") as process:
        yield process


def test_the_login_that_the_page_shows_may_listen_and_no_other_may(
    own_valkey: tuple[EmbeddedServer, str], own_process: AckerProcess
) -> None:
    [shown] = re.findall(r"`ACL SETUSER shop (on [^`]*)`", PAGE.read_text(encoding="utf-8"))
    port = own_valkey[1].rpartition(":")[2]
    with Redis(port=int(port)) as redis:
        redis.execute_command("ACL", "SETUSER", "shop", *shown.split())
        redis.execute_command("ACL", "SETUSER", "deaf", *shown.replace("&acker:", "&other:").split())
    assert own_process.http.put(routes.topology("orders")).is_success
    path = routes.operation("orders", "init")
    ended = {"root_id": f"{1:016x}", "spout_task": "shop-9", "edges": [], "message_id": "42"}
    assert own_process.http.post(path, json=ended).is_success
    with Acker(own_process.url, "orders") as acker:
        spout, told = acker.shared_spout("shop-9"), list[str]()
        for login in ("deaf:password", "shop:wrong"):
            with pytest.raises(UsageError, match="does not let this login subscribe"):
                next(spout.subscribe(f"redis://{login}@127.0.0.1:{port}"))
        for done in spout.subscribe(f"redis://shop:password@127.0.0.1:{port}", stop=lambda: bool(told)):
            told.append(str(done.message_id))
    assert told == ["42"]


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[tuple[EmbeddedServer, str]]:
    port = free_port()
    with valkey(tmp_path / "store", port=port) as server:
        yield server, f"redis://127.0.0.1:{port}"


async def test_redis_is_killed_and_comes_back_and_nothing_is_missed(
    own_valkey: tuple[EmbeddedServer, str], own_process: AckerProcess
) -> None:
    server, url = own_valkey
    listener = Listener(own_process, Components(url, window_ms=600_000), "default")
    await listener.listen()
    os.kill(server.pid, signal.SIGKILL)
    server._process.wait()
    await server.start()

    async def is_back() -> bool:
        return (await asyncio.to_thread(own_process.http.get, "/readyz")).is_success

    await eventually(is_back, within=60)
    await listener.end(20)
    await listener.is_told()
    await listener.close()


def test_a_redis_that_does_not_answer_does_not_hold_up_the_end(
    own_valkey: tuple[EmbeddedServer, str], own_process: AckerProcess
) -> None:
    server, url = own_valkey
    ended, told = threading.Event(), list[str]()

    def listen() -> None:
        with contextlib.suppress(AckerError), Acker(own_process.url, "default", retry_timeout=1.0) as acker:
            told.extend(str(done.message_id) for done in acker.shared_spout("x").subscribe(url, stop=ended.is_set))

    async def listen_async() -> None:
        with contextlib.suppress(AckerError):
            async with AsyncAcker(own_process.url, "default", retry_timeout=1.0) as acker:
                async for done in acker.shared_spout("y").subscribe(url, stop=ended.is_set):
                    told.append(str(done.message_id))

    listening = [threading.Thread(target=work, daemon=True) for work in (listen, lambda: asyncio.run(listen_async()))]
    for each in listening:
        each.start()
    with Redis.from_url(url) as redis:
        channels = ("acker:default:x", "acker:default:y")
        eventually_true(lambda: [count for _, count in redis.pubsub_numsub(*channels)] == [1, 1], within=60)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        ended.set()
        for each in listening:
            each.join(60)
        assert not any(each.is_alive() for each in listening)
    finally:
        os.kill(server.pid, signal.SIGCONT)
