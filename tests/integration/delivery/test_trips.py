"""A delivery and a capped init take few round trips to Redis, and lose nothing by it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from acker_service.components import Components
from acker_service.delivery.egress import EgressPolicy
from acker_service.delivery.retry import DeliveryConfig, Schedule
from acker_service.delivery.webhook_client import RequestLimits, WebhookClient
from acker_service.delivery.workers import DeliveryWorkers
from acker_service.mailboxes import notifier
from acker_service.redis.calls import Call, hint_channels
from acker_service.redis.functions.roots import read_pending
from acker_service.topologies.callback import Webhook, register_callback

from tests.support.caller import Caller, init
from tests.support.receivers import Planned, Receiver, served
from tests.support.redis_side import at, everywhere, let_redis_count
from tests.support.tasks import delivery_workers
from tests.support.trips import Trips, command_counts, counted
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

SPOUT = "orders"
CONFIG = DeliveryConfig(linger_s=0.005, lease_ms=30_000, schedule=Schedule(delays_s=(600, 600)))
CLIENT = WebhookClient(
    egress_policy=EgressPolicy(hosts=frozenset({"127.0.0.1"})), limits=RequestLimits(request_timeout_s=20)
)
BATCH = ["TIME", "acker_take_v1", "acker_settle_v2"]
"""The round trips of a batch; the lease goes back in the last of them, where one server has all shards."""
RELEASE = "acker_leave_v1"
NO_FIELDS = ("FCALL", "acker_pending_v1", 1, "its key", "its stamp")
CLAIM_NOTHING = ["TIME", "acker_take_v1", RELEASE]


class Slow(Receiver):
    """A receiver that answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()
        self.answers.set()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        async def answer(message: Any) -> None:
            await asyncio.to_thread(self.answers.wait, 20)
            await send(message)

        await super().__call__(scope, receive, answer)


@pytest.fixture
def receiver() -> Slow:
    return Slow()


@pytest.fixture
def port(receiver: Slow) -> Iterator[int]:
    with served(receiver) as port:
        yield port


@pytest.fixture
def trips(parts: Components) -> Iterator[Trips]:
    with counted(parts) as trips:
        yield trips


@pytest.fixture(autouse=True)
def hints_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hints alone wake the worker: the poll would wake it once more for what a hint told before."""
    monkeypatch.setattr(notifier, "POLL_INTERVAL_S", 600)


class Delivery:
    """A service with a webhook whose round trips are counted."""

    def __init__(self, parts: Components, call: Caller, trips: Trips, receiver: Slow, port: int) -> None:
        self.parts = parts
        self.call = call
        self.trips = trips
        self.receiver = receiver
        self.port = port
        self._workers: DeliveryWorkers | None = None

    async def register(self) -> None:
        webhook = Webhook(url=f"http://127.0.0.1:{self.port}/hook")

        def change(present: Any, now_ms: int) -> Any:
            return register_callback(webhook, present, now_ms=now_ms, make_secret=lambda: "whsec_" + "A" * 32)

        await self.call.put_spout(SPOUT)
        await self.parts.callbacks.change("default", SPOUT, change)

    async def start(self, **config: Any) -> None:
        """Start a worker, and wait until hints reach it."""
        self._workers = delivery_workers(
            self.parts, webhook_client=CLIENT, config=replace(CONFIG, **config), interval=600
        )
        self._workers.start()
        topology = await self.parts.registry.get("default")
        channels = set(hint_channels(topology.name, topology.layout.shards))

        async def subscribed() -> bool:
            answers = await everywhere(self.parts, "PUBSUB", "SHARDCHANNELS", "*")
            return channels <= {channel.decode() for answer in answers for channel in answer}

        await eventually(subscribed)

    async def start_idle(self, **config: Any) -> None:
        """Start a worker with nothing to deliver, and count from when it waits."""
        await self.start(**config)
        await self.rests(1)
        self.trips.clear()

    async def rests(self, times: int) -> None:
        """Wait until the worker released its lease so many times since the count began."""

        async def released() -> bool:
            return len(self.trips.of(RELEASE)) >= times

        await eventually(released, within=15)

    async def received(self, count: int) -> None:
        async def came() -> bool:
            return len(self.receiver.received) >= count

        await eventually(came, within=15)  # an idle worker looks again after 30 s by itself

    def turns(self) -> list[list[str]]:
        """Return the worker's round trips by turn; a release that follows a settlement at once is no trip of the batch.

        In a cluster the lease may be on another server than what is settled, and is then released behind it.
        """
        found = [[call for call, _ in groupby(trip)] for trip in self.trips.of(*BATCH, RELEASE)]
        turns: list[list[str]] = []
        for names in found:
            if names[0] == "TIME":
                turns.append([])
            turns[-1].append(names[0])
        return [turn[:-1] if turn == [*BATCH, RELEASE] and self.is_cluster else turn for turn in turns]

    @property
    def is_cluster(self) -> bool:
        return self.parts.redis.url.startswith("redis+cluster")

    async def stop(self) -> None:
        if self._workers is not None:
            await self._workers.stop()


@pytest.fixture
async def delivery(parts: Components, call: Caller, trips: Trips, receiver: Slow, port: int) -> AsyncIterator[Delivery]:
    delivery = Delivery(parts, call, trips, receiver, port)
    await delivery.register()
    trips.clear()
    yield delivery
    receiver.answers.set()
    await delivery.stop()


def roots(receiver: Receiver) -> list[list[int]]:
    """Return the roots of each request."""
    return [[int(done["root_id"], 16) for done in it.document["data"]["completions"]] for it in receiver.received]


async def test_a_small_batch_takes_three_round_trips_from_one_wait_to_the_next(delivery: Delivery) -> None:
    await delivery.start_idle()
    for number in (1, 2, 3):
        await delivery.call.states(init(number))
        await delivery.rests(number)
    assert delivery.turns() == [BATCH] * 3
    assert roots(delivery.receiver) == [[1], [2], [3]]


async def test_the_servers_count_no_more_calls_than_these(delivery: Delivery) -> None:
    await delivery.start_idle()
    before = await command_counts(delivery.parts)
    await delivery.call.states(init(1))
    await delivery.rests(1)
    after = await command_counts(delivery.parts)
    assert after["fcall"] - before["fcall"] == sum(len(trip) for trip in delivery.trips.of("acker_"))


async def test_what_is_settled_in_all_shards_is_settled_in_one_round_trip(delivery: Delivery) -> None:
    await delivery.start_idle(linger_s=0.5)
    await delivery.call.states(*[init(root) for root in range(1, 9)])
    await delivery.rests(1)
    assert delivery.turns() == [BATCH]
    [settled] = delivery.trips.of("acker_settle")
    assert settled.count("acker_settle_v2") == 4
    assert [sorted(batch) for batch in roots(delivery.receiver)] == [[*range(1, 9)]]


async def test_the_lease_goes_back_when_all_is_settled(delivery: Delivery) -> None:
    """Another worker that got it before would deliver the same again."""
    await delivery.start_idle()
    await delivery.call.states(*[init(root) for root in range(1, 9)])
    await delivery.rests(1)
    calls = [call for trip in delivery.trips.of("acker_settle", RELEASE) for call in trip]
    assert calls[-1] == RELEASE
    assert set(calls[:-1]) == {"acker_settle_v2"}


@pytest.mark.parametrize(
    "answer",
    [Planned(status=500), Planned(status=503, headers={"retry-after": "600"}), Planned(body=b'{"retry": ["all"]}')],
    ids=["failed", "busy", "asked for again"],
)
async def test_a_batch_that_fails_takes_no_more(delivery: Delivery, answer: Planned) -> None:
    await delivery.start_idle()
    delivery.receiver.plan.append(answer)
    await delivery.call.states(init(1))
    await delivery.rests(1)
    assert delivery.turns() == [BATCH]


async def test_a_batch_that_fails_behind_another_takes_no_more(delivery: Delivery) -> None:
    """Nothing more is sent for a while then."""
    await delivery.start_idle()
    delivery.receiver.plan.extend([Planned(status=500)] * 2)
    for number in (1, 2):
        await delivery.call.states(init(number))
        await delivery.rests(number)
    assert delivery.turns() == [BATCH] * 2
    assert (await delivery.call.spout())["unread"] == 2


async def test_a_receiver_that_is_left_alone_costs_no_round_trips(delivery: Delivery) -> None:
    await delivery.start_idle()
    delivery.receiver.plan.append(Planned(status=503, headers={"retry-after": "2"}))
    await delivery.call.states(init(1))
    await delivery.rests(1)
    for number in (2, 3, 4):
        await delivery.call.states(init(number))
    await delivery.received(2)
    await delivery.rests(2)
    assert delivery.turns() == [BATCH] * 2
    assert [sorted(batch) for batch in roots(delivery.receiver)] == [[1], [2, 3, 4]]


async def test_each_batch_of_many_takes_three_and_the_lease_is_kept_between_them(delivery: Delivery) -> None:
    for root in range(1, 21):
        await delivery.call.states(init(root))
    await delivery.start(max_batch=5)
    await delivery.rests(1)
    assert delivery.turns() == [BATCH] * 4
    assert sorted(root for batch in roots(delivery.receiver) for root in batch) == [*range(1, 21)]


async def test_a_retry_takes_three_and_one_look_for_what_else_is_due(delivery: Delivery) -> None:
    await delivery.start_idle(schedule=Schedule(delays_s=(0.3, 600)))
    delivery.receiver.plan.append(Planned(status=500))
    await delivery.call.states(init(1))
    await delivery.received(2)
    await delivery.rests(2)
    assert delivery.turns() == [BATCH, BATCH, CLAIM_NOTHING]


async def test_what_comes_while_the_worker_lingers_goes_along(delivery: Delivery) -> None:
    await delivery.start_idle(linger_s=0.5)
    for root in (1, 2, 3):
        await delivery.call.states(init(root))
    await delivery.rests(1)
    await delivery.call.states(init(4))
    await delivery.rests(2)
    assert delivery.turns() == [BATCH] * 2
    assert [sorted(batch) for batch in roots(delivery.receiver)] == [[1, 2, 3], [4]]


async def test_what_comes_while_a_batch_is_delivered_goes_next_though_no_poll_finds_it(delivery: Delivery) -> None:
    await delivery.start_idle()
    delivery.receiver.answers.clear()
    await delivery.call.states(init(1))
    await delivery.received(1)
    await delivery.call.states(init(2))

    async def hinted() -> bool:
        return bool(delivery.parts.metrics.operations.hints._value.get() >= 2)

    await eventually(hinted)
    delivery.receiver.answers.set()
    await delivery.rests(1)
    assert delivery.turns() == [BATCH] * 2
    assert roots(delivery.receiver) == [[1], [2]]


async def test_an_idle_worker_leaves_the_lease_to_another(delivery: Delivery) -> None:
    await delivery.start_idle()
    await delivery.call.states(init(1))
    await delivery.rests(1)
    topology = await delivery.parts.registry.get("default")

    async def free() -> bool:
        leases = f"{topology.shards[0]}:{topology.incarnation}:leases"
        return not await at(delivery.parts, "HGETALL", leases)

    await eventually(free, within=5)


@pytest.mark.parametrize("counts_in_redis", [True, False], ids=["counted in Redis", "read before"])
async def test_a_capped_init_of_one_shard_takes_two_round_trips_at_most_and_reads_one_field(
    call: Caller, parts: Components, trips: Trips, monkeypatch: pytest.MonkeyPatch, *, counts_in_redis: bool
) -> None:
    """One round trip if Redis adds up what is pending."""
    let_redis_count(parts, counts=counts_in_redis)
    reads = int(not parts.applier.limiter.counts_in_redis)
    fields, execute_each = list[int](), parts.redis.execute_each

    async def counting(calls: Sequence[Call[Any]]) -> list[Any]:
        fields.extend(len(call.command) - len(NO_FIELDS) for call in calls if call.name == NO_FIELDS[1])
        return await execute_each(calls)

    monkeypatch.setattr(parts.redis, "execute_each", counting)
    one = Caller(call.http, "one")
    await one.put(max_spout_pending=2, ackers=1)
    assert await one.state(init(1, 9)) == "pending"
    before = await command_counts(parts)
    trips.clear()
    fields.clear()
    assert await one.state(init(2, 9)) == "pending"
    assert trips.found == [("acker_pending_v1",)] * reads + [("acker_apply_v2",)]
    after = await command_counts(parts)
    assert (after["fcall"] - before["fcall"], fields) == (1 + reads, [1] * reads)
    assert after.get("hmget", 0) - before.get("hmget", 0) == 1
    assert after.get("hgetall", 0) == before.get("hgetall", 0)
    assert await one.state(init(3, 9)) == "max_spout_pending"


async def test_pending_roots_are_read_in_the_order_of_the_spout_tasks_however_many(parts: Components) -> None:
    topology = await parts.registry.get("default")
    counts = {index: index * 7 + 1 for index in range(0, 2_500, 3)}
    pairs = [value for pair in counts.items() for value in pair]
    await at(parts, "HSET", f"{topology.shards[1]}:{topology.incarnation}:pending", *pairs)
    indexes = [*range(2_500)][::-1]
    _, pending = await parts.shards.call(topology, 1, read_pending(indexes))
    assert pending == [counts.get(index, 0) for index in indexes]
