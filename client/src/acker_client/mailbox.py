"""Knows how far a spout task's mailbox has been read, and what of it may be released."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from acker_protocol.problems import UnknownSpout
from acker_protocol.wire import fields

from acker_client import calls
from acker_client.completions import Done, Page, read_page
from acker_client.errors import checked
from acker_client.exchange import Exchange, Flow, Pause

if TYPE_CHECKING:
    from collections.abc import Iterator

EMPTY_HANDED_S = 0.1
"""Between two polls of which the first came back empty at once, as at a service that is shutting down."""


class Reading(TypedDict, total=False):
    """How completions are read.

    Each poll asks for ``limit`` of them and waits up to ``wait_ms`` for the first. Reading ends where ``stop()`` is
    true, looked at before every item and every poll, or after ``timeout_s``, looked at before every poll but the
    first; without either it goes on for ever.
    """

    wait_ms: int
    limit: int
    stop: Callable[[], bool]
    timeout_s: float


class Mailbox:
    """One reader's place in a mailbox. Use ``read``, ``hand_out`` and ``release`` in this order while it is open."""

    def __init__(self, exchange: Exchange, *, spout_task: str, reading: Reading) -> None:
        self._exchange = exchange
        self._spout_task = spout_task
        self._wait_ms: int = checked("wait_ms", fields.integer(fields.WAIT_MS), reading.get("wait_ms", 30_000))
        self._limit: int = checked("limit", fields.integer(fields.LIMIT), reading.get("limit", 100))
        self._stop = reading.get("stop", lambda: False)
        self._until = exchange.terms.clock() + reading.get("timeout_s", float("inf"))
        self._before: str | None = None
        self._page = Page()
        self._ended: set[str] = set()
        self._polled = False
        self._stopped = False

    @property
    def open(self) -> bool:
        """Whether to go on reading."""
        self._stopped = self._stopped or self._stop()
        return not self._stopped and not (self._polled and self._left_s() <= 0)

    def read(self) -> Flow[None]:
        """Take the next page into the hand; it may be empty."""
        self._polled = True
        self._ended = set()
        self._before = self._page.cursor
        wait_ms = min(self._wait_ms, max(0, int(min(self._left_s(), 60.0) * 1000)))
        asked = self._exchange.terms.clock()
        self._page = yield from self._poll(limit=self._limit, wait_ms=wait_ms)
        early_s = asked + EMPTY_HANDED_S - self._exchange.terms.clock()
        if not self._page.done and early_s > 0 and self._left_s() > 0:
            yield Pause(seconds=min(early_s, self._left_s()))

    def hand_out(self) -> "Iterator[Done]":
        """Give one completion after the other. One has ended when the next is asked for: its loop body came through."""
        for done in self._page.done:
            self._stopped = self._stop()
            if self._stopped:
                return
            yield done
            self._ended.add(done.id)

    def release(self) -> Flow[None]:
        """Release what has ended, all of the page or as much of its beginning as a cursor can be had for."""
        if not self._ended:
            return
        page = self._page
        if len(self._ended) < len(page.done):
            # A cursor stands behind a whole page only, so ask for a page that is as short as what has ended.
            page = yield from self._poll(limit=len(self._ended), wait_ms=0)
        if page.cursor is not None and {done.id for done in page.done} <= self._ended:
            release = calls.release(self._exchange.topology, self._spout_task, cursor=page.cursor)
            yield from self._exchange.send(release)

    def _poll(self, *, limit: int, wait_ms: int) -> Flow[Page]:
        topology = self._exchange.topology
        call = calls.read_completions(topology, self._spout_task, after=self._before, limit=limit, wait_ms=wait_ms)
        try:
            reply = yield from self._exchange.send(call)
        except UnknownSpout:
            return Page()  # the first init registers the name: nothing was emitted under it yet
        return read_page(reply)

    def _left_s(self) -> float:
        return self._until - self._exchange.terms.clock()
