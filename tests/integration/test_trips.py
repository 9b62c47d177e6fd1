"""A delivery and a capped init take few round trips to Redis."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from acker_service.components import Components
from acker_service.delivery.egress import EgressPolicy
from acker_service.delivery.retry import DeliveryConfig, Schedule
from acker_service.delivery.webhook_client import RequestLimits, WebhookClient
from acker_service.topologies.callback import Webhook, register_callback

from tests.support.caller import Caller, init
from tests.support.receivers import Planned, Receiver, served
from tests.support.tasks import delivery_supervisor
from tests.support.trips import Trips, commands, counted
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

SPOUT = "orders"
DELIVERY = ("TIME", "acker_take", "acker_settle", "acker_leave")
CONFIG = DeliveryConfig(linger_s=0.005, lease_ms=30_000, schedule=Schedule(delays_s=(600, 600)))
ALLOWED = EgressPolicy(hosts=frozenset({"127.0.0.1"}))


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def port(receiver: Receiver) -> Iterator[int]:
    with served(receiver) as port:
        yield port


@pytest.fixture
def trips(parts: Components) -> Iterator[Trips]:
    with counted(parts) as trips:
        yield trips


class Idle:
    """A worker that waits for its first completion, on a service whose other work does not count."""

    def __init__(self, parts: Components, call: Caller, trips: Trips, receiver: Receiver) -> None:
        self.parts, self.call, self.trips, self.receiver = parts, call, trips, receiver

    async def start(self, port: int, config: DeliveryConfig = CONFIG) -> None:
        def change(present: Any, now_ms: int) -> Any:
            webhook = Webhook(url=f"http://127.0.0.1:{port}/hook")
            return register_callback(webhook, present, now_ms=now_ms, make_secret=lambda: "whsec_" + "A" * 32)

        await self.call.put_spout(SPOUT)
        await self.parts.callbacks.change("default", SPOUT, change)
        client = WebhookClient(egress_policy=ALLOWED, limits=RequestLimits(request_timeout_s=20))
        self.supervisor = delivery_supervisor(self.parts, webhook_client=client, config=config, interval=600)
        self.supervisor.start()
        await self.wait_until_idle()

    async def wait_until_idle(self) -> None:
        """Wait until the worker makes no round trip for a while."""

        async def quiet() -> bool:
            before = len(self.trips.found)
            await asyncio.sleep(0.3)
            return bool(self.trips.of("acker_leave")) and len(self.trips.found) == before

        await eventually(quiet, within=30)
        await self.wait_for_poll()

    async def wait_for_poll(self) -> None:
        """Wait until the poll of all mailboxes has seen what the hints told already: it wakes workers once more."""
        sweeps = self.parts.metrics.operations.sweeps
        seen = sweeps._value.get()

        async def polled() -> bool:
            return bool(sweeps._value.get() >= seen + 2)

        await eventually(polled, within=30)


@pytest.fixture
async def idle(parts: Components, call: Caller, trips: Trips, receiver: Receiver, port: int) -> AsyncIterator[Idle]:
    idle = Idle(parts, call, trips, receiver)
    await idle.start(port)
    yield idle
    await idle.supervisor.stop()


async def until_settled(idle: Idle) -> list[tuple[str, ...]]:
    """Give the round trips of one batch: those up to the one that settles it, and the lease's release if apart."""

    async def settled() -> bool:
        return bool(idle.trips.of("acker_settle"))

    await eventually(settled, within=30)
    await asyncio.sleep(0.2)
    return idle.trips.of(*DELIVERY)


async def test_x(idle: Idle, receiver: Receiver) -> None:
    idle.trips.clear()
    await idle.call.words(init(1))
    print(await until_settled(idle))
    print(idle.trips.found)
    await idle.wait_for_poll()
    receiver.plan.append(Planned(status=503, headers={"retry-after": "1"}))
    idle.trips.clear()
    await idle.call.words(init(2))
    print(await until_settled(idle))
    print(idle.trips.found)
    assert 0
