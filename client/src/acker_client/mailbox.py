"""Knows how far a spout task's mailbox has been read, and what of it may be released."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypedDict

from acker_protocol.errors import UnknownSpout, UnknownTopology
from acker_protocol.wire import fields

from acker_client import arguments, calls
from acker_client.completions import Done, Page, read_page
from acker_client.errors import checked
from acker_client.steps import Flow, Pause

if TYPE_CHECKING:
    from acker_client.exchange import Exchange
    from acker_client.spout_tasks import SpoutTask

EMPTY_HANDED_S = 0.1
"""Between two polls of which the first came back empty at once, as at a service that is shutting down."""


FEW_BYTES = 1_048_576
"""A page of less that is not full was the last when it was read; a service may cut larger ones short."""


class Pages(TypedDict, total=False):
    """How completions are read.

    Each poll asks for a page of ``limit``. Before each poll reading ends if ``stop()`` is true or, but for the first,
    ``timeout_s`` is over; without either it goes on for ever. The page in the hand is handed out to its end: its
    cursor stands behind the last, none says which of it are done.
    """

    limit: int
    stop: Callable[[], bool]
    timeout_s: float


class Reading(Pages, total=False):
    """How completions are polled for: as `Pages`, and each poll waits up to ``wait_ms`` for the first."""

    wait_ms: int


class Mailbox:
    """One reader's place in a mailbox: while it is open ``read``, hand out all that was ``read``, ``release``.

    What the mailbox does not tell in time the spout task finds out by asking, and it is handed out likewise.
    """

    def __init__(self, exchange: "Exchange", *, task: "SpoutTask", reading: Reading) -> None:
        arguments.known(reading, Reading.__annotations__)
        self._exchange = exchange
        self._task = task
        self._wait_ms: int = checked("wait_ms", fields.integer(fields.WAIT_MS), reading.get("wait_ms", 30_000))
        self._limit: int = checked("limit", fields.integer(fields.LIMIT), reading.get("limit", 100))
        self._stop = reading.get("stop", lambda: False)
        arguments.function("stop", self._stop)
        timeout_s = reading.get("timeout_s", float("inf"))
        arguments.number("timeout_s", timeout_s)
        self._until = exchange.terms.clock() + timeout_s
        self._page = Page()
        self._untold: tuple[Done, ...] = ()
        self._polled = False
        task.receives = True

    @property
    def open(self) -> bool:
        """Whether to go on reading."""
        return not self._stop() and not (self._polled and self.left_s <= 0)

    @property
    def left_s(self) -> float:
        """How long to go on reading."""
        return self._until - self._exchange.terms.clock()

    def read(self, *, at_most_s: float = float("inf")) -> Flow[tuple[Done, ...]]:
        """Take the next page into the hand; it may be empty, and is so at the latest after this time."""
        asked = self._exchange.terms.clock()
        found = yield from self.take(at_most_s=min(at_most_s, self.left_s))
        early_s = min(asked + EMPTY_HANDED_S - self._exchange.terms.clock(), self.left_s)
        if not found and early_s > 0:
            yield Pause(seconds=early_s)
        return found

    def take(self, *, at_most_s: float = 0.0) -> Flow[tuple[Done, ...]]:
        """As `read`, but an empty page is given at once."""
        self._polled = True
        yield from self._task.look()
        self._page = yield from self._poll(at_most_s)
        self._untold = () if self._page.done else self._not_told()
        return self._in_hand()

    @property
    def at_end(self) -> bool:
        """Whether nothing lay behind the page in the hand when it was read."""
        return len(self._page.done) < self._limit and self._page.size < FEW_BYTES

    def rewind(self) -> None:
        """Begin again with the oldest that is not released."""
        self._page = Page()

    def release(self) -> Flow[None]:
        """Release the page in the hand, now that the loop body has ended for each of it."""
        for done in self._in_hand():
            self._task.pending.drop(done.root_id)
        if self._page.done and self._page.cursor is not None:
            release = calls.release(self._exchange.topology, self._task.name, cursor=self._page.cursor)
            with suppress(UnknownSpout, UnknownTopology):  # the store has lost it: nothing is left to release
                yield from self._exchange.send(release)

    def _in_hand(self) -> tuple[Done, ...]:
        return self._page.done or self._untold

    def _not_told(self) -> tuple[Done, ...]:
        """Give what the mailbox, now read to its end, has not told."""
        terms = self._exchange.terms
        return self._task.pending.untold(now_s=terms.clock(), at_ms=round(terms.wall() * 1000))

    def _poll(self, at_most_s: float) -> Flow[Page]:
        call = calls.read_completions(
            self._exchange.topology,
            self._task.name,
            after=self._page.cursor,
            limit=self._limit,
            wait_ms=self._patience_ms(at_most_s),
        )
        try:
            reply = yield from self._exchange.send(call)
        except (UnknownSpout, UnknownTopology) as gone:
            return self._nothing(gone)
        return read_page(reply)

    def _nothing(self, gone: UnknownSpout | UnknownTopology) -> Page:
        """Go on without a mailbox: nothing was emitted yet, or the store has lost it and what is held is to be told."""
        if isinstance(gone, UnknownTopology) and not self._task.pending:
            raise gone
        self._task.registered = not self._task.own
        return Page()

    def _patience_ms(self, at_most_s: float) -> int:
        """Say how long to wait for the first: not when a root is to be asked about, nor when one is to be told."""
        pending = self._task.pending
        until_due_s = max(EMPTY_HANDED_S, pending.next_s() - self._exchange.terms.clock())
        seconds = 0.0 if pending.suspected else min(at_most_s, until_due_s, 60.0)
        return min(self._wait_ms, max(0, int(seconds * 1000)))
