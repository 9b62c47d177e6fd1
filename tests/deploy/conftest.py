"""Fixtures of the checks of deploy/."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.chart import Chart
from tests.deploy.tools import Missing, Tools, bring

PATIENCE_S = 900
"""The first test brings the tools; all of them start programs on a machine that may be busy."""

PROMTOOL = "github.com/prometheus/prometheus/cmd/promtool"
BUILD_S = 1500
"""How long the first build may take; the test that it is for waits longer."""


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
def promtool3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The promtool of Prometheus 3, built by Go from the module that go.mod pins; Go keeps what it has compiled."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go 1.26 is not installed here, which builds the promtool of Prometheus 3")
    program, here = tmp_path_factory.mktemp("promtool") / "promtool", Path(__file__).parent / "promtool"
    build = [go, "build", "-tags", "remove_all_sd", "-o", str(program), PROMTOOL]
    subprocess.run(build, cwd=here, check=True, timeout=BUILD_S)
    return program


@pytest.fixture(scope="session")
def chart(tools: Tools) -> Chart:
    return Chart(tools=tools)
