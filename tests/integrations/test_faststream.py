"""A subscriber of FastStream is a bolt: each row of the table in docs/faststream.md, with real brokers."""

import asyncio
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acker_client import Acker, AsyncAcker, Completion, UsageError
from acker_client.integrations.faststream import AckerMiddleware
from faststream import AckPolicy
from faststream.exceptions import AckMessage, NackMessage, RejectMessage
from faststream.rabbit import RabbitBroker, RabbitMessage, RabbitQueue
from faststream.redis import ListSub, RedisBroker

from examples.support.broker import Broker
from tests.support.pages import DOCS, fences
from tests.support.servers import AckerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

MESSAGE_TIMEOUT_S = 300.0


class App:
    """A broker with the middleware, an acker of its own topology, and what its subscribers have done."""

    def __init__(self, broker: Any, acker: AsyncAcker) -> None:
        self.broker, self.acker = broker, acker
        self.queue = f"queue-{secrets.token_hex(4)}"
        self.done: Counter[str] = Counter()
        self.spout = acker.spout("messages")

    async def emit(self, body: Any = "line", *, queue: str | None = None) -> None:
        """Publish the message of a new root."""
        async with self.spout.emit(message_id="m"):
            await self.broker.publish(body, queue or self.queue)

    async def completion(self, *, within: float = 200) -> Completion:
        """Wait for the end of the root."""
        async with asyncio.timeout(within):
            async for completion in self.spout.completions(poll_timeout=5):
                return completion
        raise AssertionError("reading ended without a completion")


@asynccontextmanager
async def made(broker: Any, url: str, topology: str, **options: Any) -> AsyncIterator[App]:
    """Add the middleware to a broker; ``options`` are the middleware's."""
    async with AsyncAcker(url, topology, linger=0.001) as acker:
        broker.add_middleware(AckerMiddleware(acker, **options))
        app = App(broker, acker)
        try:
            yield app
        finally:
            await broker.stop()


@pytest.fixture
def tracked(client: Acker) -> str:
    """A topology with a dedupe window."""
    name = client.topology
    client.topologies.create(name, message_timeout=MESSAGE_TIMEOUT_S, dedupe_window=600)
    return name


@pytest.fixture
async def rabbit(process: AckerProcess, rabbitmq: Broker, tracked: str) -> AsyncIterator[App]:
    async with made(RabbitBroker(rabbitmq.url, logger=None), process.url, tracked) as app:
        yield app


@pytest.fixture
async def redis(process: AckerProcess, redis_url: str, tracked: str) -> AsyncIterator[App]:
    async with made(RedisBroker(redis_url, logger=None), process.url, tracked) as app:
        yield app


@pytest.fixture(params=["rabbit", "redis"])
def app(request: pytest.FixtureRequest) -> App:
    """Either broker."""
    return request.getfixturevalue(request.param)


async def test_what_grows_while_it_runs_is_one_tree(app: App) -> None:
    """Each message publishes two more, to a depth that the emitter does not know."""

    @app.broker.subscriber(app.queue)
    async def grow(depth: int) -> None:
        if depth:
            await asyncio.gather(*(app.broker.publish(depth - 1, app.queue) for _ in range(2)))
        app.done["messages"] += 1

    await app.broker.start()
    await app.emit(4)
    completion = await app.completion()
    assert (completion.outcome, app.done["messages"]) == ("acked", 31)


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


async def test_an_exception_leaves_the_tuple_open_where_the_broker_delivers_again(rabbit: App) -> None:
    """The children of both runs are the same ones: each has one edge."""

    @rabbit.broker.subscriber(rabbit.queue, ack_policy=AckPolicy.NACK_ON_ERROR)
    async def twice(line: str) -> None:
        for child in ("a", "b") if rabbit.done[line] else ("b", "a"):
            await rabbit.broker.publish(child, f"{rabbit.queue}-2")
        rabbit.done[line] += 1
        if rabbit.done[line] == 1:
            raise ValueError("not yet")

    @rabbit.broker.subscriber(f"{rabbit.queue}-2")
    async def child(name: str) -> None:
        rabbit.done[name] += 1

    await rabbit.broker.start()
    await rabbit.emit()
    completion = await rabbit.completion()
    assert completion.outcome == "acked"
    assert rabbit.done["line"] == 2
    assert min(rabbit.done["a"], rabbit.done["b"]) >= 1


@pytest.mark.parametrize("policy", [AckPolicy.REJECT_ON_ERROR, AckPolicy.ACK, AckPolicy.ACK_FIRST])
async def test_an_exception_fails_the_root_where_the_broker_forgets_the_message(rabbit: App, policy: AckPolicy) -> None:
    @rabbit.broker.subscriber(rabbit.queue, ack_policy=policy)
    async def refuse(line: str) -> None:
        raise ValueError(f"no such {line}")

    await rabbit.broker.start()
    await rabbit.emit()
    completion = await rabbit.completion()
    assert (completion.outcome, completion.reason, completion.component) == ("failed", "no such line", "Refuse")


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
    async with made(RabbitBroker(rabbitmq.url, logger=None), process.url, tracked, strict=True) as app:
        await app.broker.start()
        with pytest.raises(UsageError, match="neither a tuple nor a root is current"):
            await app.broker.publish("line", app.queue)


async def test_a_topology_without_a_dedupe_window_is_refused(
    process: AckerProcess, rabbitmq: Broker, client: Acker
) -> None:
    async with made(RabbitBroker(rabbitmq.url, logger=None), process.url, client.topology) as app:
        await app.broker.start()
        with pytest.raises(UsageError, match="dedupe window"):
            await app.emit()


@pytest.mark.parametrize("when", ["before", "between"])
async def test_a_worker_that_dies_before_its_ack_or_before_that_of_the_broker_loses_nothing(
    rabbit: App, process: AckerProcess, rabbitmq: Broker, tmp_path: Path, when: str
) -> None:
    @rabbit.broker.subscriber(RabbitQueue(f"{rabbit.queue}-children", durable=True))
    async def work(child: str) -> None:
        rabbit.done[child] += 1

    await rabbit.broker.start()
    await rabbit.broker.declare_queue(RabbitQueue(rabbit.queue, durable=True))
    await rabbit.emit()
    arguments = (rabbitmq.url, process.url, rabbit.acker.topology, rabbit.queue, str(tmp_path), when)
    command = [sys.executable, "-m", "tests.integrations.faststream_worker", *arguments]
    dead = await asyncio.to_thread(subprocess.run, command, timeout=200, check=False)
    assert dead.returncode == 9
    worker = await asyncio.create_subprocess_exec(*command)
    try:
        completion = await rabbit.completion()
    finally:
        worker.terminate()
        await worker.wait()
    assert completion.outcome == "acked"
    assert set(rabbit.done) == {"a", "b", "c"}


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
