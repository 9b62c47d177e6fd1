"""Tests the connections of an acker that several queries share."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from acker_client.testing import MemoryAcker
from acker_client.testing.memory import URL
from acker_protocol.states import TopologyRules
from acker_spark import Acker, connected
from acker_spark.line import Line, World

MEETING_S = 0.5


@pytest.mark.parametrize("name", ["line", "pulse"])
def test_two_queries_that_speak_first_at_once_share_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would never be closed."""
    memory = MemoryAcker("orders", rules=TopologyRules(dedupe_window_ms=60_000, retention_ms=60_000))
    acker = Acker(
        url=URL, topology="orders", spout_task="r", message_timeout=30, world=World(transport=memory.transport())
    )
    meeting = threading.Barrier(2, timeout=MEETING_S)

    def slow(*arguments: Any, **options: Any) -> Line:
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait()  # both are here only where nothing keeps the second out
        return Line(*arguments, **options)

    monkeypatch.setattr(connected, "Line", slow)
    with acker, ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(getattr, acker, name) for _ in range(2))
        assert first.result() is second.result()
