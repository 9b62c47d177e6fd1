"""Tests the connections of an acker that several queries share."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from acker_client.testing import MemoryAcker
from acker_client.testing.memory import URL
from acker_spark import SparkAcker
from acker_spark._batch import client_base
from acker_spark._batch.sender import OperationSender

MEETING_S = 0.5


@pytest.mark.parametrize("name", ["sender", "heartbeat_client"])
def test_two_queries_that_speak_first_at_once_share_one_sender(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would never be closed."""
    memory = MemoryAcker("orders", dedupe_window=60, retention=60)
    acker = SparkAcker(url=URL, topology="orders", spout_task="r", message_timeout=30, transport=memory.transport())
    meeting = threading.Barrier(2, timeout=MEETING_S)

    def slow(*arguments: Any, **options: Any) -> OperationSender:
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait()  # both are here only where nothing keeps the second out
        return OperationSender(*arguments, **options)

    monkeypatch.setattr(client_base, "OperationSender", slow)
    with acker, ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(getattr, acker, name) for _ in range(2))
        assert first.result() is second.result()
