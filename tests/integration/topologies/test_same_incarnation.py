"""Two topologies that drew the same incarnation are two: what one has, the other never gets."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest
from acker_service.app import make_app
from acker_service.components import Components, TopologyLimits
from acker_service.delivery.egress import EgressPolicy
from acker_service.delivery.retry import DeliveryConfig
from acker_service.delivery.webhook_client import RequestLimits, WebhookClient
from acker_service.redis import keys
from acker_service.settings import Settings

from tests.support.caller import Caller, init
from tests.support.redis_side import at, everywhere
from tests.support.tasks import delivery_workers
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

TOMBSTONE = "7fffffffffff00000000000001x"
"""A stamp far ahead: the incarnation of what is created over it is its successor, and is not drawn."""
NAMES = ("east", "north", "south", "west")


@pytest.fixture
async def twins(call: Caller, parts: Components) -> list[Caller]:
    """Topologies of one incarnation, each with one spout task."""
    callers = [Caller(call.http, name) for name in NAMES]
    for caller in callers:
        for shard in range(4):
            await at(parts, "SET", keys.shard(caller.topology, shard), TOMBSTONE)
        await caller.put()
        await caller.put_spout()
    stamps = {(await parts.registry.get(name)).stamp for name in NAMES}
    assert len(stamps) == 1
    return callers


async def test_each_reads_its_own_completions(twins: list[Caller]) -> None:
    for number, caller in enumerate(twins, 1):
        await caller.states(*(init(1_000 * number + root) for root in range(50)))
    for _ in range(20):
        pages = await asyncio.gather(*(caller.outcomes(limit=100) for caller in twins for _ in range(3)))
        assert [{root // 1_000 for root, _ in page} for page in pages] == [{n} for n in (1, 2, 3, 4) for _ in range(3)]
        assert {len(page) for page in pages} == {50}


@pytest.mark.parametrize("lost", ["sweep", "hints"])
async def test_each_is_woken_by_its_own_completions(twins: list[Caller], parts: Components, lost: str) -> None:
    """Either way to learn of news leads to the mailbox of the topology that has them."""
    listening, sweeping = parts.mailbox_notifier._tasks
    (sweeping if lost == "sweep" else listening).cancel()
    polls = [asyncio.create_task(caller.outcomes(wait_ms=60_000)) for caller in twins]

    async def all_wait() -> bool:
        return len(parts.mailbox_notifier._mailboxes) == len(twins)

    await eventually(all_wait)
    for number, (caller, poll) in enumerate(zip(twins, polls, strict=True), 1):
        if lost == "sweep":
            await eventually(partial(listened, parts, caller.topology))
        await caller.post(init(number))
        async with asyncio.timeout(40):
            assert await poll == [(number, "acked")]
        assert not any(other.done() for other in polls[number:])


async def listened(parts: Components, topology: str) -> bool:
    """Whether somebody listens to the hints of a topology."""
    listening = await everywhere(parts, "PUBSUB SHARDNUMSUB", keys.hints(topology, 0))
    return any(count for found in listening for _, count in found)


@pytest.fixture
async def narrow(twins: list[Caller], valkey_url: str, stopping: asyncio.Event) -> AsyncIterator[Components]:
    """A replica that takes three unread completions of a spout task."""
    replica = Components(valkey_url, window_ms=600_000, limits=TopologyLimits(mailbox_max=3))
    transport = httpx.ASGITransport(app=make_app(replica, Settings(), stopping))
    async with httpx.AsyncClient(transport=transport, base_url="http://narrow.localhost") as http:
        full = Caller(http, NAMES[0])
        await full.states(*(init(root) for root in (1, 2, 3)))
        yield replica
    await replica.close()


async def test_a_full_mailbox_is_that_of_one(twins: list[Caller], narrow: Components) -> None:
    await narrow.backpressure.refresh()
    topologies = [await narrow.registry.get(name) for name in NAMES]
    indexes = [(await narrow.spouts.get(topology, "orders")).index for topology in topologies]
    full = [narrow.backpressure.was_full(*pair) for pair in zip(topologies, indexes, strict=True)]
    assert full == [True, False, False, False]


async def test_each_has_a_worker_for_its_callback(twins: list[Caller], parts: Components) -> None:
    for caller in twins:
        await caller.put_spout(callback={"kind": "webhook", "url": "https://orders.example/"})
    limits = RequestLimits(request_timeout_s=1.0, retry_after_max_s=1.0)
    client = WebhookClient(egress_policy=EgressPolicy(), limits=limits)
    workers = delivery_workers(parts, webhook_client=client, config=DeliveryConfig())
    try:
        for _ in range(2):  # the second visit of each ends none that the first one began
            for name in NAMES:
                await workers.run_for(await parts.registry.refresh(name))
        running = [worker for worker, task in workers._running.values() if not task.done()]
        assert sorted(worker.topology.name for worker in running) == sorted(NAMES)
    finally:
        await workers.stop()
