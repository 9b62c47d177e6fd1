"""Tests the use of a client that was closed."""

import asyncio
import threading

import httpx
import pytest
from acker_client import Acker, ClientClosed

from tests.support.waiting import eventually, eventually_true
from tests.unit.client.conftest import met

FOR_EVER_S = 86_400
OTHER_HEADERS = {"Acker-Anchors": "00 default 00000000000000ab-00000000000000bc"}
HEADERS = {"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}


def test_a_reader_in_another_thread_hears_that_the_acker_was_closed(connect):
    acker = connect()
    heard: list[BaseException] = []
    reading = threading.Event()

    def read() -> None:
        try:
            for _ in acker.spout("orders").completions(stop=reading.set):
                pass
        except ClientClosed as closed:
            heard.append(closed)

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(60)
    acker.close()
    reader.join(60)
    assert [str(closed) for closed in heard] == ["the acker is closed"]


def test_an_ack_after_the_end_says_so(connect):
    acker = connect()
    tup = acker.receive(HEADERS, component="count")
    acker.close()
    with pytest.raises(ClientClosed):
        acker.ack(tup)
    assert not tup.closed


def test_an_ack_that_waits_for_space_when_its_acker_is_closed_is_refused_and_its_tuple_stays_open(connect, service):
    arrived, answered, inner = threading.Event(), threading.Event(), service.transport()
    heard: list[BaseException] = []

    def hold(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            arrived.set()
            assert answered.wait(60)
        return inner.handle_request(request)

    transport = httpx.MockTransport(hold)
    acker = met(connect(linger=FOR_EVER_S, batch_size=1, buffer_size=1, transport=transport), service)
    acker.ack(acker.receive(HEADERS, component="count"))
    assert arrived.wait(60)
    tup = acker.receive(OTHER_HEADERS, component="count")

    def ack() -> None:
        try:
            acker.ack(tup)
        except ClientClosed as closed:
            heard.append(closed)

    buffer = acker._submitter.flusher.buffer
    acking, closing = threading.Thread(target=ack), threading.Thread(target=acker.close)
    acking.start()
    eventually_true(lambda: len(buffer.turns._queue) == 1)
    closing.start()
    eventually_true(lambda: not buffer.is_lingering)
    answered.set()
    acking.join(60)
    closing.join(60)
    assert [str(closed) for closed in heard] == ["the client was closed before the ack was sent"]
    assert not tup.closed
    assert len(service.writes()) == 1


@pytest.mark.anyio
async def test_an_ack_that_waits_for_space_in_a_loop_is_refused_likewise(service):
    arrived, answered, inner = asyncio.Event(), asyncio.Event(), service.transport()

    async def hold(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            arrived.set()
            await answered.wait()
        return await inner.handle_async_request(request)

    transport = httpx.MockTransport(hold)
    acker = service.async_acker(linger=FOR_EVER_S, batch_size=1, buffer_size=1, transport=transport)
    await acker._driver.run(acker._session.topology_info())
    await acker.ack(acker.receive(HEADERS, component="count"))
    await arrived.wait()
    tup = acker.receive(OTHER_HEADERS, component="count")
    acking = asyncio.create_task(acker.ack(tup))
    buffer = acker._submitter.flusher.buffer

    async def waits() -> bool:
        return len(buffer.turns._queue) == 1

    async def is_closing() -> bool:
        return not buffer.is_lingering

    await eventually(waits)
    closing = asyncio.create_task(acker.close())
    await eventually(is_closing)
    answered.set()
    with pytest.raises(ClientClosed, match="before the ack was sent"):
        await acking
    await closing
    assert not tup.closed
    assert len(service.writes()) == 1


@pytest.mark.anyio
async def test_a_reader_in_a_loop_hears_it_too(service):
    acker = service.async_acker(linger=0)
    spout = acker.spout("orders")
    async with spout.emit(message_id="1"):
        pass

    async def read() -> None:
        async for _ in spout.completions():
            await acker.close()

    with pytest.raises(ClientClosed):
        await read()


def test_an_error_of_the_programs_own_transport_is_not_taken_for_that():
    def answer(_: httpx.Request) -> httpx.Response:
        raise RuntimeError("of its own")

    transport = httpx.MockTransport(answer)
    with (
        Acker("http://acker.test", transport=transport, linger=0) as acker,
        pytest.raises(RuntimeError, match="own"),
    ):
        acker.ack(acker.receive(HEADERS, component="count"))
