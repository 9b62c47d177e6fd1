"""Fixtures of the checks of deploy/."""

import os

import pytest

from tests.deploy.chart import Chart
from tests.deploy.tools import Missing, Tools, bring


@pytest.fixture(scope="session")
def tools() -> Tools:
    """The programs; without them a test is skipped, but not where everything has to run."""
    try:
        return bring()
    except Missing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def chart(tools: Tools) -> Chart:
    return Chart(tools=tools)
