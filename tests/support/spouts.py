"""A spout over a real broker that runs in a thread, and what it has sent and settled."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from acker_client import Acker, Completion, Root

from tests.support.waiting import eventually_true

Source = TypeVar("Source")
Item = TypeVar("Item")


@dataclass(kw_only=True)
class RunningSpout(Generic[Source, Item]):
    """A spout of the kind ``Source`` that reads what is an ``Item``: a record of Kafka, a message of SQS.

    Everything has to happen ``within`` so many seconds.
    """

    acker: Acker
    within: float
    spout: Source = field(init=False)
    stop: threading.Event = field(default_factory=threading.Event)
    sent: list[tuple[Item, dict[str, str]]] = field(default_factory=list)
    done: list[tuple[Completion, Item]] = field(default_factory=list)
    error: BaseException | None = None

    def send(self, root: Root, item: Item) -> None:
        """Note an item and the header of its only child."""
        self.sent.append((item, root.headers("work")))

    def note(self, completion: Completion, item: Item) -> None:
        """Note a completion: to be given as ``on_completed``."""
        self.done.append((completion, item))

    @contextmanager
    def running(self, drain_timeout: float) -> Iterator[None]:
        """Run the spout in a thread until the block is left."""
        thread = threading.Thread(target=self._run, args=[drain_timeout])
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join(self.within)
            assert not thread.is_alive()

    def _run(self, drain_timeout: float) -> None:
        spout: Any = self.spout
        try:
            spout.run(stop=self.stop.is_set, drain_timeout=drain_timeout)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def wait_for(self, sent: int) -> None:
        """Wait until so many items were sent."""
        eventually_true(lambda: len(self.sent) >= sent or self.error, within=self.within)
        assert self.error is None

    def wait_done(self, done: int) -> None:
        """Wait until so many trees have ended."""
        eventually_true(lambda: len(self.done) >= done or self.error, within=self.within)
        assert self.error is None

    def ack(self, *numbers: int) -> None:
        """Process the trees of those sent: by their numbers, without any all."""
        for number in numbers or range(len(self.sent)):
            self.acker.ack(self.acker.receive(self.sent[number][1], component="work"))

    def fail(self, number: int) -> None:
        """Fail the tree of one that was sent."""
        self.acker.fail(self.acker.receive(self.sent[number][1], component="work"), reason="no")
