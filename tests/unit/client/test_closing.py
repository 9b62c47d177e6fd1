"""Tests the use of a client that was closed."""

import threading

import httpx
import pytest
from acker_client import Acker, ClientClosed

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
