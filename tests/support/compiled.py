"""Runs tests on the compiled hot path of the client, or none: ``pytest -p tests.support.compiled``.

A plugin of pytest, which ``make test-compiled`` loads.
"""

import pytest
from acker_client._core import hot_path
from acker_client._core.hot_path_form import form_of

if form_of(hot_path) != "compiled":
    raise pytest.UsageError("the hot path that stands here is not compiled: run client/compile.py --required")


def pytest_report_header() -> str:
    """Say which form runs."""
    return "hot path: compiled"
