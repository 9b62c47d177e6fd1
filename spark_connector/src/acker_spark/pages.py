"""Reads and releases the completions of one spout task, a page at a time, for a process of Spark."""

import time

from acker_client import calls, replies
from acker_client.completions import Page, read_page
from acker_client.connection import Reach
from acker_client.exchange import Exchange
from acker_client.terms import Terms
from acker_client.thread_driver import Driver
from acker_protocol.errors import UnknownSpout

from acker_spark.source_options import SourceOptions

PAGE = 5_000
"""So many are asked for at once: about a megabyte of JSON."""

TERMS = Terms(retry_for_ms=300_000, timeout_s=30.0)
"""An acker that is away for some minutes does not end the query."""


class Pages:
    """One mailbox. A spout task that nobody has named yet has nothing to read.

    Raises the `Problem` that ends a request (no such topology, no right to read it, a webhook owns the mailbox), or
    `Unreachable`.
    """

    def __init__(self, options: SourceOptions) -> None:
        reach = Reach(url=options.url, api_key=options.token)
        self._names = (options.topology, options.spout_task)
        self._driver = Driver(reach.connector(TERMS), sleep=time.sleep)
        self._exchange = Exchange(topology=options.topology, terms=TERMS)

    def read(self, after: str, *, limit: int, until: str | None = None, wait_ms: int = 0) -> Page:
        """Read on after a cursor ("" is the beginning), up to another; ``limit`` at most, and at most a page."""
        call = calls.read_completions(
            *self._names, after=after or None, until=until, limit=min(limit, PAGE), wait_ms=wait_ms
        )
        try:
            return read_page(self._answer(call))
        except UnknownSpout:
            time.sleep(wait_ms / 1000)
            return Page()

    def end(self) -> str:
        """Give the cursor behind all that is there now, "" if nothing is."""
        cursor, left = "", self._unread()
        while left > 0 and (page := self.read(cursor, limit=left)).done:
            cursor, left = page.cursor or "", left - len(page.done)
        return cursor

    def release(self, cursor: str) -> None:
        """Forget all up to a cursor; what is gone already is no fault."""
        try:
            self._answer(calls.release(*self._names, cursor=cursor))
        except UnknownSpout:
            return

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()

    def _unread(self) -> int:
        try:
            return int(replies.document(self._answer(calls.read_spout(*self._names)))["unread"])
        except UnknownSpout:
            return 0

    def _answer(self, call: calls.Call) -> replies.Reply:
        return self._driver.run(self._exchange.send(call))
