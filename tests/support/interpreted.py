"""Runs tests on the client's interpreted hot path, also where it is compiled: ``pytest -p tests.support.interpreted``.

A plugin of pytest, loaded by ``-p`` before all others: they import the client.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path


class Interpreted:
    """Finds the source of the hot path before anything finds what was compiled of it."""

    @staticmethod
    def find_spec(name: str, path: list[str] | None, _target: object = None) -> ModuleSpec | None:
        """Find that one module."""
        if name != "acker_client._core.hot_path" or path is None:
            return None
        return spec_from_file_location(name, Path(path[-1]) / "hot_path.py")


assert "acker_client._core.hot_path" not in sys.modules, "this plugin has to be loaded first, by -p"
sys.meta_path.insert(0, Interpreted)


def pytest_report_header() -> str:
    """Say which form runs."""
    return "hot path: interpreted"
