"""Tests how names become addresses."""

import asyncio
import socket
import threading

import pytest
from acker_service.delivery.dns import MAX_LOOKUPS, Resolver

from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


class NameServer:
    """Answers when it is told to."""

    def __init__(self, *dead: str) -> None:
        self.asked: list[tuple[str, int]] = []
        self.dead = dead
        self.back = threading.Event()

    def ask(self, host: str, port: int) -> tuple[str, ...]:
        self.asked.append((host, port))
        if host in self.dead:
            self.back.wait(30)
        return (f"{host}-{len(self.asked)}",)


async def test_the_system_is_asked():
    assert await Resolver()("127.0.0.1", 80) == ("127.0.0.1",)
    assert await Resolver()("::1", 80) == ("::1",)
    assert "127.0.0.1" in await Resolver()("localhost", 80)


@pytest.mark.parametrize("spelling", ["2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1", "127.1"])
async def test_the_system_reads_other_spellings_of_an_address(spelling):
    assert await Resolver()(spelling, 80) == ("127.0.0.1",)


async def test_each_address_is_given_once():
    found = await Resolver()("localhost", 80)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("fault", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
async def test_a_name_without_address_is_an_error_of_the_system(fault):
    def ask(host, port):
        raise fault

    with pytest.raises(OSError, match=r"not known|too long"):
        await Resolver(ask)("nowhere", 80)


async def test_each_connection_asks_anew():
    server = NameServer()
    resolve = Resolver(server.ask)
    assert [await resolve("a", 80) for _ in range(2)] == [("a-1",), ("a-2",)]


async def test_those_who_ask_at_the_same_time_share_an_answer():
    server = NameServer("slow")
    resolve = Resolver(server.ask)
    asking = [asyncio.create_task(resolve("slow", 80)) for _ in range(5)]
    await eventually(lambda: asyncio.sleep(0, server.asked))
    server.back.set()
    assert set(await asyncio.gather(*asking)) == {("slow-1",)}
    assert server.asked == [("slow", 80)]


async def test_one_who_no_longer_waits_takes_nothing_from_the_others():
    server = NameServer("slow")
    resolve = Resolver(server.ask)
    gone, waiting = (asyncio.create_task(resolve("slow", 80)) for _ in range(2))
    await eventually(lambda: asyncio.sleep(0, server.asked))
    gone.cancel()
    server.back.set()
    assert await waiting == ("slow-1",)


async def test_many_dead_names_keep_no_other_waiting():
    dead = [f"dead-{number}" for number in range(MAX_LOOKUPS - 1)]
    server = NameServer(*dead)
    resolve = Resolver(server.ask)
    asking = [asyncio.create_task(resolve(name, 80)) for name in dead]
    await eventually(lambda: asyncio.sleep(0, len(server.asked) == len(dead)))
    assert await asyncio.wait_for(resolve("alive", 80), 10) == (f"alive-{MAX_LOOKUPS}",)
    server.back.set()
    await asyncio.gather(*asking)


async def test_lookups_without_end_are_refused():
    server = NameServer(*(f"dead-{number}" for number in range(MAX_LOOKUPS)))
    resolve = Resolver(server.ask)
    asking = [asyncio.create_task(resolve(name, 80)) for name in server.dead]
    await eventually(lambda: asyncio.sleep(0, len(server.asked) == MAX_LOOKUPS))
    with pytest.raises(OSError, match="256 names are being looked up already"):
        await resolve("alive", 80)
    server.back.set()
    await asyncio.gather(*asking)
    assert await resolve("alive", 80)


def test_an_answer_that_comes_after_the_loop_was_closed_disturbs_nobody():
    server = NameServer("slow")
    resolve = Resolver(server.ask)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(resolve("slow", 80), 0.01)

    asyncio.run(give_up())
    [thread] = [thread for thread in threading.enumerate() if thread.name == "resolve slow"]
    server.back.set()
    thread.join(10)
    assert not thread.is_alive()
