"""The pure rooms are covered wholly, each file by the one test module that bears its name."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import coverage
import pytest

pytestmark = pytest.mark.timeout(600)

HOUSE = Path(__file__).parents[1]
PROTOCOL = HOUSE / "client/src/acker_protocol"
SERVICE = HOUSE / "service/src/acker_service"
TESTS = HOUSE / "tests/unit"
PURE_SERVICE = (
    *("delivery/egress", "delivery/payload", "delivery/response", "delivery/retry"),
    *("http/keys", "http/load_shedding", "metrics/store_collector", "operations/batch", "operations/column_batch"),
    *("mailboxes/cursor", "mailboxes/paging", "monitoring/history", "redis/calls", "redis/durability", "redis/stamp"),
    *("topologies/callback", "topologies/config", "topologies/cursors", "topologies/topology"),
)
"""The pure modules of the service: functions over plain values."""


def module_testing(path: Path, tests: Path) -> Path:
    """The test module that bears the name of a module."""
    return tests / path.with_name(f"test_{path.name}")


PURE = {
    file: module_testing(file.relative_to(PROTOCOL), TESTS / "protocol")
    for file in sorted(PROTOCOL.rglob("*.py"))
    if file.name != "__init__.py"
} | {SERVICE / f"{name}.py": module_testing(Path(f"{name}.py"), TESTS / "service") for name in PURE_SERVICE}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unit tests of the pure rooms were run, and it was written down which module ran which line."""
    written = tmp_path_factory.mktemp("coverage") / "data"
    options = ("-q", "--confcutdir=tests/unit", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "tests.support.whose")
    command = (
        sys.executable,
        "-m",
        "coverage",
        "run",
        "--branch",
        "-m",
        "pytest",
        *options,
        *sorted({test.parent for test in PURE.values()}),
    )
    own = os.environ | {"COVERAGE_FILE": str(written)}
    run = subprocess.run(command, check=False, cwd=HOUSE, env=own, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    return written


def report(measured: Path, file: Path, **contexts: list[str]) -> dict[str, Any]:
    """What is covered of a file, by all or in some contexts only: by function, and "" for what stands outside them."""
    covered = coverage.Coverage(data_file=str(measured), config_file=str(HOUSE / "pyproject.toml"))
    covered.load()
    target = measured.with_suffix(".json")
    covered.json_report(morfs=[str(file)], outfile=str(target), **contexts)
    (found,) = json.loads(target.read_text())["files"].values()
    return dict(found["functions"])


def missing(region: dict[str, Any]) -> list[Any]:
    return [*region["missing_lines"], *region["missing_branches"]]


@pytest.mark.parametrize(("file", "test"), PURE.items(), ids=[f"{file.parent.name}/{file.stem}" for file in PURE])
def test_a_pure_room_is_covered_wholly_by_its_own_test_module(measured: Path, file: Path, test: Path) -> None:
    """What stands outside functions runs at the first import, whoever's that is."""
    outside = report(measured, file).pop("", {"missing_lines": [], "missing_branches": []})
    inside = report(measured, file, contexts=[re.escape(str(test))])
    inside.pop("", None)
    assert test.exists()
    assert missing(outside) == []
    assert {name: missing(region) for name, region in inside.items() if missing(region)} == {}
