"""Knows how far a spout task's mailbox has been read, and what of it may be released."""

from collections.abc import Callable
from typing import TypedDict

from acker_protocol.problems import UnknownSpout
from acker_protocol.wire import fields

from acker_client import calls
from acker_client.completions import Done, Page, read_page
from acker_client.errors import checked
from acker_client.exchange import Exchange, Flow, Pause

EMPTY_HANDED_S = 0.1
"""Between two polls of which the first came back empty at once, as at a service that is shutting down."""


class Reading(TypedDict, total=False):
    """How completions are read.

    Each poll asks for a page of ``limit`` and waits up to ``wait_ms`` for the first. Before each poll reading ends if
    ``stop()`` is true or, but for the first, ``timeout_s`` is over; without either it goes on for ever. The page in
    the hand is handed out to its end: its cursor stands behind the last, none says which of it are done.
    """

    wait_ms: int
    limit: int
    stop: Callable[[], bool]
    timeout_s: float


class Mailbox:
    """One reader's place in a mailbox: while it is open ``read``, hand out all that was ``read``, ``release``."""

    def __init__(self, exchange: Exchange, *, spout_task: str, reading: Reading) -> None:
        self._exchange = exchange
        self._spout_task = spout_task
        self._wait_ms: int = checked("wait_ms", fields.integer(fields.WAIT_MS), reading.get("wait_ms", 30_000))
        self._limit: int = checked("limit", fields.integer(fields.LIMIT), reading.get("limit", 100))
        self._stop = reading.get("stop", lambda: False)
        self._until = exchange.terms.clock() + reading.get("timeout_s", float("inf"))
        self._page = Page()
        self._polled = False

    @property
    def open(self) -> bool:
        """Whether to go on reading."""
        return not self._stop() and not (self._polled and self._left_s() <= 0)

    def read(self) -> Flow[tuple[Done, ...]]:
        """Take the next page into the hand; it may be empty."""
        self._polled = True
        asked = self._exchange.terms.clock()
        self._page = yield from self._poll()
        early_s = min(asked + EMPTY_HANDED_S - self._exchange.terms.clock(), self._left_s())
        if not self._page.done and early_s > 0:
            yield Pause(seconds=early_s)
        return self._page.done

    def release(self) -> Flow[None]:
        """Release the page in the hand, now that the loop body has ended for each of it."""
        if self._page.done and self._page.cursor is not None:
            release = calls.release(self._exchange.topology, self._spout_task, cursor=self._page.cursor)
            yield from self._exchange.send(release)

    def _poll(self) -> Flow[Page]:
        wait_ms = min(self._wait_ms, max(0, int(min(self._left_s(), 60.0) * 1000)))
        call = calls.read_completions(
            self._exchange.topology, self._spout_task, after=self._page.cursor, limit=self._limit, wait_ms=wait_ms
        )
        try:
            reply = yield from self._exchange.send(call)
        except UnknownSpout:
            return Page()  # the first init registers the name: nothing was emitted under it yet
        return read_page(reply)

    def _left_s(self) -> float:
        return self._until - self._exchange.terms.clock()
