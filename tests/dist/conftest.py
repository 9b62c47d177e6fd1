"""The distributions, built once for all tests of them."""

from pathlib import Path

import pytest

from tests.dist.building import copy_repository, make_dist
from tests.dist.environments import interpreters


def pytest_report_header() -> list[str]:
    """Name which releases of Python are run, and which are not here."""
    found = interpreters()
    runs = [f"3.{minor}" for minor, python in found.items() if python]
    missing = [f"3.{minor}" for minor, python in found.items() if not python]
    return [f"wheels are tried on Python {', '.join(runs)}; not found: {', '.join(missing) or 'none'}"]


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in which `make dist` was run."""
    copy = copy_repository(tmp_path_factory.mktemp("repository") / "acker")
    make_dist(copy)
    return copy


@pytest.fixture(scope="session")
def built(repository: Path) -> dict[str, Path]:
    """The files that `make dist` makes, by name."""
    return {file.name: file for file in (repository / "dist").iterdir()}
