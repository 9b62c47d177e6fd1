"""A FastStream application whose messages are tracked, on any broker, and what the tests of all brokers have in common.

Also a worker that dies once: ``python -m tests.support.faststream BROKER URL ACKER TOPOLOGY QUEUE FOLDER WHEN``. It
publishes three children, in another order each time, and dies before its ack (WHEN is "before") or between its ack and
that of the broker ("between").
"""

import asyncio
import os
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acker_client import AsyncAcker, Completion
from acker_client.integrations.faststream import AckerMiddleware
from acker_client.root import EndOnName
from faststream import AckPolicy, FastStream

CHILDREN = ("a", "b", "c")
DIED = 9
"""The exit code of the worker that dies."""
ACK_WAIT_S = 5
"""After so long NATS delivers again what was not acked."""


def rabbit_subscriber(broker: Any, queue: str, policy: AckPolicy | None) -> Any:
    """Subscribe to a queue that outlives its broker's connections."""
    from faststream.rabbit import RabbitQueue  # noqa: PLC0415 - each broker's extra only where it is tested

    return broker.subscriber(RabbitQueue(queue, durable=True), **_policy(policy))


def redis_subscriber(broker: Any, queue: str, policy: AckPolicy | None) -> Any:
    """Subscribe to a channel."""
    return broker.subscriber(queue, **_policy(policy))


def kafka_subscriber(broker: Any, queue: str, policy: AckPolicy | None) -> Any:
    """Subscribe to a topic, as the group of the same name."""
    policy = policy or AckPolicy.ACK
    return broker.subscriber(queue, group_id=queue, auto_offset_reset="earliest", **_policy(policy))


def nats_subscriber(broker: Any, queue: str, policy: AckPolicy | None) -> Any:
    """Subscribe to a subject of a stream of JetStream."""
    from faststream.nats import JStream, PullSub  # noqa: PLC0415
    from nats.js.api import ConsumerConfig  # noqa: PLC0415

    config = ConsumerConfig(ack_wait=ACK_WAIT_S)
    stream, pull = JStream(queue), PullSub(timeout=0.5)
    return broker.subscriber(queue, stream=stream, durable="worker", pull_sub=pull, config=config, **_policy(policy))


def _policy(policy: AckPolicy | None) -> dict[str, AckPolicy]:
    return {} if policy is None else {"ack_policy": policy}


Subscribe = Callable[[Any, str, AckPolicy | None], Any]
SUBSCRIBERS: dict[str, Subscribe] = {
    "rabbit": rabbit_subscriber,
    "redis": redis_subscriber,
    "kafka": kafka_subscriber,
    "nats": nats_subscriber,
}


def make_broker(kind: str, url: str, **options: Any) -> Any:
    """Make a broker of FastStream."""
    if kind == "rabbit":
        from faststream.rabbit import RabbitBroker as Broker  # noqa: PLC0415
    elif kind == "redis":
        from faststream.redis import RedisBroker as Broker  # noqa: PLC0415
    elif kind == "kafka":
        from faststream.confluent import KafkaBroker as Broker  # noqa: PLC0415
    else:
        from faststream.nats import NatsBroker as Broker  # noqa: PLC0415
    return Broker(url, logger=None, **options)


@dataclass(kw_only=True)
class App:
    """A broker with the middleware, an acker of its own topology, and what its subscribers have done."""

    kind: str
    url: str
    broker: Any
    acker: AsyncAcker
    acker_url: str
    queue: str = field(default_factory=lambda: f"queue-{secrets.token_hex(4)}")
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.spout = self.acker.spout("messages")

    def subscriber(self, suffix: str = "", *, policy: AckPolicy | None = None) -> Any:
        """Subscribe to the queue, or to another one whose name has a suffix."""
        return SUBSCRIBERS[self.kind](self.broker, self.queue + suffix, policy)

    async def declare(self) -> None:
        """Make the queue before there is a subscriber of it, where the broker would lose what is published."""
        if self.kind == "rabbit":
            from faststream.rabbit import RabbitQueue  # noqa: PLC0415

            await self.broker.declare_queue(RabbitQueue(self.queue, durable=True))
        elif self.kind == "nats":
            import nats  # noqa: PLC0415

            connection = await nats.connect(self.url)
            await connection.jetstream().add_stream(name=self.queue, subjects=[self.queue])
            await connection.close()

    async def emit(self, body: Any = "line", *, queue: str | None = None, end_on: EndOnName = "first_fail") -> None:
        """Publish the message of a new root."""
        async with self.spout.emit(message_id="m", end_on=end_on):
            await self.broker.publish(body, queue or self.queue)

    async def completion(self, *, within: float = 200) -> Completion:
        """Wait for the end of the root."""
        async with asyncio.timeout(within):
            async for completion in self.spout.completions(poll_timeout=5):
                return completion
        raise AssertionError("reading ended without a completion")


@asynccontextmanager
async def tracked_app(kind: str, url: str, acker_url: str, topology: str, **options: Any) -> AsyncIterator[App]:
    """Make an application with the middleware; ``options`` are the middleware's."""
    async with AsyncAcker(acker_url, topology, linger=0.001) as acker:
        broker = make_broker(kind, url, middlewares=[AckerMiddleware(acker, **options)])
        try:
            yield App(kind=kind, url=url, broker=broker, acker=acker, acker_url=acker_url)
        finally:
            await broker.stop()


async def grows_while_it_runs(app: App) -> None:
    """Each message publishes two more, to a depth that the emitter does not know; all are one tree."""

    @app.subscriber()
    async def grow(depth: int) -> None:
        if depth:
            await asyncio.gather(*(app.broker.publish(depth - 1, app.queue) for _ in range(2)))
        app.done["messages"] += 1

    await app.broker.start()
    await app.emit(4)
    completion = await app.completion()
    assert (completion.outcome, app.done["messages"]) == ("acked", 31)


async def is_delivered_again_after_an_exception(app: App) -> None:
    """The tuple stays open. The children of both runs are the same ones: each has one edge."""

    @app.subscriber(policy=AckPolicy.NACK_ON_ERROR)
    async def twice(line: str) -> None:
        for child in ("a", "b") if app.done[line] else ("b", "a"):
            await app.broker.publish(child, f"{app.queue}-2")
        app.done[line] += 1
        if app.done[line] == 1:
            raise ValueError("not yet")

    @app.subscriber("-2")
    async def child(name: str) -> None:
        app.done[name] += 1

    await app.broker.start()
    await app.emit()
    completion = await app.completion()
    assert completion.outcome == "acked"
    assert app.done["line"] == 2
    assert min(app.done["a"], app.done["b"]) >= 1


async def fails_by_an_exception(app: App, policy: AckPolicy | None) -> None:
    """The broker forgets the message, so the root fails."""

    @app.subscriber(policy=policy)
    async def refuse(line: str) -> None:
        raise ValueError(f"no such {line}")

    await app.broker.start()
    await app.emit()
    completion = await app.completion()
    assert (completion.outcome, completion.reason, completion.component) == ("failed", "no such line", "Refuse")


async def outlives_its_worker(app: App, folder: Path, when: str) -> None:
    """A worker dies, and another one does its work again."""

    @app.subscriber("-children")
    async def work(child: str) -> None:
        app.done[child] += 1

    await app.broker.start()
    await app.declare()
    await app.emit()
    arguments = (app.kind, app.url, app.acker_url, app.acker.topology, app.queue, str(folder), when)
    command = [sys.executable, "-m", "tests.support.faststream", *arguments]
    dead = await asyncio.to_thread(subprocess.run, command, timeout=200, check=False)
    assert dead.returncode == DIED
    worker = await asyncio.create_subprocess_exec(*command)
    try:
        completion = await app.completion()
    finally:
        worker.terminate()
        await worker.wait()
    assert completion.outcome == "acked"
    assert set(app.done) == set(CHILDREN)


async def main(kind: str, url: str, acker_url: str, topology: str, queue: str, folder: str, when: str) -> None:
    """Run the worker that dies once, until the one who started it stops it."""
    acker, died = AsyncAcker(acker_url, topology), Path(folder) / "died"
    first_run = not died.exists()
    flush = acker.flush

    async def flush_and_die() -> None:
        await flush()
        if first_run and when == "between":
            _die(died)

    acker.flush = flush_and_die  # type: ignore[method-assign]
    broker = make_broker(kind, url, middlewares=[AckerMiddleware(acker)])

    @SUBSCRIBERS[kind](broker, queue, AckPolicy.NACK_ON_ERROR)  # type: ignore[untyped-decorator]
    async def split(line: str) -> None:
        assert line
        for child in CHILDREN if first_run else reversed(CHILDREN):
            await broker.publish(child, f"{queue}-children")
        if first_run and when == "before":
            _die(died)

    await FastStream(broker, logger=None).run()


def _die(died: Path) -> None:
    died.touch()
    os._exit(DIED)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
