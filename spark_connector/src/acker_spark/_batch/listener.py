"""Reads the completions of a spout task on the driver: by polling, or as Redis publishes them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import acker_client as client

from acker_spark.errors import UsageError

if TYPE_CHECKING:
    from acker_client import Completion, Spout

    from acker_spark.options import SparkAckerOptions


class CompletionListener:
    """Reads the completions of one spout task until it is closed: its loops then end before their next poll."""

    def __init__(self, options: "SparkAckerOptions") -> None:
        self._options = options
        self._closed = threading.Event()

    def poll(
        self, *, until: float | None, stop: Callable[[], bool] | None, page_size: int, poll_timeout: float
    ) -> "Iterator[Completion]":
        """Read completions over HTTP."""
        reading = self._reading(until, stop, page_size)
        with self._spout() as spout:
            yield from spout.completions(**reading, poll_timeout=poll_timeout)

    def subscribe(
        self, redis_url: str, *, until: float | None, stop: Callable[[], bool] | None, page_size: int
    ) -> "Iterator[Completion]":
        """Read completions as Redis publishes them, and those that it lost from the mailbox."""
        reading = self._reading(until, stop, page_size)
        with self._spout() as spout:
            yield from spout.subscribe(redis_url, **reading)

    def close(self) -> None:
        """End all loops."""
        self._closed.set()

    def _reading(self, until: float | None, stop: Callable[[], bool] | None, page_size: int) -> dict[str, Any]:
        if stop is not None and not callable(stop):
            raise UsageError(f"stop must be a function without arguments, not {stop!r}")
        return {
            "stop": lambda: self._closed.is_set() or (stop is not None and stop()),
            "page_size": page_size,
            "until": until,
        }

    @contextmanager
    def _spout(self) -> "Iterator[Spout]":
        given = self._options
        with client.Acker(
            given.url,
            topology=given.topology,
            api_key=given.token,
            retry_timeout=given.retry_timeout,
            startup_timeout=given.startup_timeout,
        ) as acker:
            yield acker.shared_spout(given.spout_task)
