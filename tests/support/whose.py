"""Tells coverage whose doing a line is, as a plugin of pytest: that of the test module being read or run."""

from collections.abc import Iterator

import coverage
import pytest


def _now_runs(path: object) -> None:
    present = coverage.Coverage.current()
    assert present is not None, "to be run under coverage"
    present.switch_context(str(path))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """What a module calls while it is read, for its parameters, is its own doing."""
    _now_runs(collector.path)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """So is what a test does, with its fixtures."""
    _now_runs(item.path)
    return (yield)
