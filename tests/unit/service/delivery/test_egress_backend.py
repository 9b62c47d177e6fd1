"""Tests how names are resolved, and that connections go to allowed addresses only."""

import asyncio
import socket
import threading

import httpcore2
import pytest
from acker_service.delivery.egress import EgressPolicy, read_networks
from acker_service.delivery.egress_backend import MAX_LOOKUPS, DestinationDenied, EgressGuardedBackend, Resolver
from acker_service.host_names import read_hosts

from tests.support.receivers import Broken, met
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

LOOPBACK = EgressPolicy(networks=read_networks("127.0.0.1/32"))
NOTHING = EgressPolicy()
PUBLIC = "93.184.215.14"


class Names:
    """A name server that gives the next answer at each lookup, and repeats the last."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.lookups: list[str] = []

    async def __call__(self, host: str, _: int) -> tuple[str, ...]:
        self.lookups.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return tuple(answer.split())


class Network(httpcore2.AsyncNetworkBackend):
    """A network that records the addresses it connects to; some of them answer, the others refuse or stay silent."""

    def __init__(self, *alive: str, silent: tuple[str, ...] = ()) -> None:
        self.alive = alive
        self.silent = silent
        self.connected: list[str] = []

    async def connect_tcp(self, host, port, timeout=None, *_):  # noqa: ARG002, ASYNC109 - the interface of httpcore2
        self.connected.append(host)
        if host in self.silent:
            try:
                async with asyncio.timeout(timeout):
                    await asyncio.Event().wait()
            except TimeoutError:
                raise httpcore2.ConnectTimeout from None
        if host not in self.alive:
            raise httpcore2.ConnectError("connection refused")
        return httpcore2.AsyncMockStream([])


def backend(names, *, policy=NOTHING, network=None) -> EgressGuardedBackend:
    return EgressGuardedBackend(egress_policy=policy, resolve=names, network=network)


INSIDE = """
    127.0.0.1 127.8.9.10 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 255.255.255.255
    ::1 :: fe80::1 fe80::1%1 fd00::1 ff02::1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1
    2002:7f00:1::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
"""


@pytest.mark.parametrize("address", INSIDE.split())
async def test_a_name_that_leads_inside_is_refused_and_nothing_is_dialled(address):
    network = Network(address)
    with pytest.raises(DestinationDenied, match=r"^hooks\.example is not a place for callbacks") as refusal:
        await backend(Names(address), network=network).connect_tcp("hooks.example", 80)
    assert network.connected == []
    assert address not in str(refusal.value)


@pytest.mark.parametrize("address", INSIDE.split())
async def test_the_same_address_is_dialled_where_it_is_allowed(address):
    prefix = address.partition("%")[0]
    network = Network(address)
    policy = EgressPolicy(networks=read_networks(prefix))
    await backend(Names(address), policy=policy, network=network).connect_tcp("hooks.example", 80)
    assert network.connected == [address]


@pytest.mark.parametrize("address", INSIDE.split())
async def test_the_same_address_is_dialled_where_the_host_is_allowed(address):
    network = Network(address)
    policy = EgressPolicy(hosts=read_hosts(".example"))
    await backend(Names(address), policy=policy, network=network).connect_tcp("hooks.example", 80)
    assert network.connected == [address]


@pytest.mark.parametrize(
    "spelling",
    [
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "017700000001",
        "0177.0.0.01",
        "127.1",
        "0",
        "::1",
        "localhost",
    ],
)
async def test_every_spelling_of_loopback_is_refused(spelling):
    network = Network("127.0.0.1", "::1")
    with pytest.raises(DestinationDenied, match=r"loopback|unspecified"):
        await backend(Resolver(), network=network).connect_tcp(spelling, 80)
    assert network.connected == []


@pytest.mark.parametrize("spelling", ["127.0.0.1", "2130706433", "0x7f.1", "017700000001"])
async def test_a_spelling_of_an_allowed_address_leads_there(spelling):
    async with met(Broken(b"hello")) as port:
        stream = await backend(Resolver(), policy=LOOPBACK).connect_tcp(spelling, port, timeout=10)
        await stream.write(b"?")
        assert await stream.read(5, timeout=10) == b"hello"
        await stream.aclose()


async def test_a_name_that_is_rebound_after_the_check_is_reached_where_it_was_checked():
    names, network = Names(PUBLIC, "127.0.0.1"), Network(PUBLIC, "127.0.0.1")
    guarded = backend(names, network=network)
    await guarded.connect_tcp("rebinding.example", 80)
    assert (names.lookups, network.connected) == (["rebinding.example"], [PUBLIC])
    with pytest.raises(DestinationDenied):
        await guarded.connect_tcp("rebinding.example", 80)
    assert network.connected == [PUBLIC]


async def test_of_several_addresses_only_those_that_pass_are_dialled():
    network = Network()
    names = Names(f"127.0.0.1 {PUBLIC} 10.0.0.1 1.1.1.1 ::1")
    with pytest.raises(httpcore2.ConnectError, match="connection refused"):
        await backend(names, network=network).connect_tcp("hooks.example", 80)
    assert network.connected == [PUBLIC, "1.1.1.1"]


async def test_a_refusal_names_the_kinds_of_addresses_and_not_the_addresses():
    with pytest.raises(
        DestinationDenied, match=r"h is not a place for callbacks \(link-local, private\); the operator can allow it"
    ):
        await backend(Names("10.0.0.1 169.254.0.1 10.0.0.2")).connect_tcp("h", 80)


async def test_an_address_that_refuses_or_is_silent_leaves_time_for_the_next():
    network = Network("2606:4700::3", silent=("2606:4700::2",))
    names = Names("2606:4700::1 2606:4700::2 2606:4700::3")
    await backend(names, network=network).connect_tcp("hooks.example", 80, timeout=1.5)
    assert network.connected == ["2606:4700::1", "2606:4700::2", "2606:4700::3"]


async def test_where_all_are_silent_it_ends_in_time():
    network = Network(silent=(PUBLIC, "1.1.1.1"))
    with pytest.raises(httpcore2.ConnectTimeout):
        await backend(Names(f"{PUBLIC} 1.1.1.1"), network=network).connect_tcp("hooks.example", 80, timeout=0.05)


async def test_a_name_server_that_is_silent_is_waited_for_no_longer_than_a_connection():
    async def never(host, port):
        await asyncio.Event().wait()

    with pytest.raises(httpcore2.ConnectTimeout):
        await backend(never).connect_tcp("hooks.example", 80, timeout=0.05)


async def test_a_name_without_address_is_a_failed_connection():
    async def nowhere(host, port):
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(httpcore2.ConnectError, match="h has no address: Name or service not known"):
        await backend(nowhere).connect_tcp("h", 80)


class NameServer:
    """Answers the lookup of a dead name once `back` is set."""

    def __init__(self, *dead: str) -> None:
        self.lookups: list[tuple[str, int]] = []
        self.dead = dead
        self.back = threading.Event()

    def lookup(self, host: str, port: int) -> tuple[str, ...]:
        self.lookups.append((host, port))
        if host in self.dead:
            self.back.wait(30)
        return (f"{host}-{len(self.lookups)}",)


async def test_the_system_is_asked():
    assert await Resolver()("127.0.0.1", 80) == ("127.0.0.1",)
    assert await Resolver()("::1", 80) == ("::1",)
    assert "127.0.0.1" in await Resolver()("localhost", 80)


@pytest.mark.parametrize("spelling", ["2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1", "127.1"])
async def test_the_system_reads_other_spellings_of_an_address(spelling):
    assert await Resolver()(spelling, 80) == ("127.0.0.1",)


async def test_each_address_is_given_once():
    addresses = await Resolver()("localhost", 80)
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
async def test_a_name_without_address_is_an_error_of_the_system(error):
    def lookup(host, port):
        raise error

    with pytest.raises(OSError, match=r"not known|too long"):
        await Resolver(lookup)("nowhere", 80)


async def test_each_connection_looks_up_again():
    server = NameServer()
    resolve = Resolver(server.lookup)
    assert [await resolve("a", 80) for _ in range(2)] == [("a-1",), ("a-2",)]


async def test_those_who_ask_at_the_same_time_share_an_answer():
    server = NameServer("slow")
    resolve = Resolver(server.lookup)
    pending = [asyncio.create_task(resolve("slow", 80)) for _ in range(5)]
    await eventually(lambda: asyncio.sleep(0, server.lookups))
    server.back.set()
    assert set(await asyncio.gather(*pending)) == {("slow-1",)}
    assert server.lookups == [("slow", 80)]


async def test_one_who_no_longer_waits_takes_nothing_from_the_others():
    server = NameServer("slow")
    resolve = Resolver(server.lookup)
    gone, waiting = (asyncio.create_task(resolve("slow", 80)) for _ in range(2))
    await eventually(lambda: asyncio.sleep(0, server.lookups))
    gone.cancel()
    server.back.set()
    assert await waiting == ("slow-1",)


async def test_many_dead_names_keep_no_other_waiting():
    dead = [f"dead-{number}" for number in range(MAX_LOOKUPS - 1)]
    server = NameServer(*dead)
    resolve = Resolver(server.lookup)
    pending = [asyncio.create_task(resolve(name, 80)) for name in dead]
    await eventually(lambda: asyncio.sleep(0, len(server.lookups) == len(dead)))
    assert await asyncio.wait_for(resolve("alive", 80), 10) == (f"alive-{MAX_LOOKUPS}",)
    server.back.set()
    await asyncio.gather(*pending)


async def test_lookups_without_end_are_refused():
    server = NameServer(*(f"dead-{number}" for number in range(MAX_LOOKUPS)))
    resolve = Resolver(server.lookup)
    pending = [asyncio.create_task(resolve(name, 80)) for name in server.dead]
    await eventually(lambda: asyncio.sleep(0, len(server.lookups) == MAX_LOOKUPS))
    with pytest.raises(OSError, match="256 names are being looked up already"):
        await resolve("alive", 80)
    server.back.set()
    await asyncio.gather(*pending)
    assert await resolve("alive", 80)


def test_an_answer_that_comes_after_the_loop_was_closed_disturbs_nobody():
    server = NameServer("slow")
    resolve = Resolver(server.lookup)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(resolve("slow", 80), 0.01)

    asyncio.run(give_up())
    [thread] = [thread for thread in threading.enumerate() if thread.name == "resolve slow"]
    server.back.set()
    thread.join(10)
    assert not thread.is_alive()
