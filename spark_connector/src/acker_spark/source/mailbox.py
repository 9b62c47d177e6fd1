"""Reads and releases the completions of one spout task, a page at a time, in a process of Spark."""

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from acker_client.completions import Page
from acker_client.lowlevel import Session

if TYPE_CHECKING:
    from acker_client import Completion

    from acker_spark.source.options import SourceOptions

log = logging.getLogger("acker_spark")
PAGE_SIZE = 5_000
"""So many completions go in one answer: about a megabyte of JSON."""

RETRY_TIMEOUT_S, REQUEST_TIMEOUT_S = 300.0, 30.0
"""An acker that is down for some minutes does not end the query."""


class Mailbox:
    """The mailbox of one spout task; before the first root of the spout task it is empty, and that is logged, once.

    Raises the `ServiceError` that ends a request (no such topology, no right to read it, a webhook owns the mailbox),
    or `RetriesExhausted`, the latter after ``startup_timeout`` seconds where no acker has ever answered.
    """

    def __init__(self, options: "SourceOptions", *, startup_timeout: float | None = None) -> None:
        self._topology = options.topology
        self._spout_task = options.spout_task
        self._is_missing_logged = False
        self._session = Session(
            url=options.url,
            topology=options.topology,
            api_key=options.token,
            retry_timeout=RETRY_TIMEOUT_S,
            startup_timeout=startup_timeout,
            request_timeout=REQUEST_TIMEOUT_S,
        )

    def read(self, after: str, *, limit: int, until: str | None = None, poll_timeout_ms: int = 0) -> Page:
        """Read on after a cursor ("" is the beginning), up to another; ``limit`` and `PAGE_SIZE` at most."""
        page = self._session.read_page(
            self._spout_task, after=after, until=until, limit=min(limit, PAGE_SIZE), poll_timeout_ms=poll_timeout_ms
        )
        if page is None:
            self._log_missing()
            time.sleep(poll_timeout_ms / 1000)
        return page or Page()

    def between(self, start: str, end: str) -> "Iterator[Completion]":
        """Read all completions after a cursor, up to another; released ones are missing."""
        cursor: str | None = start
        while cursor is not None and cursor != end:
            page = self.read(cursor, limit=PAGE_SIZE, until=end)
            yield from page.completions
            cursor = page.cursor if page.completions else None

    def end(self, start: str = "") -> tuple[str, int]:
        """Return the cursor behind the last completion now, and the number of completions up to it from ``start``."""
        cursor, count, left = start, 0, self._session.count_unread(self._spout_task)
        if left is None:
            self._log_missing()
        while left and (page := self.read(cursor, limit=left)).completions:
            cursor, count, left = page.cursor or "", count + len(page.completions), left - len(page.completions)
        return cursor, count

    def release(self, cursor: str) -> None:
        """Release all completions up to a cursor. Releasing twice does no harm."""
        self._session.release(self._spout_task, cursor)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _log_missing(self) -> None:
        if not self._is_missing_logged:
            self._is_missing_logged = True
            log.warning(
                "topology %r has no spout task %r, so there are no completions: nothing has emitted a root of it yet, "
                "or spoutTask has another name than the spout task that emits",
                self._topology,
                self._spout_task,
            )
