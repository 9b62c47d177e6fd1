"""Reads the mailbox of a spout task page by page, and releases what was handled."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_protocol.errors import UnknownSpout, UnknownTopology
from acker_protocol.wire import fields

from acker_client._core import requests, validate
from acker_client._core.effects import Flow, Sleep
from acker_client.completions import Completion, Page, read_page

if TYPE_CHECKING:
    from acker_client._core.retry import RetrySession
    from acker_client._core.spout_task import SpoutTask

MIN_POLL_INTERVAL_S = 0.1
"""Seconds between two polls when the first came back empty at once, as from a service that is shutting down."""

FULL_PAGE_BYTES = 1_048_576
"""A smaller page with fewer completions than its limit was the last one; the service may cut larger ones short."""

_log = logging.getLogger("acker_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How completions are read.

    Each poll asks for a page of ``page_size``, and waits up to ``poll_timeout_ms`` for the first completion. Before
    each poll reading ends if ``stop()`` is true or, but for the first poll, ``until_s`` seconds are over.
    """

    page_size: int
    poll_timeout_ms: int
    stop: Callable[[], bool] | None
    until_s: float


def read_options(
    *, until: float | None, stop: Callable[[], bool] | None, page_size: int, poll_timeout: float
) -> ReadOptions:
    """Check how a program reads completions; times in seconds, ``until`` None: without an end. Raises `UsageError`."""
    if until is not None:
        validate.number("until", until)
    if stop is not None:
        validate.function("stop", stop)
    poll_timeout_ms = validate.milliseconds("poll_timeout", poll_timeout, fields.WAIT_MS)
    return ReadOptions(
        page_size=validate.checked("page_size", fields.integer(fields.LIMIT), page_size),
        poll_timeout_ms=poll_timeout_ms or 0,
        stop=stop,
        until_s=float("inf") if until is None else until,
    )


class MailboxReader:
    """One reader of a mailbox: while it is open ``read``, handle all that was read, ``release``.

    If a completion does not come in time, the spout task asks the service about its root; the answer is read like a
    completion.
    """

    def __init__(self, session: "RetrySession", *, task: "SpoutTask", options: ReadOptions) -> None:
        self._session = session
        self._clock = session.config.clock
        self._task = task
        self._options = options
        self._ends_at_s = self._clock.monotonic() + options.until_s
        self._page = Page()
        self._unreported: tuple[Completion, ...] = ()
        self._polled = False
        task.receives = True

    @property
    def is_open(self) -> bool:
        """Whether to go on reading."""
        stopped = self._options.stop is not None and self._options.stop()
        return not stopped and not (self._polled and self.left_s <= 0)

    @property
    def left_s(self) -> float:
        """How long to go on reading."""
        return self._ends_at_s - self._clock.monotonic()

    def read(self, *, at_most_s: float = float("inf")) -> Flow[tuple[Completion, ...]]:
        """Read the next page; it may be empty, and is so at the latest after this time."""
        polled_at = self._clock.monotonic()
        found = yield from self.poll(at_most_s=min(at_most_s, self.left_s))
        early_s = min(polled_at + MIN_POLL_INTERVAL_S - self._clock.monotonic(), self.left_s)
        if not found and early_s > 0:
            yield Sleep(seconds=early_s)
        return found

    def poll(self, *, at_most_s: float = 0.0) -> Flow[tuple[Completion, ...]]:
        """As `read`, but an empty page is given at once."""
        self._polled = True
        yield from self._task.check_overdue()
        self._page = yield from self._poll(at_most_s)
        self._unreported = () if self._page.completions else self._find_unreported()
        return self.current_page()

    def current_page(self) -> tuple[Completion, ...]:
        """Return what was read last."""
        return self._page.completions or self._unreported

    @property
    def at_end(self) -> bool:
        """Whether the mailbox held nothing more when the page was read."""
        return len(self._page.completions) < self._options.page_size and self._page.size < FULL_PAGE_BYTES

    def rewind(self) -> None:
        """Begin again with the oldest completion that is not released."""
        self._page = Page()

    def release(self, handled: tuple[Completion, ...] | None = None) -> Flow[None]:
        """Release the page, now that each of its completions was handled: ``handled``, or now all of it (None)."""
        self._task.tell_handled(self.current_page() if handled is None else handled)
        for completion in self.current_page():
            self._task.pending.drop(completion.root_id)
        if self._page.completions and self._page.cursor is not None:
            release = requests.release(self._session.topology, self._task.name, cursor=self._page.cursor)
            with suppress(UnknownSpout, UnknownTopology):  # the store has lost it: nothing is left to release
                yield from self._session.send(release)

    def _find_unreported(self) -> tuple[Completion, ...]:
        """Return the completions that the mailbox, now read to its end, did not hold."""
        return self._task.pending.unreported(now_s=self._clock.monotonic(), at=round(self._clock.time(), 3))

    def _poll(self, at_most_s: float) -> Flow[Page]:
        request = requests.read_completions(
            self._session.topology,
            self._task.name,
            after=self._page.cursor,
            limit=self._options.page_size,
            wait_ms=self._wait_ms(at_most_s),
        )
        try:
            response = yield from self._session.send(request)
        except (UnknownSpout, UnknownTopology) as error:
            return self._empty(error)
        return read_page(response)

    def _empty(self, error: UnknownSpout | UnknownTopology) -> Page:
        """Go on without a mailbox: nothing was emitted yet, or the store has lost it."""
        if isinstance(error, UnknownTopology) and not self._task.pending:
            raise error
        self._task.registered = not self._task.own
        return Page()

    def _wait_ms(self, at_most_s: float) -> int:
        """Choose how long a poll waits: not when a root is to be asked about, nor when one has ended."""
        pending = self._task.pending
        until_due_s = max(MIN_POLL_INTERVAL_S, pending.next_s() - self._clock.monotonic())
        seconds = 0.0 if pending.has_ended else min(at_most_s, until_due_s, 60.0)
        return min(self._options.poll_timeout_ms, max(0, int(seconds * 1000)))


def log_unreleased(spout_task: str, page: tuple[Completion, ...]) -> None:
    """Log that a loop was left within a page: the service knows cursors of whole pages, so it keeps all of it."""
    _log.warning(
        "the loop over the completions of %s was left within a page: its %d completions are not released and come "
        "again; end the loop with stop= to release them",
        spout_task,
        len(page),
    )
