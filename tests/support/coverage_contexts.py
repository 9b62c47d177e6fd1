"""Measure coverage in each process of pytest, in contexts named after the test module that is collected or run.

A plugin of pytest, loaded by ``-p`` before all others: they import what is measured. Each process writes a file of its
own, which `coverage combine` joins.
"""

from collections.abc import Iterator

import coverage
import pytest

_coverage = coverage.Coverage(data_suffix=True)
_coverage.start()
_current = ""


def _enter(path: object) -> None:
    """Begin a context if it is another one than before: each change writes to a database."""
    global _current  # noqa: PLW0603 - pytest loads this module once in each process
    if _current != str(path):
        _current = str(path)
        _coverage.switch_context(_current)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Count what a module calls while it is collected, for its parameters, as its own."""
    _enter(collector.path)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Count what a test does, with its fixtures, as its module's."""
    _enter(item.path)
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    _coverage.stop()
    _coverage.save()
