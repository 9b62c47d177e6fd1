"""The orders in three languages are run as a user runs them, and each process is killed."""

import json
import subprocess
import sys

import pytest

from examples.three_languages.programs import NEEDED
from tests.conformance.programs import building
from tests.support.broker import need_broker
from tests.support.pages import ROOT
from tests.support.programs import needed

FOLDER = ROOT / "examples/three_languages"

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("package")]


def test_every_order_comes_through_while_each_process_is_killed() -> None:
    need_broker()
    for program in NEEDED:
        needed(program)
    command = [sys.executable, "-m", "examples.three_languages", "--orders", "140"]
    with building("typescript"), building("java"):  # which the example does, too
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("  proven  ") == 3
    assert run.stdout.count(" is killed") == 7


def test_its_lock_names_no_registry() -> None:
    packages = json.loads((FOLDER / "node/package-lock.json").read_text())["packages"].values()
    assert {package["resolved"] for package in packages if "resolved" in package} == {"../../../client/typescript"}
