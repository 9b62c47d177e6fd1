"""Reads and releases the completions of one spout task, a page at a time, for a process of Spark."""

import time

from acker_client.lowlevel import (
    ClientConfig,
    Driver,
    Endpoint,
    Page,
    Request,
    Response,
    RetrySession,
    read_page,
    requests,
    responses,
)
from acker_protocol.errors import UnknownSpout

from acker_spark.source_options import SourceOptions

PAGE = 5_000
"""So many are asked for at once: about a megabyte of JSON."""

CONFIG = ClientConfig(retry_timeout=300.0, request_timeout=30.0)
"""An acker that is away for some minutes does not end the query."""


class Pages:
    """One mailbox. A spout task that nobody has named yet has nothing to read.

    Raises the `Problem` that ends a request (no such topology, no right to read it, a webhook owns the mailbox), or
    `RetriesExhausted`.
    """

    def __init__(self, options: SourceOptions) -> None:
        endpoint = Endpoint(url=options.url, api_key=options.token)
        self._names = (options.topology, options.spout_task)
        self._driver = Driver(endpoint.client_factory(CONFIG), sleep=time.sleep)
        self._session = RetrySession(topology=options.topology, config=CONFIG, address=options.url)

    def read(self, after: str, *, limit: int, until: str | None = None, wait_ms: int = 0) -> Page:
        """Read on after a cursor ("" is the beginning), up to another; ``limit`` at most, and at most a page."""
        request = requests.read_completions(
            *self._names, after=after or None, until=until, limit=min(limit, PAGE), wait_ms=wait_ms
        )
        try:
            return read_page(self._answer(request))
        except UnknownSpout:
            time.sleep(wait_ms / 1000)
            return Page()

    def end(self) -> str:
        """Give the cursor behind all that is there now, "" if nothing is."""
        cursor, left = "", self._unread()
        while left > 0 and (page := self.read(cursor, limit=left)).completions:
            cursor, left = page.cursor or "", left - len(page.completions)
        return cursor

    def release(self, cursor: str) -> None:
        """Forget all up to a cursor; what is gone already is no fault."""
        try:
            self._answer(requests.release(*self._names, cursor=cursor))
        except UnknownSpout:
            return

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()

    def _unread(self) -> int:
        try:
            return int(responses.document(self._answer(requests.read_spout(*self._names)))["unread"])
        except UnknownSpout:
            return 0

    def _answer(self, request: Request) -> Response:
        return self._driver.run(self._session.send(request))
