"""The service and the library of the commit before beside those of this one, both ways, on one store, under load.

The commit before is the last one whose service and library were others than they are now.
"""

import sys
from pathlib import Path

import pytest
from acker_service.redis import library

from bench import baseline
from tests.faults_long.round import run
from tests.faults_long.schedule import Fault, Round

pytestmark = pytest.mark.timeout(600)

PRODUCT = ("client/src", "service/src")
LUA = "service/src/acker_service/redis/lua/acker.lua"
DRIVER = "tests/conformance/python_driver.py"
STOPPED = [Fault(kind="service stopped", which=which, how_long=0.0, after_s=2.0) for which in (0.0, 0.9)]
ROUND = Round(number=0, seed=2, store="valkey", processes=1, faults=(*STOPPED, *STOPPED))


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the commit before."""
    changed = baseline.git("log", "-1", "--format=%H", "--", *PRODUCT).decode().strip()
    root = tmp_path_factory.mktemp("before")
    if not changed or not baseline.unpack(f"{changed}^", root):
        pytest.skip("the commit before is not in this clone (a shallow one: git fetch --unshallow)")
    if library.layout((root / LUA).read_text()) != library.layout(library.source()):
        pytest.skip("its layout of keys is another one; tests/integration/store/test_layout.py has the refusal")
    return root


@pytest.mark.parametrize("is_first", [True, False], ids=["it came first", "it came later"])
def test_two_commits_serve_one_store_and_keep_the_promise(tmp_path: Path, before: Path, *, is_first: bool) -> None:
    """Each replica is stopped and started twice, so that either finds the library of the other there."""
    own, other = dict[str, str](), baseline.environment(before)
    drivers = {
        "python": [sys.executable, DRIVER],
        "python before": ["env", *(f"{name}={value}" for name, value in other.items()), sys.executable, DRIVER],
    }
    environments = (other, own) if is_first else (own, other)
    found = run(ROUND, tmp_path / "round", commit="", rate=600.0, drivers=drivers, environments=environments)
    assert found.is_kept, (found.not_settled, found.clauses)
    assert {"python", "python before"} <= found.clients.keys()
