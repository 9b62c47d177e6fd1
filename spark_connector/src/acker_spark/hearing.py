"""Knows how a program hears what became of the roots of its spout task: it asks, Redis tells it, or it is posted."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import acker_client as client
from acker_client.lowlevel import validate

if TYPE_CHECKING:
    from typing import Any

    from acker_client import Completion, Spout

    from acker_spark.options import Options


class Hearing:
    """What is heard of one spout task until this is closed: loops end then, at their next look."""

    def __init__(self, options: "Options") -> None:
        self._options = options
        self._over = threading.Event()

    def asked(self, reading: "dict[str, Any]") -> "Iterator[Completion]":
        """Read completions over HTTP."""
        self._bound(reading)
        with self._spout() as spout:
            yield from spout.completions(**reading)

    def published(self, redis_url: str, pages: "dict[str, Any]") -> "Iterator[Completion]":
        """Hear completions from Redis, and read what it lost."""
        self._bound(pages)
        with self._spout() as spout:
            yield from spout.subscribe(redis_url, **pages)

    def close(self) -> None:
        """End all loops."""
        self._over.set()

    def _bound(self, pages: "dict[str, Any]") -> None:
        stop: Callable[[], bool] = pages.get("stop", lambda: False)
        validate.function("stop", stop)
        pages["stop"] = lambda: self._over.is_set() or stop()

    @contextmanager
    def _spout(self) -> "Iterator[Spout]":
        told = self._options
        with client.Acker(told.url, topology=told.topology, api_key=told.token, retry_timeout=told.retry_for) as acker:
            yield acker.shared_spout(told.spout_task)
