"""The pure modules are covered wholly, each by the one test module that bears its name.

`make coverage` runs the unit tests first and measures them: this reads what was measured.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import coverage
import pytest

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[1]
PYPROJECT = ROOT / "pyproject.toml"
MEASURED = ROOT / ".coverage"
SOURCES = {"acker_protocol": ROOT / "client/src", "acker_service": ROOT / "service/src"}
"""The folder of each package that has pure modules."""


def pure_modules() -> dict[Path, Path]:
    """Return the file of each module that coverage measures, with the test module that bears its name."""
    found = {}
    for name in tomllib.loads(PYPROJECT.read_text())["tool"]["coverage"]["run"]["source_pkgs"]:
        package, *rest = name.split(".")
        path = SOURCES[package].joinpath(package, *rest)
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
            if file.name != "__init__.py":
                inside = file.relative_to(SOURCES[package] / package)
                tests = ROOT / "tests/unit" / package.removeprefix("acker_")
                found[file] = tests / inside.with_name(f"test_{file.name}")
    return found


PURE = pure_modules()


@pytest.fixture(scope="module")
def measured() -> Path:
    """What the unit tests ran, by the test module that ran it."""
    assert MEASURED.exists(), "nothing was measured: run make coverage"
    return MEASURED


def report(measured: Path, file: Path, target: Path, contexts: list[str] | None = None) -> dict[str, Any]:
    """What is covered of a file, by all or in some contexts only: by function, and "" for what stands outside them."""
    covered = coverage.Coverage(data_file=str(measured), config_file=str(PYPROJECT))
    covered.load()
    covered.json_report(morfs=[str(file)], outfile=str(target), contexts=contexts)
    (found,) = json.loads(target.read_text())["files"].values()
    return dict(found["functions"])


def missing(region: dict[str, Any]) -> list[Any]:
    return [*region["missing_lines"], *region["missing_branches"]]


@pytest.mark.parametrize(("file", "test"), PURE.items(), ids=[f"{file.parent.name}/{file.stem}" for file in PURE])
def test_a_pure_module_is_covered_wholly_by_its_own_test_module(
    measured: Path, tmp_path: Path, file: Path, test: Path
) -> None:
    """What stands outside functions runs at the first import, whoever's that is."""
    outside = report(measured, file, tmp_path / "all.json").pop("", {"missing_lines": [], "missing_branches": []})
    inside = report(measured, file, tmp_path / "own.json", contexts=[re.escape(str(test))])
    inside.pop("", None)
    assert test.exists()
    assert missing(outside) == []
    assert {name: missing(region) for name, region in inside.items() if missing(region)} == {}
