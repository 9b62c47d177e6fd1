"""Search every world that a scenario leads to, breadth first, for one that breaks a promise."""

import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from acker_protocol.operations import Outcome
from acker_protocol.states import Finished, Tree

from tests.interleavings.acker import miscounted
from tests.interleavings.scenario import Scenario
from tests.interleavings.world import Worlds

EARLY, TWICE, LOST = "told as acked before all work was done", "ended twice", "ended, and nobody is told"
CROWDED, MISCOUNTED = "more roots are pending than may be", "tells another number of failed edges"

EVERY = 1 << 17
"""Worlds between two reports of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found.

    ``broken`` is the promise that a world breaks (None: none does), ``story`` what led to it. ``ends`` counts the
    worlds in which nothing happens any more by how the root ended there.
    """

    scenario: Scenario
    worlds: int
    steps: int
    cpu_s: float
    ends: Counter[str]
    broken: str | None = None
    story: tuple[str, ...] = ()


def search(scenario: Scenario, *, report: Callable[[int], None] | None = None) -> Found:
    """Try every interleaving of a scenario, until a promise is broken or all are tried."""
    worlds, began = Worlds(scenario), time.process_time()
    seen, order, parents = {worlds.first: 0}, [worlds.first], array("I", [0])
    ends: Counter[str] = Counter()
    steps, broken, at = 0, None, 0
    while at < len(order):
        world = order[at]
        if broken := broken_promise(worlds, world):
            break
        expected, faulty = worlds.nexts(world)
        if not expected:
            end = how_it_ended(worlds, world)
            ends[end] += 1
            if end == LOST:
                broken = LOST
                break
        for _, after in (*expected, *faulty):
            steps += 1
            if after not in seen:
                seen[after] = len(order)
                order.append(after)
                parents.append(at)
        at += 1
        if report and not at % EVERY:
            report(at)
    return Found(
        scenario=scenario,
        worlds=len(order),
        steps=steps,
        cpu_s=time.process_time() - began,
        ends=ends,
        broken=broken,
        story=tuple(story(worlds, order, parents, at)) if broken else (),
    )


def broken_promise(worlds: Worlds, world: int) -> str | None:
    """Return the promise that a world breaks."""
    store, scenario = worlds.store(world), worlds.scenario
    if len(store.completions) > 1:
        return TWICE
    if scenario.slots is not None and store.pending > scenario.slots:
        return CROWDED
    for completion in store.completions:
        if completion.outcome is Outcome.ACKED and not worlds.is_done(world):
            return EARLY
        if scenario.ends_on_all and miscounted(store):
            return MISCOUNTED
    return None


def how_it_ended(worlds: Worlds, world: int) -> str:
    """Return how the root ended, where nothing happens any more."""
    store = worlds.store(world)
    if worlds.scenario.workers and isinstance(store.other, Finished) and not worlds.is_other_told(world):
        return LOST
    if not store.completions:
        return "pending" if isinstance(store.root, Tree) and worlds.scenario.expires else LOST
    return store.completions[0].outcome.value if worlds.is_told(world) else LOST


def story(worlds: Worlds, order: list[int], parents: "array[int]", at: int) -> list[str]:
    """Return what happened on the way to a world."""
    steps: list[str] = []
    while at:
        before = order[parents[at]]
        expected, faulty = worlds.nexts(before)
        steps.append(next(name for name, after in (*expected, *faulty) if after == order[at]))
        at = parents[at]
    return steps[::-1]
