"""The task that records the history waits for each step."""

import asyncio
from typing import Any, cast

import pytest
from acker_protocol.errors import StoreUnavailable
from acker_service.monitoring import recording
from acker_service.monitoring.recording import HistoryTask

pytestmark = pytest.mark.anyio

TURNS = 50
"""Turns of the event loop in which a task that does not wait would record many times."""


class Recorder:
    """Says that the next step is due in an hour; fails so often before."""

    def __init__(self, failures: int = 0) -> None:
        self.calls = 0
        self.failures = failures

    async def record(self) -> float:
        self.calls += 1
        if self.calls <= self.failures:
            raise StoreUnavailable("the store is away")
        return asyncio.get_running_loop().time() + 3_600


async def calls_of(recorder: Recorder) -> int:
    task = HistoryTask(cast(Any, recorder))
    task.start()
    for _ in range(TURNS):
        await asyncio.sleep(0)
    await task.stop()
    return recorder.calls


async def test_a_step_is_recorded_once_and_the_next_when_it_is_due() -> None:
    assert await calls_of(Recorder()) == 1


async def test_a_step_that_fails_is_recorded_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await calls_of(Recorder(failures=3)) == 1
    monkeypatch.setattr(recording, "STEP_MS", 0)
    assert await calls_of(Recorder(failures=3)) == 4
