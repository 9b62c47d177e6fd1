"""Fixtures of the checks of deploy/."""

import os
from pathlib import Path

import pytest

from tests.deploy.chart import Chart
from tests.deploy.tools import Missing, Tools, bring

PATIENCE_S = 900
"""The first test brings the tools; all of them start programs on a machine that may be busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


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
