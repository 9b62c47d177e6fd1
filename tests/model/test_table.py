"""Every row of the table in docs/semantics.md, through the state machine in Python and through Redis."""

from collections.abc import Iterator

import pytest
from acker_protocol.operations import Operation
from acker_protocol.states import Finished, Tree

from tests.support.all_scenarios import ALL_SCENARIOS
from tests.support.driven_store import DrivenStore
from tests.support.model_acker import ModelAcker
from tests.support.scenarios import Again, Fill, Repeat, Scenario, Wait, words_of

WINDOW_MS = 60_000
EVERY = pytest.mark.parametrize("scenario", ALL_SCENARIOS, ids=lambda scenario: scenario.name)


class ModelUnderTest(ModelAcker):
    """The state machine in Python, driven as the store is."""

    def advance(self, ms: int) -> None:
        self.now_ms += ms

    def fill(self, *, is_full: bool) -> None:
        self.is_full = is_full


def bounds(scenario: Scenario) -> dict[str, int]:
    """The bounds on the early roots of the topology, so that each shard has those of the scenario."""
    shards = scenario.configuration.shards
    return {"max_early": scenario.max_early * shards, "early_max_bytes": scenario.early_max_bytes * shards}


def play(acker: ModelUnderTest | DrivenStore, scenario: Scenario) -> list[str]:
    states: list[str] = []
    sent: dict[int, list[Operation]] = {}
    for number, step in enumerate(scenario.steps):
        if isinstance(step, Wait):
            acker.advance(step.ms)
            acker.tick()
            continue
        if isinstance(step, Fill):
            acker.fill(is_full=step.is_full)
            continue
        if isinstance(step, Repeat | Again):
            first = step.of if step.of >= 0 else max(sent)
        else:
            first, sent[number] = number, step if isinstance(step, list) else [step]
        answers, repeated = acker.apply(sent[first], f"key-{first}")
        assert repeated == isinstance(step, Repeat)
        states.extend(state for state, _ in answers)
    return states


@EVERY
def test_in_python(scenario: Scenario) -> None:
    acker = ModelUnderTest(scenario.configuration, WINDOW_MS, 0, **bounds(scenario))
    assert play(acker, scenario) == words_of(scenario)
    assert [(done.outcome, done.reason) for done in acker.mailbox] == scenario.told
    assert [(done.failures, done.dropped) for done in acker.mailbox] == scenario.counted
    state = acker.state(0xA1)
    left = "finished" if isinstance(state, Finished) else "unknown"
    if isinstance(state, Tree):
        left = "pending" if state.spout_task else "early"
    assert left == scenario.left


@pytest.fixture
def redis_acker(driven_url: str, scenario: Scenario) -> Iterator[DrivenStore]:
    store = DrivenStore(driven_url, scenario.configuration, window_ms=WINDOW_MS, **bounds(scenario))
    yield store
    store.close()


@EVERY
def test_in_redis(scenario: Scenario, redis_acker: DrivenStore) -> None:
    assert play(redis_acker, scenario) == words_of(scenario)
    mailbox = redis_acker.mailbox()
    assert [(done.outcome, done.reason) for done in mailbox] == scenario.told
    assert [(done.failures, done.dropped) for done in mailbox] == scenario.counted
    names = {"N": "unknown", "E": "early", "P": "pending", "F": "finished"}
    assert names[redis_acker.root(0xA1).state.value] == scenario.left
