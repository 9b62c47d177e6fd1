"""A subscriber of FastStream is a bolt: each row of the table in docs/faststream.md, with real brokers."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from acker_client import Acker, UsageError
from faststream import AckPolicy
from faststream.exceptions import AckMessage, NackMessage, RejectMessage
from faststream.rabbit import RabbitMessage
from faststream.redis import ListSub, RedisStreamMessage, StreamSub

from examples.support.broker import Broker
from tests.support import faststream
from tests.support.faststream import App, tracked_app
from tests.support.pages import DOCS, fences
from tests.support.servers import AckerProcess
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

MESSAGE_TIMEOUT_S = 300.0


@pytest.fixture
def tracked(client: Acker) -> str:
    """A topology with a dedupe window."""
    name = client.topology
    client.topologies.create(name, message_timeout=MESSAGE_TIMEOUT_S, dedupe_window=600)
    return name


@pytest.fixture
async def rabbit(process: AckerProcess, rabbitmq: Broker, tracked: str) -> AsyncIterator[App]:
    async with tracked_app("rabbit", rabbitmq.url, process.url, tracked) as app:
        yield app


@pytest.fixture
async def redis(process: AckerProcess, redis_url: str, tracked: str) -> AsyncIterator[App]:
    async with tracked_app("redis", redis_url, process.url, tracked) as app:
        yield app


@pytest.fixture(params=["rabbit", "redis"])
def app(request: pytest.FixtureRequest) -> App:
    """Either broker."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("policy", [AckPolicy.REJECT_ON_ERROR, AckPolicy.MANUAL])
async def test_a_message_whose_roots_have_ended_is_acked_without_its_subscriber(
    process: AckerProcess, rabbitmq: Broker, tracked: str, client: Acker, policy: AckPolicy
) -> None:
    async with tracked_app("rabbit", rabbitmq.url, process.url, tracked, skip_ended=True) as app:

        @app.subscriber(policy=policy)
        @app.broker.publisher(f"{app.queue}-2")
        async def work(line: str, message: RabbitMessage) -> str:
            app.done[line] += 1
            await message.ack()
            return line

        await app.broker.connect()
        await app.declare()
        async with app.spout.emit(message_id="m") as root:
            await app.broker.publish("ended", app.queue)
            other = root.headers("other")
        client.receive(other, component="other").fail("no such page")
        await app.broker.publish("alone", app.queue)
        await app.broker.start()
        await eventually(lambda: _is(app.done["alone"] == 1))
        assert (app.done, app.acker.stats().skipped) == ({"alone": 1}, 1)
    async with tracked_app("rabbit", rabbitmq.url, process.url, tracked) as later:
        later.queue = app.queue

        @later.subscriber()
        async def find(line: str) -> None:
            later.done[line] += 1

        await later.broker.start()
        await later.broker.publish("later", later.queue)
        await eventually(lambda: _is(later.done["later"] == 1))
        assert later.done == {"later": 1}, "the one that was skipped is not in the queue any more"


async def _is(value: object) -> object:
    return value


async def test_what_grows_while_it_runs_is_one_tree(app: App) -> None:
    await faststream.grows_while_it_runs(app)


async def test_what_a_subscriber_returns_to_a_publisher_belongs_to_the_tree(app: App) -> None:
    @app.broker.subscriber(app.queue)
    @app.broker.publisher(f"{app.queue}-2")
    async def first(line: str) -> str:
        return line.upper()

    @app.broker.subscriber(f"{app.queue}-2")
    async def second(line: str) -> None:
        await asyncio.sleep(0)
        app.done[line] += 1

    await app.broker.start()
    await app.emit()
    assert ((await app.completion()).outcome, app.done) == ("acked", {"LINE": 1})


async def test_a_message_without_anchors_is_not_tracked(app: App) -> None:
    @app.broker.subscriber(app.queue)
    async def plain(line: str) -> None:
        app.done[line] += 1

    await app.broker.start()
    await app.broker.publish("alone", app.queue)
    await app.emit()
    assert (await app.completion()).outcome == "acked"
    assert app.done == {"alone": 1, "line": 1}


@pytest.mark.parametrize("name", ["_发送", "发送邮件", "a" * 150, "1"])
async def test_a_subscriber_of_any_name_belongs_to_the_tree_and_works_without_anchors(rabbit: App, name: str) -> None:
    async def work(line: str) -> None:
        rabbit.done[line] += 1

    work.__name__ = name
    rabbit.broker.subscriber(rabbit.queue)(work)
    await rabbit.broker.start()
    await rabbit.broker.publish("alone", rabbit.queue)
    await rabbit.emit()
    assert (await rabbit.completion()).outcome == "acked"
    assert rabbit.done == {"alone": 1, "line": 1}


async def test_an_exception_leaves_the_tuple_open_where_the_broker_delivers_again(rabbit: App) -> None:
    await faststream.is_delivered_again_after_an_exception(rabbit)


@pytest.mark.parametrize("policy", [AckPolicy.REJECT_ON_ERROR, AckPolicy.ACK, AckPolicy.ACK_FIRST])
async def test_an_exception_fails_the_root_where_the_broker_forgets_the_message(rabbit: App, policy: AckPolicy) -> None:
    await faststream.fails_by_an_exception(rabbit, policy)


async def test_a_root_that_ends_when_all_have_counts_what_is_not_delivered_again_and_waits_for_what_is(
    rabbit: App,
) -> None:
    """Two of 30 rows are rejected for good, one after it has published a note; one is given back first."""

    @rabbit.subscriber()
    async def split(rows: int) -> None:
        for row in range(rows):
            await rabbit.broker.publish(row, f"{rabbit.queue}-rows")

    @rabbit.subscriber("-rows", policy=AckPolicy.NACK_ON_ERROR)
    async def load(row: int) -> None:
        rabbit.done[f"runs of {row}"] += 1
        if row == 3:
            await rabbit.broker.publish("no price", f"{rabbit.queue}-notes")
        if row in (3, 7):
            raise RejectMessage
        if row == 11 and rabbit.done["runs of 11"] == 1:
            raise ValueError("the store is away")
        rabbit.done["rows"] += 1

    @rabbit.subscriber("-notes")
    async def note(text: str) -> None:
        await asyncio.sleep(0)
        rabbit.done[text] += 1

    await rabbit.broker.start()
    await rabbit.emit(30, end_on="all_ended")
    completion = await rabbit.completion()
    assert (completion.outcome, completion.failures) == ("failed", 2)
    assert (rabbit.done["rows"], rabbit.done["no price"], rabbit.done["runs of 11"]) == (28, 1, 2)


@pytest.mark.parametrize(("raised", "outcome"), [(AckMessage, "acked"), (RejectMessage, "failed")])
async def test_a_subscriber_says_by_an_exception_how_its_message_ends(
    rabbit: App, raised: type[Exception], outcome: str
) -> None:
    @rabbit.broker.subscriber(rabbit.queue)
    async def decide(line: str) -> None:
        assert line
        raise raised

    await rabbit.broker.start()
    await rabbit.emit()
    assert (await rabbit.completion()).outcome == outcome


async def test_a_message_that_is_given_back_is_open_until_it_comes_again(rabbit: App) -> None:
    @rabbit.broker.subscriber(rabbit.queue)
    async def later(line: str) -> None:
        rabbit.done[line] += 1
        if rabbit.done[line] < 3:
            raise NackMessage

    await rabbit.broker.start()
    await rabbit.emit()
    assert ((await rabbit.completion()).outcome, rabbit.done["line"]) == ("acked", 3)


@pytest.mark.parametrize(("how", "outcome"), [("ack", "acked"), ("reject", "failed")])
async def test_a_tuple_ends_as_its_subscriber_ends_the_message(rabbit: App, how: str, outcome: str) -> None:
    @rabbit.broker.subscriber(rabbit.queue, ack_policy=AckPolicy.MANUAL)
    async def by_hand(line: str, message: RabbitMessage) -> None:
        assert line
        await getattr(message, how)()

    await rabbit.broker.start()
    await rabbit.emit()
    assert (await rabbit.completion()).outcome == outcome


async def test_a_message_that_is_delivered_twice_counts_once(rabbit: App) -> None:
    """Both deliveries have the same header, and publish the same child."""
    headers: list[dict[str, Any]] = []

    @rabbit.broker.subscriber(rabbit.queue)
    async def first(line: str, message: RabbitMessage) -> None:
        headers.append(dict(message.headers))
        await rabbit.broker.publish(line, f"{rabbit.queue}-2")

    @rabbit.broker.subscriber(f"{rabbit.queue}-2")
    async def second(line: str) -> None:
        if not rabbit.done["again"]:
            rabbit.done["again"] += 1
            await rabbit.broker.publish(line, rabbit.queue, headers=headers[0])
        rabbit.done[line] += 1

    await rabbit.broker.start()
    await rabbit.emit()
    assert (await rabbit.completion()).outcome == "acked"


async def test_the_answer_to_a_request_is_not_waited_for(rabbit: App) -> None:
    @rabbit.broker.subscriber(rabbit.queue)
    async def ask(line: str) -> None:
        answer = await rabbit.broker.request(line, f"{rabbit.queue}-2", timeout=60)
        rabbit.done[await answer.decode()] += 1

    @rabbit.broker.subscriber(f"{rabbit.queue}-2")
    async def answer(line: str) -> str:
        return line.upper()

    await rabbit.broker.start()
    await rabbit.emit()
    assert ((await rabbit.completion()).outcome, rabbit.done) == ("acked", {"LINE": 1})


async def test_a_batch_of_messages_is_as_many_tuples_and_what_it_publishes_a_child_of_each(redis: App) -> None:
    @redis.broker.subscriber(list=ListSub(redis.queue, batch=True, max_records=10, polling_interval=0.05))
    async def sum_up(lines: list[str]) -> None:
        redis.done["batched"] += len(lines)
        await redis.broker.publish(len(lines), list=f"{redis.queue}-2")

    @redis.broker.subscriber(list=f"{redis.queue}-2")
    async def store(number: int) -> None:
        redis.done["stored"] += number

    await redis.broker.connect()
    for line in "abc":
        async with redis.spout.emit(message_id=line):
            await redis.broker.publish(line, list=redis.queue)
    await redis.broker.start()
    outcomes = {}
    async for completion in redis.spout.completions(poll_timeout=5, stop=lambda: len(outcomes) == 3):
        outcomes[completion.message_id] = completion.outcome
    assert outcomes == dict.fromkeys("abc", "acked")
    assert redis.done == {"batched": 3, "stored": 3}


STREAMS: dict[str, dict[str, Any]] = {
    "no group": {},
    "no group, batch": {"batch": True},
    "group": {"group": "workers", "consumer": "one"},
    "group, batch": {"group": "workers", "consumer": "one", "batch": True},
    "group without acks": {"group": "workers", "consumer": "one", "no_ack": True},
}


def raise_error() -> None:
    raise ValueError("not yet")


def raise_nack() -> None:
    raise NackMessage


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("end", [raise_error, raise_nack], ids=["exception", "nack"])
async def test_an_exception_fails_the_root_where_a_stream_of_redis_does_not_deliver_again(
    redis: App, stream: str, end: Callable[[], None]
) -> None:
    @redis.broker.subscriber(stream=StreamSub(redis.queue, **STREAMS[stream]), ack_policy=AckPolicy.NACK_ON_ERROR)
    async def refuse(body: Any) -> None:
        redis.done[str(body)] += 1
        end()

    await redis.broker.start()
    async with redis.spout.emit(message_id="m"):
        await redis.broker.publish("line", stream=redis.queue)
    assert (await redis.completion()).outcome == "failed"
    assert sum(redis.done.values()) == 1


@pytest.mark.parametrize("stream", STREAMS)
async def test_a_message_of_a_stream_that_is_given_back_by_hand_fails_the_root(redis: App, stream: str) -> None:
    @redis.broker.subscriber(stream=StreamSub(redis.queue, **STREAMS[stream]), ack_policy=AckPolicy.MANUAL)
    async def give_back(message: RedisStreamMessage) -> None:
        await message.nack()

    await redis.broker.start()
    async with redis.spout.emit(message_id="m"):
        await redis.broker.publish("line", stream=redis.queue)
    assert (await redis.completion()).outcome == "failed"


async def test_a_message_of_a_stream_that_another_subscriber_claims_is_open_until_it_has_done_so(
    process: AckerProcess, redis_url: str, tracked: str
) -> None:
    """The subscriber that claims leaves it open by itself; that of new messages, since ``claimed`` says so."""
    group = {"group": "workers", "polling_interval": 50}
    async with tracked_app("redis", redis_url, process.url, tracked, claimed=True) as app:

        @app.broker.subscriber(stream=StreamSub(app.queue, consumer="one", **group), ack_policy=AckPolicy.NACK_ON_ERROR)
        @app.broker.subscriber(
            stream=StreamSub(app.queue, consumer="two", min_idle_time=100, **group), ack_policy=AckPolicy.NACK_ON_ERROR
        )
        async def third_time(line: str) -> None:
            app.done[line] += 1
            if app.done[line] < 3:
                raise ValueError("not yet")

        await app.broker.start()
        async with app.spout.emit(message_id="m"):
            await app.broker.publish("line", stream=app.queue)
        assert ((await app.completion()).outcome, app.done["line"]) == ("acked", 3)


async def test_several_messages_in_one_batch_are_refused_since_they_would_share_an_edge(redis: App) -> None:
    await redis.broker.start()
    with pytest.raises(UsageError, match="would share one edge"):
        async with redis.spout.emit(message_id="m"):
            await redis.broker.publish_batch("a", "b", list=redis.queue)


async def test_a_child_has_the_key_that_its_publisher_gives_and_the_key_is_not_sent(rabbit: App) -> None:
    """Its content differs between the runs; with the key it is one child."""

    @rabbit.broker.subscriber(rabbit.queue, ack_policy=AckPolicy.NACK_ON_ERROR)
    async def report(line: str) -> None:
        rabbit.done[line] += 1
        await rabbit.broker.publish(rabbit.done[line], f"{rabbit.queue}-2", headers={"acker_key": "daily"})
        if rabbit.done[line] == 1:
            raise ValueError("again")

    @rabbit.broker.subscriber(f"{rabbit.queue}-2")
    async def store(number: int, message: RabbitMessage) -> None:
        assert "acker_key" not in message.headers
        rabbit.done["first" if number == 1 else "second"] += 1

    await rabbit.broker.start()
    await rabbit.emit()
    assert (await rabbit.completion()).outcome == "acked"


async def test_with_strict_nothing_is_published_untracked(
    process: AckerProcess, rabbitmq: Broker, tracked: str
) -> None:
    async with tracked_app("rabbit", rabbitmq.url, process.url, tracked, strict=True) as app:
        await app.broker.start()
        with pytest.raises(UsageError, match="neither a tuple nor a root is current"):
            await app.broker.publish("line", app.queue)


async def test_a_topology_without_a_dedupe_window_is_refused(
    process: AckerProcess, rabbitmq: Broker, client: Acker
) -> None:
    async with tracked_app("rabbit", rabbitmq.url, process.url, client.topology) as app:
        await app.broker.start()
        with pytest.raises(UsageError, match="dedupe window"):
            await app.emit()


@pytest.mark.parametrize("when", ["before", "between"])
async def test_a_worker_that_dies_before_its_ack_or_before_that_of_the_broker_loses_nothing(
    rabbit: App, tmp_path: Path, when: str
) -> None:
    await faststream.outlives_its_worker(rabbit, tmp_path, when)


def test_the_page_works_when_pasted(process: AckerProcess, rabbitmq: Broker, tmp_path: Path) -> None:
    text = (DOCS / "faststream.md").read_text()
    for shown, url in (
        ("amqp://guest:guest@127.0.0.1:5672/%2F", rabbitmq.url),
        ("http://127.0.0.1:8700", process.url),
    ):
        assert shown in text
        text = text.replace(shown, url)
    program, answer = [fence.code for fence in fences(text)]
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200
    )
    assert ran.stdout.strip() == answer.strip()
