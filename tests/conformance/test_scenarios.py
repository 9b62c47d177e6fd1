"""Every client does the same in every scenario, with a calm network and in a storm."""

import itertools

import pytest

from tests.conformance.player import Scenario, Stage, scenarios
from tests.conformance.programs import Driver
from tests.conformance.proxy import FaultProxy
from tests.support.servers import AckerProcess

SCENARIOS = scenarios()
_numbers = itertools.count(1)


def _id(scenario: Scenario) -> str:
    return f"{scenario.file}: {scenario.name}"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=_id)
def test_a_scenario_is_as_it_says(
    scenario: Scenario, language: str, driver: Driver, proxy: FaultProxy, acker: AckerProcess
) -> None:
    play(scenario, language, driver, proxy, acker, storm=False)


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if not each.calm], ids=_id)
def test_a_scenario_ends_as_well_where_answers_are_lost_and_requests_are_refused(
    scenario: Scenario, language: str, driver: Driver, proxy: FaultProxy, acker: AckerProcess
) -> None:
    play(scenario, language, driver, proxy, acker, storm=True)


def play(
    scenario: Scenario, language: str, driver: Driver, proxy: FaultProxy, acker: AckerProcess, *, storm: bool
) -> None:
    """Play a scenario on a topology of its own."""
    stage = Stage(driver=driver, proxy=proxy, acker=acker.http, topology=f"{language}-{next(_numbers)}", storm=storm)
    try:
        stage.play(scenario)
    finally:
        proxy.reset(storm=False)
        driver.call("reset")


def test_there_are_scenarios_of_each_kind_and_no_two_of_one_name() -> None:
    assert len(SCENARIOS) >= 60
    names = [_id(each) for each in SCENARIOS]
    assert len({*names}) == len(names)
