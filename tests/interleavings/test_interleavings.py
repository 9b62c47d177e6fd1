"""No interleaving of a small tree breaks a promise, and each known mistake does."""

from dataclasses import replace

import pytest

from tests.interleavings.scenario import Scenario
from tests.interleavings.scenarios import MISTAKES, SOUND, SPLIT
from tests.interleavings.search import search


@pytest.mark.parametrize("expires", [False, True], ids=["no deadline", "time passes"])
@pytest.mark.parametrize("scenario", SOUND, ids=lambda scenario: scenario.name)
def test_no_interleaving_breaks_a_promise(scenario: Scenario, *, expires: bool) -> None:
    found = search(replace(scenario, expires=expires, faults=0 if expires else 1))
    assert (found.broken, found.story) == (None, ())
    assert found.ends["acked"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_each_known_mistake_is_found(mistake: Scenario) -> None:
    assert search(mistake).broken is not None


def test_a_broken_promise_is_told_with_what_led_to_it() -> None:
    assert search(replace(SPLIT, faults=0)).story == (
        "spout: request 0 is answered",
        "a: delivered",
        "a: sends a message",
        "a: request 1 is answered",
    )
