"""Every row of the table of docs/semantics.md."""

from tests.support.all_ended_scenarios import ALL_ENDED_SCENARIOS
from tests.support.dropped_scenarios import DROPPED_SCENARIOS
from tests.support.scenarios import SCENARIOS

ALL_SCENARIOS = [*SCENARIOS, *ALL_ENDED_SCENARIOS, *DROPPED_SCENARIOS]
