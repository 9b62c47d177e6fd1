"""Rules of the state machine broken on purpose, in Lua and Python: the tests must notice. Runs by `make mutations`."""

import importlib
import types
from collections.abc import Callable
from typing import Any

import pytest
from acker_service.redis import library
from hypothesis import Phase

from tests.model.state_machine_mutants import IN_LUA, IN_PYTHON
from tests.model.test_model_and_redis import compare
from tests.model.test_table import WINDOW_MS, ModelUnderTest, bounds, play
from tests.support import model_acker
from tests.support.all_scenarios import ALL_SCENARIOS
from tests.support.driven_store import DrivenStore
from tests.support.mutant import Mutant
from tests.support.scenarios import Scenario, words_of

EXAMPLES = 400
UNSHRUNK = (Phase.generate,)


def play_table(make: Callable[[Scenario], Any]) -> None:
    """Play every row of the table."""
    for scenario in ALL_SCENARIOS:
        acker = make(scenario)
        try:
            assert play(acker, scenario) == words_of(scenario)
            mailbox = acker.mailbox if isinstance(acker, ModelUnderTest) else acker.mailbox()
            assert [(done.outcome, done.reason) for done in mailbox] == scenario.told
            assert [(done.failures, done.dropped) for done in mailbox] == scenario.counted
        finally:
            if isinstance(acker, DrivenStore):
                acker.close()


def without_fast_path(text: str) -> str:
    """Return the library with every operation left to the state machine."""
    switched = text.replace("local FAST_PATH = true", "local FAST_PATH = false")
    assert switched != text
    return switched


def is_noticed(make: Callable[[Scenario], Any], url: str, text: str) -> bool:
    """Whether the table or the random sequences fail, however."""
    try:
        play_table(make)
        compare(url, examples=EXAMPLES, text=text, phases=UNSHRUNK)
    except Exception:  # noqa: BLE001
        return True
    return False


@pytest.mark.mutations
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", IN_LUA, ids=lambda mutant: mutant.rule)
def test_a_rule_broken_in_lua_is_noticed(driven_url: str, mutant: Mutant) -> None:
    """With the fast path or without it: with it, few operations meet some rules of the state machine."""

    def is_noticed_in(text: str) -> bool:
        def make(scenario: Scenario) -> DrivenStore:
            return DrivenStore(driven_url, scenario.configuration, window_ms=WINDOW_MS, text=text, **bounds(scenario))

        return is_noticed(make, driven_url, text)

    assert is_noticed_in(mutant.library()) or is_noticed_in(without_fast_path(mutant.library()))


@pytest.mark.mutations
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", IN_PYTHON, ids=lambda mutant: mutant.rule)
def test_a_rule_broken_in_python_is_noticed(driven_url: str, monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    module = importlib.import_module(mutant.module)
    broken = types.ModuleType(mutant.module)
    exec(mutant.broken(), broken.__dict__)
    for name in ("apply_operation", "expire", "forget_expired", "replay_operation"):
        if hasattr(broken, name) and hasattr(module, name):
            monkeypatch.setattr(model_acker, name, getattr(broken, name))

    def make(scenario: Scenario) -> ModelUnderTest:
        return ModelUnderTest(scenario.configuration, WINDOW_MS, 0, **bounds(scenario))

    assert is_noticed(make, driven_url, library.source())
