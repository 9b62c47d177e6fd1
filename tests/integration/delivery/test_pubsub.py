"""Completions are published on the channel of their spout task, and stay until they are released."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from acker_service.components import Components
from acker_service.delivery.egress import EgressPolicy
from acker_service.delivery.retry import DeliveryConfig
from acker_service.delivery.webhook_client import WebhookClient
from acker_service.delivery.workers import DeliveryWorkers
from acker_service.topologies.callback import PubSub, Webhook, register_callback
from redis.asyncio import Redis

from tests.support.caller import Caller, init
from tests.support.tasks import delivery_workers
from tests.support.trips import counted
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

SPOUT = "orders"
CHANNEL = "acker:default:orders"
CONFIG = DeliveryConfig(linger_s=0.005, lease_ms=10_000)


@pytest.fixture(scope="module")
def webhook_client() -> WebhookClient:
    return WebhookClient(egress_policy=EgressPolicy())


class Subscriber:
    """A subscriber of a channel."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    @property
    def completions(self) -> list[dict[str, Any]]:
        return [done for message in self.messages for done in message["completions"]]

    @property
    def roots(self) -> list[int]:
        return sorted(int(done["root_id"], 16) for done in self.completions)

    async def listen(self, pubsub: Any) -> None:
        async for message in pubsub.listen():
            if message["type"] in ("message", "smessage"):
                self.messages.append(json.loads(message["data"]))


@pytest.fixture
async def subscriber(parts: Components) -> AsyncIterator[Subscriber]:
    """A subscriber whose subscription is confirmed: at the server that has the channel, in a cluster."""
    subscriber, url = Subscriber(), (await parts.redis._slot_map.of(CHANNEL)).url
    async with Redis.from_url(url) as redis, redis.pubsub() as pubsub:
        sharded = parts.redis.url.startswith("redis+cluster")
        await (pubsub.ssubscribe(CHANNEL) if sharded else pubsub.subscribe(CHANNEL))
        assert (await pubsub.get_message(timeout=30))["type"].endswith("subscribe")
        listening = asyncio.create_task(subscriber.listen(pubsub))
        yield subscriber
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening


@pytest.fixture
async def workers(parts: Components, call: Caller, webhook_client: WebhookClient) -> AsyncIterator[DeliveryWorkers]:
    await call.put_spout(SPOUT)
    await parts.callbacks.change("default", SPOUT, _register_pubsub)
    workers = delivery_workers(parts, webhook_client=webhook_client, config=CONFIG)
    yield workers
    await workers.stop()


def _register_pubsub(present: Any, now_ms: int) -> Any:
    return register_callback(PubSub(), present, now_ms=now_ms, make_secret=str)


def eventually_published(subscriber: Subscriber, roots: list[int]) -> Any:
    async def published() -> bool:
        return subscriber.roots == roots

    return eventually(published, within=30)


async def test_a_message_is_the_json_of_a_pulls_answer_and_its_cursor_releases(
    workers: DeliveryWorkers, call: Caller, subscriber: Subscriber
) -> None:
    await call.states(*[init(root, end_on="all_ended") for root in range(4, 24, 4)])
    pulled = await call.completions()
    assert [done["failures"] for done in pulled["completions"]] == [0] * 5
    workers.start()
    await eventually_published(subscriber, [*range(4, 24, 4)])
    [message] = subscriber.messages
    assert message == pulled
    assert (await call.spout())["unread"] == 5
    assert await call.release(message["cursor"]) == 5


async def test_what_ends_later_is_published_once(
    parts: Components, workers: DeliveryWorkers, call: Caller, subscriber: Subscriber
) -> None:
    workers.start()
    for root in range(1, 9):
        await call.states(init(root))
        await eventually_published(subscriber, [*range(1, root + 1)])
    assert (await call.spout())["unread"] == 8

    async def counted() -> bool:
        topology = await parts.registry.get("default")
        return (await parts.stats.read(topology)).deliveries["published"] == 8

    await eventually(counted)
    assert len(subscriber.messages) == 8


async def test_a_large_entry_is_published_in_messages_whose_cursors_stand_inside_it(
    parts: Components,
    workers: DeliveryWorkers,
    call: Caller,
    subscriber: Subscriber,
    webhook_client: WebhookClient,
) -> None:
    await call.states(*[init(root) for root in range(4, 44, 4)])
    small = delivery_workers(parts, webhook_client=webhook_client, config=replace(CONFIG, max_batch=4))
    small.start()
    await eventually_published(subscriber, [*range(4, 44, 4)])
    await small.stop()
    assert [len(message["completions"]) for message in subscriber.messages] == [4, 4, 2]
    assert await call.release(subscriber.messages[0]["cursor"]) == 4
    assert len(await call.outcomes(after=subscriber.messages[1]["cursor"])) == 2


async def test_each_cursor_names_one_shard(workers: DeliveryWorkers, call: Caller, subscriber: Subscriber) -> None:
    await call.states(*[init(root) for root in range(1, 9)])
    workers.start()
    await eventually_published(subscriber, [*range(1, 9)])
    released = [await call.release(message["cursor"]) for message in subscriber.messages]
    assert released == [2, 2, 2, 2]


async def test_one_that_follows_a_webhook_publishes_what_that_did_not_take(
    parts: Components, workers: DeliveryWorkers, call: Caller, subscriber: Subscriber
) -> None:
    def to_webhook(present: Any, now_ms: int) -> Any:
        nowhere = Webhook(url="http://127.0.0.1:1/")
        return register_callback(nowhere, present, now_ms=now_ms, make_secret=lambda: "whsec_" + "A" * 32)

    await parts.callbacks.change("default", SPOUT, to_webhook)
    workers.start()
    await call.states(init(1), init(2))

    async def failing() -> bool:
        return "retry" in {kind for _, kind in parts.metrics.delivery.posts}  # type: ignore[misc]

    await eventually(failing)
    await parts.callbacks.change("default", SPOUT, _register_pubsub)
    await eventually_published(subscriber, [1, 2])


async def test_messages_of_many_entries_go_in_few_round_trips_and_in_their_order(
    parts: Components, call: Caller, subscriber: Subscriber, workers: DeliveryWorkers
) -> None:
    for root in range(4, 44, 4):  # all on one shard, each in an entry of its own
        await call.state(init(root))
    with counted(parts) as trips:
        workers.start()

        async def came() -> bool:
            return len(subscriber.completions) >= 10

        await eventually(came)
    assert [len(trip) for trip in trips.of("PUBLISH", "SPUBLISH")] == [10]
    assert [int(done["root_id"], 16) for done in subscriber.completions] == [*range(4, 44, 4)]
