"""Completions reach the webhook of their spout task, whatever its receiver answers."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from acker_protocol.signature import verify
from acker_service.components import Components
from acker_service.delivery.egress import EgressPolicy
from acker_service.delivery.retry import DeliveryConfig, Schedule
from acker_service.delivery.webhook_client import RequestLimits, WebhookClient
from acker_service.delivery.workers import DeliveryWorkers
from acker_service.topologies.callback import PubSub, Webhook, pause, register_callback, resume, rotate

from tests.support.caller import Caller, init
from tests.support.receivers import Broken, Planned, Received, Receiver, Silent, met, served
from tests.support.tasks import delivery_workers, root_expiry
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

SECRET = "whsec_" + "A" * 32
SPOUT = "orders"
ALLOWED = EgressPolicy(hosts=frozenset({"127.0.0.1"}))
CONFIG = DeliveryConfig(linger_s=0.005, lease_ms=30_000, schedule=Schedule(delays_s=(0.05, 0.1, 0.2)))


@pytest.fixture(scope="module")
def webhook_client() -> WebhookClient:
    limits = RequestLimits(connect_timeout_s=20, request_timeout_s=20, retry_after_max_s=1)
    return WebhookClient(egress_policy=ALLOWED, limits=limits)


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def port(receiver: Receiver) -> Iterator[int]:
    with served(receiver) as port:
        yield port


class Hooks:
    """A service that delivers, and its callbacks."""

    def __init__(self, parts: Components, call: Caller, webhook_client: WebhookClient) -> None:
        self.store = parts
        self.call = call
        self.webhook_client = webhook_client
        self._started: list[DeliveryWorkers] = []

    async def register(self, port: int, spout_task: str = SPOUT, topology: str = "default") -> None:
        url = f"http://127.0.0.1:{port}/hook"

        def change(present: Any, now_ms: int) -> Any:
            return register_callback(
                Webhook(url=url, secret=SECRET), present, now_ms=now_ms, make_secret=lambda: SECRET
            )

        await Caller(self.call.http, topology).put_spout(spout_task)
        await self.store.callbacks.change(topology, spout_task, change)

    def deliver(self, **config: Any) -> DeliveryWorkers:
        workers = delivery_workers(self.store, webhook_client=self.webhook_client, config=replace(CONFIG, **config))
        workers.start()
        self._started.append(workers)
        return workers

    async def stop(self) -> None:
        for workers in self._started:
            await workers.stop()

    async def unread(self, spout_task: str = SPOUT) -> int:
        return int((await self.call.spout(spout_task))["unread"])

    async def eventually_empty(self, spout_task: str = SPOUT) -> None:
        async def empty() -> bool:
            return await self.unread(spout_task) == 0

        await eventually(empty, within=30)

    async def state(self) -> str:
        return str((await self.call.spout())["callback"]["state"])


@pytest.fixture
async def hooks(parts: Components, call: Caller, webhook_client: WebhookClient) -> AsyncIterator[Hooks]:
    hooks = Hooks(parts, call, webhook_client)
    yield hooks
    await hooks.stop()


class Holding(Receiver):
    """A receiver that answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        async def send_later(message: Any) -> None:
            await asyncio.to_thread(self.may_answer.wait)
            await send(message)

        await super().__call__(scope, receive, send_later)

    async def is_asked(self) -> int:
        return len(self.received)


@pytest.fixture
def holding() -> Iterator[tuple[Holding, int]]:
    receiver = Holding()
    with served(receiver) as port:
        yield receiver, port
        receiver.may_answer.set()


def delivered(received: list[Received]) -> list[int]:
    """The roots whose completions were received, in order."""
    return [int(done["root_id"], 16) for it in received for done in it.document["data"]["completions"]]


async def test_a_completion_comes_as_a_pull_would_tell_it_and_then_is_gone(
    hooks: Hooks, receiver: Receiver, port: int
) -> None:
    await hooks.call.states(init(1, message_id="42", end_on="all_ended"))
    pulled = (await hooks.call.completions())["completions"]
    assert [done["failures"] for done in pulled] == [0]
    await hooks.register(port)
    hooks.deliver()
    await hooks.eventually_empty()
    [it] = receiver.received
    assert (it.method, it.target, it.headers["content-type"]) == ("POST", "/hook", "application/json")
    assert it.document["type"] == "completion.batch"
    assert it.document["data"] == {"topology": "default", "spout_task": SPOUT, "completions": pulled}
    verify([SECRET], it.headers, it.body, now=float(it.headers["webhook-timestamp"]))


async def test_what_ends_while_it_waits_is_delivered_at_once(hooks: Hooks, receiver: Receiver, port: int) -> None:
    await hooks.register(port)
    hooks.deliver()
    for root in (1, 2, 3):
        await hooks.call.states(init(root))
        await hooks.eventually_empty()
    assert delivered(receiver.received) == [1, 2, 3]


async def test_a_request_holds_no_more_than_it_may(hooks: Hooks, receiver: Receiver, port: int) -> None:
    await hooks.call.states(*[init(root) for root in range(1, 1_001)])
    await hooks.register(port)
    hooks.deliver(max_batch=70)
    await hooks.eventually_empty()
    assert sorted(delivered(receiver.received)) == [*range(1, 1_001)]
    assert max(len(it.document["data"]["completions"]) for it in receiver.received) <= 70


RESPONSES = [
    Planned(status=500),
    Planned(status=404),
    Planned(status=302, headers={"location": "/elsewhere"}),
    Planned(status=429),
    Planned(status=503, headers={"retry-after": "0"}),
    Planned(status=200, body=b'{"retry": [', headers={"content-encoding": "gzip"}),
]


@pytest.mark.parametrize("answer", RESPONSES, ids=lambda answer: f"{answer.status}")
async def test_what_is_answered_otherwise_is_posted_again_under_the_same_id(
    hooks: Hooks, receiver: Receiver, port: int, answer: Planned
) -> None:
    receiver.plan.extend([answer, answer])
    await hooks.call.states(*[init(root) for root in range(1, 9)])
    await hooks.register(port)
    hooks.deliver()
    await hooks.eventually_empty()
    assert [it.target for it in receiver.received] == ["/hook"] * 3
    assert len({it.headers["webhook-id"] for it in receiver.received}) == 1
    assert len({it.body for it in receiver.received}) == 1


@pytest.mark.parametrize("answer", [b"", b"ok", b"{}", b'{"retry": []}', b'{"retry": ["nobody"]}', b"\xff\x00{"])
async def test_a_complete_answer_without_a_list_is_done(
    hooks: Hooks, receiver: Receiver, port: int, answer: bytes
) -> None:
    receiver.plan.append(Planned(body=answer))
    await hooks.call.states(init(1))
    await hooks.register(port)
    hooks.deliver()
    await hooks.eventually_empty()
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    "said",
    [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{", b"HTTP/1.1 200 OK\r\n\r\n{"],
    ids=["nothing", "garbage", "half a body", "half a body without a length"],
)
async def test_half_an_answer_is_none(hooks: Hooks, said: bytes) -> None:
    broken = Broken(said)
    await hooks.call.states(init(1))
    async with met(broken) as port:
        await hooks.register(port)
        hooks.deliver()

        async def dead() -> bool:
            return bool((await hooks.call.spout())["dead_letters"])

        await eventually(dead)
        await hooks.stop()
    assert broken.connections == CONFIG.schedule.max_attempts
    assert await hooks.unread() == 0


async def test_what_a_receiver_asks_for_again_comes_again_and_nothing_else(
    hooks: Hooks, receiver: Receiver, port: int
) -> None:
    await hooks.call.states(*[init(root) for root in range(4, 44, 4)])
    ids = [done["id"] for done in (await hooks.call.completions())["completions"]]
    receiver.plan.append(Planned(body=b'{"retry": ["' + ids[2].encode() + b'", "unknown"]}'))
    await hooks.register(port)
    hooks.deliver()
    await hooks.eventually_empty()
    first, second = receiver.received
    assert delivered([first]) == [*range(4, 44, 4)]
    assert [done["id"] for done in second.document["data"]["completions"]] == [ids[2]]
    assert first.headers["webhook-id"] != second.headers["webhook-id"]


async def test_a_receiver_that_is_down_gets_all_when_it_is_back(hooks: Hooks, receiver: Receiver) -> None:
    with served(receiver) as port:
        pass
    await hooks.call.states(*[init(root) for root in range(1, 9)])
    await hooks.register(port)
    hooks.deliver(schedule=Schedule(delays_s=(0.05,) * 1_000))

    async def failing() -> bool:
        return (await hooks.call.show())["unread"] == 8 and await _failures(hooks) > 2

    await eventually(failing)
    with served(receiver, port=port):
        await hooks.eventually_empty()
    assert sorted(delivered(receiver.received)) == [*range(1, 9)]


async def test_a_receiver_that_fails_is_logged_once_and_once_that_it_takes_completions_again(
    hooks: Hooks, receiver: Receiver, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    receiver.plan.extend([Planned(status=500)] * 3)
    await hooks.call.states(init(1))
    await hooks.register(port)
    hooks.deliver()
    await hooks.eventually_empty()
    await hooks.stop()
    said = [message for message in caplog.messages if "webhook" in message]
    assert said == [
        "the webhook of default/orders answered 500; see what it answers; "
        "completions are sent again by ACKER_CALLBACK_SCHEDULE_S",
        "the webhook of default/orders takes completions again, after 3 failures",
    ]


async def _failures(hooks: Hooks) -> float:
    posts = hooks.store.metrics.delivery.posts["default", "retry"]
    return float(posts._value.get())


async def test_one_that_is_gone_is_switched_off_until_it_is_resumed(
    hooks: Hooks, receiver: Receiver, port: int
) -> None:
    receiver.plan.append(Planned(status=410))
    await hooks.call.states(init(1))
    await hooks.register(port)
    hooks.deliver()

    async def off() -> bool:
        return await hooks.state() == "off"

    await eventually(off)
    await hooks.call.states(init(2))
    assert (await hooks.unread(), len(receiver.received)) == (2, 1)
    await hooks.store.callbacks.change("default", SPOUT, lambda present, now: resume(present, now_ms=now))  # type: ignore[arg-type]
    await hooks.eventually_empty()
    assert sorted(delivered(receiver.received[1:])) == [1, 2]
    assert await hooks.state() == "on"


async def test_one_that_nothing_succeeded_for_long_for_is_paused_and_keeps_its_completions(
    hooks: Hooks, receiver: Receiver, port: int
) -> None:
    receiver.plan.extend([Planned(status=500)] * 1_000)
    await hooks.call.states(init(1))
    await hooks.register(port)
    hooks.deliver(pause_after_ms=300, schedule=Schedule(delays_s=(0.05,) * 1_000))

    async def paused() -> bool:
        return await hooks.state() == "paused"

    await eventually(paused)
    shown = await hooks.call.spout()
    assert (shown["unread"], shown["dead_letters"], shown["callback"]["error"]) == (1, 0, "answered 500")


async def test_a_receiver_that_hangs_does_not_delay_another(hooks: Hooks, receiver: Receiver, port: int) -> None:
    silent = Silent(b"")
    hooks.webhook_client = WebhookClient(egress_policy=ALLOWED, limits=RequestLimits(request_timeout_s=60))
    async with met(silent) as hanging:
        await hooks.register(hanging, "hanging")
        await hooks.register(port)
        await hooks.call.states(init(1, spout_task="hanging"))
        hooks.deliver()

        async def asked() -> int:
            return silent.connections

        await eventually(asked)
        for root in range(2, 12):
            await hooks.call.states(init(root))
            await hooks.eventually_empty()
        assert silent.connections == 1
        assert delivered(receiver.received) == [*range(2, 12)]
        assert await hooks.unread("hanging") == 1
        await hooks.stop()


async def test_a_receiver_that_asks_to_be_left_alone_is(hooks: Hooks, receiver: Receiver, port: int) -> None:
    receiver.plan.append(Planned(status=503, headers={"retry-after": "1"}))
    await hooks.call.states(init(1))
    await hooks.register(port)
    loop = asyncio.get_running_loop()
    since = loop.time()
    hooks.deliver()

    async def asked() -> int:
        return len(receiver.received)

    await eventually(asked)
    await hooks.call.states(init(2))

    async def second_is_delivered() -> bool:
        return 2 in delivered(receiver.received)

    await eventually(second_is_delivered)
    assert loop.time() - since > 0.5
    await hooks.eventually_empty()
    assert sorted(delivered(receiver.received[1:])) == [1, 2]


async def test_several_workers_deliver_each_completion_once_while_all_goes_well(
    hooks: Hooks, receiver: Receiver, port: int
) -> None:
    await hooks.register(port)
    hooks.deliver(max_batch=10)
    hooks.deliver(max_batch=10)
    hooks.deliver(max_batch=10)
    for first in range(1, 401, 40):
        await hooks.call.states(*[init(root) for root in range(first, first + 40)])
    await hooks.eventually_empty()
    assert sorted(delivered(receiver.received)) == [*range(1, 401)]


async def test_a_callback_that_is_led_elsewhere_takes_what_the_old_one_did_not(
    hooks: Hooks, receiver: Receiver, port: int
) -> None:
    refusing = Receiver()
    refusing.plan.extend([Planned(status=500)] * 1_000)
    with served(refusing) as first:
        await hooks.register(first)
        hooks.deliver(schedule=Schedule(delays_s=(3_600,)))
        await hooks.call.states(init(1))

        async def asked() -> int:
            return len(refusing.received)

        await eventually(asked)
        await hooks.register(port)
        await hooks.eventually_empty()
    assert delivered(receiver.received) == [1]


async def test_a_callback_that_follows_another_takes_all_that_is_left_also_if_the_clock_was_set_back_between(
    hooks: Hooks, receiver: Receiver, port: int
) -> None:
    url = f"http://127.0.0.1:{port}/hook"

    def to_pubsub(present: Any, now_ms: int) -> Any:
        return register_callback(PubSub(), present, now_ms=now_ms, make_secret=str)

    def to_webhook(present: Any, now_ms: int) -> Any:
        before_ms = now_ms - 3_600_000
        return register_callback(Webhook(url=url), present, now_ms=before_ms, make_secret=lambda: SECRET)

    async def published() -> bool:
        topology = await hooks.store.registry.get("default")
        return (await hooks.store.stats.read(topology)).deliveries["published"] == 1

    await hooks.call.states(init(1))
    await hooks.store.callbacks.change("default", SPOUT, to_pubsub)
    hooks.deliver()
    await eventually(published)
    for change in (lambda *_: None, to_webhook):
        await hooks.store.callbacks.change("default", SPOUT, change)
    await hooks.eventually_empty()
    assert delivered(receiver.received) == [1]


CHANGES = {
    "a pause": lambda present, _: pause(present),
    "a new secret": lambda present, now: rotate(present, now_ms=now, secret=SECRET[:-1] + "Q"),
    "its removal": lambda *_: None,
}


@pytest.mark.parametrize("change", CHANGES)
async def test_what_is_being_posted_at_a_change_is_finished_and_not_posted_again(
    hooks: Hooks, holding: tuple[Holding, int], change: str
) -> None:
    receiver, port = holding
    await hooks.register(port)
    workers = hooks.deliver()
    await hooks.call.states(init(1))
    await eventually(receiver.is_asked)
    await hooks.store.callbacks.change("default", SPOUT, CHANGES[change])
    await workers.run_for(await hooks.store.registry.refresh("default"))
    receiver.may_answer.set()
    await hooks.eventually_empty()
    await hooks.register(port)
    await hooks.store.callbacks.change("default", SPOUT, lambda present, now: resume(present, now_ms=now))  # type: ignore[arg-type]
    await hooks.call.states(init(2))
    await hooks.eventually_empty()
    assert delivered(receiver.received) == [1, 2]


async def test_one_that_is_led_elsewhere_does_not_wait_for_a_receiver_that_hangs(
    hooks: Hooks, holding: tuple[Holding, int], receiver: Receiver, port: int
) -> None:
    hooks.webhook_client = WebhookClient(egress_policy=ALLOWED, limits=RequestLimits(request_timeout_s=600))
    hanging, first = holding
    await hooks.register(first)
    hooks.deliver()
    await hooks.call.states(init(1))
    await eventually(hanging.is_asked)
    await hooks.register(port)
    await hooks.eventually_empty()
    assert delivered(receiver.received) == [1]


async def test_a_topology_that_is_deleted_by_force_goes_when_all_was_delivered(
    hooks: Hooks, receiver: Receiver, port: int
) -> None:
    brief = Caller(hooks.call.http, "brief")
    await brief.put()
    await hooks.register(port, topology="brief")
    await brief.states(init(1), init(2, 9))
    assert (await brief.http.delete("/v1/topologies/brief?force=true")).status_code == 202
    tick = root_expiry(hooks.store, interval=0.05)
    tick.start()
    hooks.deliver()

    async def gone() -> bool:
        return (await brief.http.get("/v1/topologies/brief")).status_code == 404

    await eventually(gone)
    await tick.stop()
    assert sorted(delivered(receiver.received)) == [1, 2]


async def test_without_a_callback_nothing_is_delivered(hooks: Hooks, receiver: Receiver, port: int) -> None:
    await hooks.register(port)
    hooks.deliver()
    await hooks.call.states(init(1))
    await hooks.eventually_empty()
    await hooks.store.callbacks.change("default", SPOUT, lambda *_: None)
    await hooks.call.states(init(2))
    await hooks.register(port, "other")
    await hooks.call.states(init(3, spout_task="other"))
    await hooks.eventually_empty("other")
    assert (delivered(receiver.received), await hooks.unread()) == ([1, 3], 1)
