"""Tests that connections go to checked addresses only, whatever names lead to."""

import asyncio
import socket

import httpcore
import pytest
from acker_service.delivery.dns import Resolver
from acker_service.delivery.egress import EgressPolicy, read_hosts, read_networks
from acker_service.delivery.egress_backend import DestinationDenied, EgressGuardedBackend

from tests.support.receivers import Broken, met

pytestmark = pytest.mark.anyio

LOOPBACK = EgressPolicy(networks=read_networks("127.0.0.1/32"))
NOTHING = EgressPolicy()
PUBLIC = "93.184.215.14"


class Names:
    """A name server of a test's own: each time a name is asked for it gives the next answer, at last the last."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, _: int) -> tuple[str, ...]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return tuple(answer.split())


class Wires(httpcore.AsyncNetworkBackend):
    """A network that says to which addresses it was told to go; some of them answer, the others do not exist."""

    def __init__(self, *alive: str, silent: tuple[str, ...] = ()) -> None:
        self.alive, self.silent = alive, silent
        self.dialled: list[str] = []

    async def connect_tcp(self, host, port, timeout=None, *_):  # noqa: ARG002, ASYNC109 - the interface of httpcore
        self.dialled.append(host)
        if host in self.silent:
            try:
                async with asyncio.timeout(timeout):
                    await asyncio.Event().wait()
            except TimeoutError:
                raise httpcore.ConnectTimeout from None
        if host not in self.alive:
            raise httpcore.ConnectError("connection refused")
        return httpcore.AsyncMockStream([])


def dialler(names, *, allowed=NOTHING, wires=None) -> EgressGuardedBackend:
    return EgressGuardedBackend(allowed=allowed, resolve=names, network=wires)


INSIDE = """
    127.0.0.1 127.8.9.10 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 255.255.255.255
    ::1 :: fe80::1 fe80::1%1 fd00::1 ff02::1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1
    2002:7f00:1::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
"""


@pytest.mark.parametrize("address", INSIDE.split())
async def test_a_name_that_leads_inside_is_refused_and_nothing_is_dialled(address):
    wires = Wires(address)
    with pytest.raises(DestinationDenied, match=r"^hooks\.example is not a place for callbacks") as refusal:
        await dialler(Names(address), wires=wires).connect_tcp("hooks.example", 80)
    assert wires.dialled == []
    assert address not in str(refusal.value)


@pytest.mark.parametrize("address", INSIDE.split())
async def test_the_same_address_is_dialled_where_it_is_allowed(address):
    network = address.partition("%")[0]
    wires = Wires(address)
    allowed = EgressPolicy(networks=read_networks(network))
    await dialler(Names(address), allowed=allowed, wires=wires).connect_tcp("hooks.example", 80)
    assert wires.dialled == [address]


@pytest.mark.parametrize("address", INSIDE.split())
async def test_the_same_address_is_dialled_where_the_host_is_allowed(address):
    wires = Wires(address)
    allowed = EgressPolicy(hosts=read_hosts(".example"))
    await dialler(Names(address), allowed=allowed, wires=wires).connect_tcp("hooks.example", 80)
    assert wires.dialled == [address]


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
    wires = Wires("127.0.0.1", "::1")
    with pytest.raises(DestinationDenied, match=r"loopback|unspecified"):
        await dialler(Resolver(), wires=wires).connect_tcp(spelling, 80)
    assert wires.dialled == []


@pytest.mark.parametrize("spelling", ["127.0.0.1", "2130706433", "0x7f.1", "017700000001"])
async def test_a_spelling_of_an_allowed_address_leads_there(spelling):
    async with met(Broken(b"hello")) as port:
        stream = await dialler(Resolver(), allowed=LOOPBACK).connect_tcp(spelling, port, timeout=10)
        await stream.write(b"?")
        assert await stream.read(5, timeout=10) == b"hello"
        await stream.aclose()


async def test_a_name_that_is_rebound_after_the_check_is_reached_where_it_was_checked():
    names, wires = Names(PUBLIC, "127.0.0.1"), Wires(PUBLIC, "127.0.0.1")
    dials = dialler(names, wires=wires)
    await dials.connect_tcp("rebinding.example", 80)
    assert (names.asked, wires.dialled) == (["rebinding.example"], [PUBLIC])
    with pytest.raises(DestinationDenied):
        await dials.connect_tcp("rebinding.example", 80)
    assert wires.dialled == [PUBLIC]


async def test_of_several_addresses_only_those_that_pass_are_dialled():
    wires = Wires()
    names = Names(f"127.0.0.1 {PUBLIC} 10.0.0.1 1.1.1.1 ::1")
    with pytest.raises(httpcore.ConnectError, match="connection refused"):
        await dialler(names, wires=wires).connect_tcp("hooks.example", 80)
    assert wires.dialled == [PUBLIC, "1.1.1.1"]


async def test_a_refusal_names_the_kinds_of_addresses_and_not_the_addresses():
    with pytest.raises(
        DestinationDenied, match=r"h is not a place for callbacks \(link-local, private\); the operator can allow it"
    ):
        await dialler(Names("10.0.0.1 169.254.0.1 10.0.0.2")).connect_tcp("h", 80)


async def test_an_address_that_refuses_or_is_silent_leaves_time_for_the_next():
    wires = Wires("2606:4700::3", silent=("2606:4700::2",))
    names = Names("2606:4700::1 2606:4700::2 2606:4700::3")
    await dialler(names, wires=wires).connect_tcp("hooks.example", 80, timeout=1.5)
    assert wires.dialled == ["2606:4700::1", "2606:4700::2", "2606:4700::3"]


async def test_where_all_are_silent_it_ends_in_time():
    wires = Wires(silent=(PUBLIC, "1.1.1.1"))
    with pytest.raises(httpcore.ConnectTimeout):
        await dialler(Names(f"{PUBLIC} 1.1.1.1"), wires=wires).connect_tcp("hooks.example", 80, timeout=0.05)


async def test_a_name_server_that_is_silent_is_waited_for_no_longer_than_a_connection():
    async def never(host, port):
        await asyncio.Event().wait()

    with pytest.raises(httpcore.ConnectTimeout):
        await dialler(never).connect_tcp("hooks.example", 80, timeout=0.05)


async def test_a_name_without_address_is_a_failed_connection():
    async def nowhere(host, port):
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(httpcore.ConnectError, match="h has no address: Name or service not known"):
        await dialler(nowhere).connect_tcp("h", 80)
