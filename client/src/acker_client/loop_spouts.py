"""Knows the verbs of a spout for a program of tasks; what they mean stands in ``thread_spouts.py``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Unpack

from acker_client import mailbox, replaying, roots
from acker_client.completions import Done, Handler, tell

if TYPE_CHECKING:
    from acker_client.emitting import Emitting
    from acker_client.loop_driver import AsyncDriver
    from acker_client.spout_tasks import SpoutTask


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncSpout:
    """As `Spout`, awaited."""

    task: "SpoutTask"
    emitting: "Emitting"
    driver: "AsyncDriver"

    @property
    def name(self) -> str:
        """As `Spout.name`."""
        return self.task.name

    @asynccontextmanager
    async def emit(self, **emission: Unpack[roots.Emission]) -> AsyncIterator[roots.Root]:
        """As `Spout.emit`."""
        root = await self.driver.run(self.emitting.begin(self.task, emission))
        with self.emitting.open(self.task, root):
            yield root
        await self.driver.run(self.emitting.end(self.task, root))

    async def completions(self, **reading: Unpack[mailbox.Reading]) -> AsyncIterator[Done]:
        """As `Spout.completions`."""
        box = self.emitting.mailbox(self.task, reading)
        while box.open:
            for done in await self.driver.run(box.read()):
                yield done
            await self.driver.run(box.release())

    async def pubsub(self, redis_url: str, **pages: Unpack[mailbox.Pages]) -> AsyncIterator[Done]:
        """As `Spout.pubsub`."""
        from acker_client import wires  # noqa: PLC0415 - as there

        subscriber = self.emitting.subscriber(self.task, redis_url, wires.AsyncWire.open, pages)
        try:
            while subscriber.open:
                for done in await self.driver.run(subscriber.read()):
                    yield done
                await self.driver.run(subscriber.release())
        finally:
            await self.driver.run(subscriber.close())

    async def run(
        self, *, on_ack: Handler | None = None, on_fail: Handler | None = None, **reading: Unpack[mailbox.Reading]
    ) -> None:
        """As `Spout.run`; a handler may be a coroutine function."""
        async for done in self.completions(**reading):
            told = tell(done, on_ack=on_ack, on_fail=on_fail)
            if isawaitable(told):
                await told

    def replay(self, policy: replaying.ReplayPolicy) -> "AsyncReplay":
        """As `Spout.replay`."""
        return AsyncReplay(replaying=replaying.Replaying(self.emitting, task=self.task, policy=policy), spout=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncReplay:
    """As `Replay`, awaited."""

    replaying: replaying.Replaying
    spout: AsyncSpout

    def __len__(self) -> int:
        return len(self.replaying)

    async def emit(self, message_id: str, payload: Any = None, **timeouts: Unpack[roots.Timeouts]) -> None:
        """As `Replay.emit`."""
        message = replaying.Message(message_id=message_id, payload=payload, timeouts=timeouts)
        await self.spout.driver.run(self.replaying.emit(message))

    async def run(self, *, on_ack: Handler | None = None, **reading: Unpack[mailbox.Reading]) -> None:
        """As `Replay.run`."""
        box = self.spout.emitting.mailbox(self.spout.task, reading)
        await self.spout.driver.run(self.replaying.run(box, on_ack))
