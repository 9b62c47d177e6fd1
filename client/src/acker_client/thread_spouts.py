"""Knows the verbs of a spout for a program of threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from acker_client import mailbox, roots
from acker_client.completions import Done, Handler, tell
from acker_client.replaying import Message, Replaying, ReplayPolicy

if TYPE_CHECKING:
    from acker_client.emitting import Emitting
    from acker_client.spout_tasks import SpoutTask
    from acker_client.thread_driver import Driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Spout:
    """Emits roots under the name of one spout task, and reads what became of them."""

    task: "SpoutTask"
    emitting: "Emitting"
    driver: "Driver"

    @property
    def name(self) -> str:
        """The name of the spout task."""
        return self.task.name

    @contextmanager
    def emit(self, **emission: Unpack[roots.Emission]) -> Iterator[roots.Root]:
        """Emit a root: anchor one child per consumer in the block; the init goes when the block ends well.

        Where the topology has a cap it waits for a free place before the block is entered (`MaxSpoutPending`). A
        refused init is sent again until its time is over, then the refusal is raised (`MaxSpoutPending`, `MailboxFull`,
        `StoreFull`); `Unreachable` if its fate stays unknown. An exception inside: no init.
        """
        root = self.driver.run(self.emitting.begin(self.task, emission))
        with self.emitting.open(self.task, root):
            yield root
        self.driver.run(self.emitting.end(self.task, root))

    def completions(self, **reading: Unpack[mailbox.Reading]) -> Iterator[Done]:
        """Read completions; one is released only after the loop body for it ended without an exception.

        Asking for the next says that the body has ended, so read anew after an exception, not on. A page is released
        as a whole: where the loop is left in its midst, all of it is told again. Of a root emitted here that nothing is
        told about by its deadline and a grace, the service is asked; one that it has lost is told as timed out.
        """
        box = self.emitting.mailbox(self.task, reading)
        while box.open:
            yield from self.driver.run(box.read())
            self.driver.run(box.release())

    def pubsub(self, redis_url: str, **pages: Unpack[mailbox.Pages]) -> Iterator[Done]:
        """Read completions as Redis publishes them, and miss none: handed out and released as by `completions`.

        ``redis_url`` is the acker's Redis, with a login that may subscribe. What pub/sub loses, as while the connection
        is away, the mailbox tells: it is read to its end at the beginning, after every loss, and every 30 seconds. The
        spout task is made one whose completions are published. Raises `Misuse` for an address or a login that is
        refused, and where the spout task has a webhook. Needs ``acker-client[redis]``.
        """
        from acker_client.wires import Wire  # noqa: PLC0415 - redis is imported by those who ask for it

        subscriber = self.emitting.subscriber(self.task, redis_url, Wire, pages)
        try:
            while subscriber.open:
                yield from self.driver.run(subscriber.read())
                self.driver.run(subscriber.release())
        finally:
            self.driver.run(subscriber.close())

    def run(
        self, *, on_ack: Handler | None = None, on_fail: Handler | None = None, **reading: Unpack[mailbox.Reading]
    ) -> None:
        """Tell the handlers the message id of every completion; a timeout counts as a failure, as in Storm."""
        for done in self.completions(**reading):
            tell(done, on_ack=on_ack, on_fail=on_fail)

    def replay(self, policy: ReplayPolicy) -> "Replay":
        """Send again what fails, as the policy says: emit and read through what this gives."""
        return Replay(replaying=Replaying(self.emitting, task=self.task, policy=policy), spout=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Emits messages, and sends them again until they are acked or given up. It holds them in memory meanwhile."""

    replaying: Replaying
    spout: Spout

    def __len__(self) -> int:
        return len(self.replaying)

    def emit(self, message_id: str, payload: Any = None, **timeouts: Unpack[roots.Timeouts]) -> None:
        """Send a message for the first time; as `Spout.emit`, with the policy's ``send`` for the block."""
        message = Message(message_id=message_id, payload=payload, timeouts=timeouts)
        self.spout.driver.run(self.replaying.emit(message))

    def run(self, *, on_ack: Handler | None = None, **reading: Unpack[mailbox.Reading]) -> None:
        """Read completions, tell of those acked, send again what failed or timed out when its time has come."""
        box = self.spout.emitting.mailbox(self.spout.task, reading)
        self.spout.driver.run(self.replaying.run(box, on_ack))
