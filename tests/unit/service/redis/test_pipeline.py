"""A pipeline answers round trips in their order, and fails all that it cannot answer with the error that closed it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import hiredis
import pytest
from acker_service.redis.node import _pool
from acker_service.redis.pipeline import Pipeline
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

Command = list[bytes]
MANY = 1_000
TIMEOUT_S = 20.0


def echo(command: Command) -> bytes | None:
    return b"+%b\r\n" % command[-1]


class Server:
    """Parses commands and answers each as ``answer`` says, or not at all; ``hold`` delays all answers."""

    def __init__(self) -> None:
        self.answer: Callable[[Command], bytes | None] = echo
        self.received: list[Command] = []
        self.opened = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.writers.append(writer)
        parser = hiredis.Reader()
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                parser.feed(data)
                while (command := parser.gets()) is not False:
                    await self._answer(command, writer)
        writer.close()

    async def _answer(self, command: Command, writer: asyncio.StreamWriter) -> None:
        if command[0] == b"CLIENT":
            writer.write(b"+OK\r\n")
            return
        self.received.append(command)
        await self.may_answer.wait()
        if (answer := self.answer(command)) is not None:
            writer.write(answer)

    def cut(self) -> None:
        for writer in self.writers:
            writer.transport.abort()

    async def has(self, count: int) -> None:
        """Wait until so many commands have arrived."""

        async def arrived() -> bool:
            return len(self.received) >= count

        await eventually(arrived)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    yield server
    server.may_answer.set()
    server.cut()
    listening.close()


@pytest.fixture
async def pipeline(server: Server) -> AsyncIterator[Pipeline]:
    pipeline = Pipeline(_pool(url(server), 1, TIMEOUT_S))
    yield pipeline
    await pipeline.close()


Skip = Callable[[float], Awaitable[None]]


@pytest.fixture
async def skip(monkeypatch: pytest.MonkeyPatch) -> Skip:
    """Set the time of the event loop forward by seconds, and let run what is due then."""
    loop = asyncio.get_running_loop()

    async def skip(seconds: float) -> None:
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + seconds)
        for _ in range(2):
            await asyncio.sleep(0)

    return skip


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The replies that connections have read."""
    replies: list[object] = []

    class Noting(hiredis.Reader):
        def gets(self, *args: Any) -> object:
            if (reply := super().gets(*args)) is not False:
                replies.append(reply)
            return reply

    monkeypatch.setattr(hiredis, "Reader", Noting)
    return replies


def url(server: Server) -> str:
    return f"redis://127.0.0.1:{server.port}?protocol=2"


def sent(pipeline: Pipeline, *words: str) -> "asyncio.Task[list[Any]]":
    return asyncio.create_task(pipeline.send([("ECHO", word) for word in words]))


async def failure(task: "Coroutine[Any, Any, Any] | asyncio.Task[Any]") -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the test looks at what it is
        await asyncio.wait_for(task, 20)
    return caught.value


async def test_each_of_many_round_trips_gets_its_own_replies(pipeline: Pipeline, server: Server) -> None:
    trips = [sent(pipeline, *(f"{number}.{part}" for part in range(number % 5 + 1))) for number in range(MANY)]
    for number, replies in enumerate(await asyncio.gather(*trips)):
        assert replies == [b"%d.%d" % (number, part) for part in range(number % 5 + 1)]
    assert server.opened == 1


async def test_a_round_trip_is_written_before_those_ahead_of_it_are_answered(
    pipeline: Pipeline, server: Server
) -> None:
    server.may_answer.clear()
    server.received.clear()
    first = sent(pipeline, "first")
    await server.has(1)
    server.answer = lambda command: b"+%b\r\n" % command[-1] if len(server.received) == 3 else b"+early\r\n"
    later = sent(pipeline, "second", "third")
    written = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.05, written.set_result, None)
    await written
    assert not first.done()
    server.may_answer.set()
    assert await first
    assert await later


async def test_an_error_of_a_command_is_among_the_replies(pipeline: Pipeline, server: Server) -> None:
    errors = {b"moved": b"-MOVED 7 a:1\r\n", b"denied": b"-NOPERM no\r\n", b"bad": b"-ERR no\r\n"}
    server.answer = lambda command: errors.get(command[-1], b"+fine\r\n")
    replies = await pipeline.send([("ECHO", word) for word in ("moved", "fine", "denied", "bad", "fine")])
    assert list(map(type, replies)) == [MovedError, bytes, NoPermissionError, ResponseError, bytes]
    assert server.opened == 1


async def test_a_lost_connection_fails_all_that_is_not_answered_and_nothing_is_sent_twice(
    pipeline: Pipeline, server: Server
) -> None:
    assert await sent(pipeline, "before") == [b"before"]
    server.may_answer.clear()
    trips = [sent(pipeline, "lost"), sent(pipeline, "lost", "too")]
    await server.has(2)
    server.cut()
    errors = [await failure(trip) for trip in trips]
    assert [type(error) for error in errors] == [RedisConnectionError] * 2
    server.may_answer.set()
    assert await sent(pipeline, "after") == [b"after"]
    await server.has(5)
    assert sorted(word for _, word in server.received) == [b"after", b"before", b"lost", b"lost", b"too"]
    assert server.opened == 2


async def test_a_connection_that_ends_within_a_round_trip_fails_it(pipeline: Pipeline, server: Server) -> None:
    def answer(command: Command) -> bytes | None:
        if command[-1] == b"second":
            server.writers[-1].close()
            return None
        return echo(command)

    server.answer = answer
    assert isinstance(await failure(sent(pipeline, "first", "second")), RedisConnectionError)
    server.answer = echo
    assert await sent(pipeline, "again") == [b"again"]


async def test_a_late_reply_closes_the_connection_for_all_that_wait(
    pipeline: Pipeline, server: Server, skip: Skip
) -> None:
    assert await sent(pipeline, "before") == [b"before"]
    server.may_answer.clear()
    trips = [sent(pipeline, "first"), sent(pipeline, "second")]
    await server.has(2)
    await skip(TIMEOUT_S / 2)
    assert not any(trip.done() for trip in trips)
    await skip(TIMEOUT_S / 2)
    errors = [await failure(trip) for trip in trips]
    assert [type(error) for error in errors] == [RedisTimeoutError] * 2
    server.may_answer.set()
    assert await sent(pipeline, "after") == [b"after"]
    assert server.opened == 2


async def test_a_server_that_reads_no_more_holds_nothing_up_for_longer(
    pipeline: Pipeline, server: Server, skip: Skip
) -> None:
    assert await sent(pipeline, "before") == [b"before"]
    server.may_answer.clear()
    large = "x" * 30_000_000  # more than the buffers of both sides take
    trips = [sent(pipeline, "first"), sent(pipeline, large), sent(pipeline, "third")]
    await server.has(2)
    await skip(TIMEOUT_S)
    errors = [await failure(trip) for trip in trips]
    assert all(isinstance(error, RedisTimeoutError) for error in errors)
    server.cut()
    server.may_answer.set()
    assert await sent(pipeline, "after") == [b"after"]


async def test_each_reply_has_the_whole_timeout(
    pipeline: Pipeline, server: Server, skip: Skip, read: list[object]
) -> None:
    async def are_read(count: int) -> bool:
        return read.count(b"slow") == count

    server.answer = lambda _: None
    trip = sent(pipeline, "a", "b", "c", "d")
    await server.has(1)
    for count in range(1, 5):
        await skip(TIMEOUT_S * 0.6)
        server.writers[-1].write(b"+slow\r\n")
        await eventually(partial(are_read, count))
    assert await trip == [b"slow"] * 4


async def test_an_idle_connection_is_kept(pipeline: Pipeline, server: Server, skip: Skip) -> None:
    assert await sent(pipeline, "one") == [b"one"]
    await skip(TIMEOUT_S * 1.5)
    assert await sent(pipeline, "two") == [b"two"]
    assert server.opened == 1


async def test_a_server_that_does_not_finish_the_handshake_is_given_up(skip: Skip) -> None:
    connected = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pipeline = Pipeline(_pool(f"redis://127.0.0.1:{port}?protocol=2", 1, TIMEOUT_S))
    trips = [sent(pipeline, word) for word in "ab"]
    await connected.wait()
    await skip(TIMEOUT_S)
    assert [type(await failure(trip)) for trip in trips] == [RedisTimeoutError] * 2
    await pipeline.close()
    listening.close()


async def test_what_cannot_be_written_takes_no_reply_of_others(pipeline: Pipeline, server: Server) -> None:
    assert await sent(pipeline, "before") == [b"before"]
    unwritable: Any = ("ECHO", object())
    trips = [asyncio.create_task(pipeline.send(each)) for each in ([("ECHO", "a")], [unwritable], [("ECHO", "b")])]
    assert isinstance(await failure(trips[1]), Exception)
    assert await asyncio.gather(trips[0], trips[2]) == [[b"a"], [b"b"]]
    assert server.opened == 1


async def test_a_cancelled_caller_leaves_the_replies_of_others_in_order(pipeline: Pipeline, server: Server) -> None:
    server.may_answer.clear()
    cancelled, other = sent(pipeline, "cancelled", "both"), sent(pipeline, "other")
    await server.has(1)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    server.may_answer.set()
    assert await other == [b"other"]
    assert cancelled.cancelled()
    assert server.opened == 1


async def test_a_caller_that_is_cancelled_while_the_connection_opens_leaves_it_to_others(
    pipeline: Pipeline, server: Server
) -> None:
    cancelled, other = sent(pipeline, "cancelled"), sent(pipeline, "other")
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await other == [b"other"]
    assert server.received == [[b"ECHO", b"other"]]


@pytest.mark.parametrize("words", [b"no reply of Redis\r\n", b"*2\r\n+a\r\n?\r\n"])
async def test_what_is_no_reply_closes_the_connection(pipeline: Pipeline, server: Server, words: bytes) -> None:
    server.answer = lambda _: words
    errors = [await failure(trip) for trip in (sent(pipeline, "one"), sent(pipeline, "two"))]
    assert all(isinstance(error, InvalidResponse) for error in errors)
    server.answer = echo
    assert await sent(pipeline, "three") == [b"three"]


async def test_a_reply_to_no_command_closes_the_connection(pipeline: Pipeline, server: Server) -> None:
    server.answer = lambda command: echo(command) + b"+more\r\n"  # type: ignore[operator]
    assert await sent(pipeline, "one") == [b"one"]
    server.answer = echo

    async def closed() -> bool:
        return pipeline._session is not None and pipeline._session.is_closed

    await eventually(closed)
    assert await sent(pipeline, "two") == [b"two"]
    assert server.opened == 2


async def test_a_server_that_loads_its_data_closes_the_connection(pipeline: Pipeline, server: Server) -> None:
    server.answer = lambda _: b"-LOADING the data\r\n"
    assert isinstance(await failure(sent(pipeline, "one")), BusyLoadingError)
    server.answer = echo
    assert await sent(pipeline, "two") == [b"two"]


async def test_a_refused_login_is_told_to_all_that_wait(server: Server) -> None:
    server.answer = lambda _: b"-WRONGPASS no\r\n"
    pipeline = Pipeline(_pool(url(server).replace("//", "//me:wrong@"), 1, 20.0))
    errors = await asyncio.gather(*(failure(sent(pipeline, word)) for word in "ab"))
    assert all(isinstance(error, AuthenticationError) for error in errors)
    await pipeline.close()


async def test_nothing_that_waits_outlives_the_end(pipeline: Pipeline, server: Server) -> None:
    assert await sent(pipeline, "before") == [b"before"]
    server.may_answer.clear()
    trip = sent(pipeline, "waits")
    await server.has(2)
    await pipeline.close()
    assert isinstance(await failure(trip), RedisConnectionError)
    assert isinstance(await failure(sent(pipeline, "after")), RedisConnectionError)


async def test_an_end_while_the_connection_opens_fails_what_waits_for_it(pipeline: Pipeline) -> None:
    trip = sent(pipeline, "waits")
    await asyncio.sleep(0)
    await pipeline.close()
    assert isinstance(await failure(trip), RedisConnectionError)
