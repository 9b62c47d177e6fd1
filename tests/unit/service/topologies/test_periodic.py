"""Periodic tasks run for all topologies; none waits for another."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from acker_protocol.errors import StoreUnavailable
from acker_service.metrics.metrics import Metrics
from acker_service.topologies.periodic import PeriodicTask

from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


class Topologies:
    """Has topologies by their names, which stand for them."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    async def names(self) -> list[str]:
        if self.errors:
            raise self.errors.pop()
        return ["slow", "broken", "quick"]

    async def get(self, name: str) -> str:
        return name


class Counted(PeriodicTask):
    """Never comes to an end in one topology, and fails in another."""

    def __init__(self, registry: Any) -> None:
        super().__init__(registry=registry, metrics=Metrics(), interval=0.001, label="counted")
        self.runs: Counter[str] = Counter()

    async def run_for(self, topology: Any) -> None:
        self.runs[topology] += 1
        if topology == "slow":
            await asyncio.Event().wait()
        if topology == "broken":
            raise StoreUnavailable("it does not answer") if self.runs[topology] % 2 else ValueError("a bug")


@pytest.fixture
def task() -> Counted:
    return Counted(Topologies())


async def test_a_topology_that_takes_long_or_fails_keeps_no_other_waiting(task: Counted) -> None:
    task.start()

    async def went_on() -> bool:
        return min(task.runs["quick"], task.runs["broken"]) >= 5

    await eventually(went_on)
    assert task.runs["slow"] == 1, "an unfinished run is not started a second time"
    await task.stop()


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("a bug")])
async def test_a_pass_that_fails_is_followed_by_the_next(task: Counted, error: Exception) -> None:
    task.registry.errors = [error] * 3  # type: ignore[attr-defined]
    task.start()

    async def went_on() -> bool:
        return task.runs["quick"] >= 1

    await eventually(went_on)
    await task.stop()


async def test_a_stopped_task_runs_no_more(task: Counted) -> None:
    task.start()

    async def went_on() -> bool:
        return bool(task.runs["slow"])

    await eventually(went_on)
    await task.stop()
    assert all(run.done() for run in task._runs.values())
