"""Lets a long run go on where the last one was stopped: `pytest -p tests.support.resumable`.

Each test that passes is written down with the tree of the last commit, and is left out from then on. Where a file is
changed nothing is written down, and all tests run.
"""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

PASSED = Path(__file__).parents[2] / ".passed"
"""A line for each test that passed: the tree of files, the seconds that it took, and the test."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what passed before."""
    done = passed()
    left_out = [item for item in items if item.nodeid in done]
    if left_out:
        items[:] = [item for item in items if item.nodeid not in done]
        config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down what passed; with workers, in the process that started them."""
    if report.when == "call" and report.passed and _tree() and "PYTEST_XDIST_WORKER" not in os.environ:
        with PASSED.open("a", encoding="utf-8") as file:
            file.write(f"{_tree()} {report.duration:.2f} {report.nodeid}\n")


def passed() -> dict[str, float]:
    """Return the tests that passed on the tree of the last commit, and the seconds that each took.

    There are none where a file differs from that commit.
    """
    lines = PASSED.read_text(encoding="utf-8").splitlines() if PASSED.exists() else []
    found = (line.split(" ", 2) for line in lines if _tree() and line.startswith(f"{_tree()} "))
    return {nodeid: float(seconds) for _, seconds, nodeid in found}


@cache
def _tree() -> str:
    """Return the name of the tree of the last commit; empty where a file differs from it."""
    changed, tree = (
        subprocess.run(["git", *command], cwd=PASSED.parent, capture_output=True, text=True, check=False)
        for command in (("status", "--porcelain"), ("rev-parse", "HEAD^{tree}"))
    )
    return "" if changed.returncode or changed.stdout else tree.stdout.strip()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End well where nothing is left to run."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and PASSED.exists():
        session.exitstatus = pytest.ExitCode.OK
