"""Rounds through all topologies, of which none waits for another."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from acker_protocol.errors import StoreUnavailable
from acker_service.metrics.registry import Metrics
from acker_service.topologies.periodic import PeriodicTask

from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


class Topologies:
    """Gives topologies by their names, which stand for them."""

    def __init__(self) -> None:
        self.faults: list[Exception] = []

    async def names(self) -> list[str]:
        if self.faults:
            raise self.faults.pop()
        return ["slow", "broken", "quick"]

    async def get(self, name: str) -> str:
        return name


class Counted(PeriodicTask):
    """Never comes to an end in one topology, and fails in another."""

    def __init__(self, registry: Any) -> None:
        super().__init__(registry=registry, metrics=Metrics(), interval=0.001, label="counted")
        self.visits: Counter[str] = Counter()

    async def run_for(self, topology: Any) -> None:
        self.visits[topology] += 1
        if topology == "slow":
            await asyncio.Event().wait()
        if topology == "broken":
            raise StoreUnavailable("it does not answer") if self.visits[topology] % 2 else ValueError("a bug")


@pytest.fixture
def rounds() -> Counted:
    return Counted(Topologies())


async def test_a_topology_that_takes_long_or_fails_keeps_no_other_waiting(rounds: Counted) -> None:
    rounds.start()

    async def went_on() -> bool:
        return min(rounds.visits["quick"], rounds.visits["broken"]) >= 5

    await eventually(went_on)
    assert rounds.visits["slow"] == 1, "a visit that still goes on is not begun a second time"
    await rounds.stop()


@pytest.mark.parametrize("fault", [StoreUnavailable("away"), ValueError("a bug")])
async def test_a_round_that_fails_is_followed_by_the_next(rounds: Counted, fault: Exception) -> None:
    rounds.registry.faults = [fault] * 3  # type: ignore[attr-defined]
    rounds.start()

    async def went_on() -> bool:
        return rounds.visits["quick"] >= 1

    await eventually(went_on)
    await rounds.stop()


async def test_rounds_that_are_stopped_visit_no_more(rounds: Counted) -> None:
    rounds.start()

    async def went_on() -> bool:
        return bool(rounds.visits["slow"])

    await eventually(went_on)
    await rounds.stop()
    assert all(visit.done() for visit in rounds._runs.values())
