"""The hours of sales are run as a user runs them, with the Airflow that `make airflow` has installed."""

import re
import subprocess
import sys

import pytest

from tests.support.pages import ROOT

pytestmark = pytest.mark.timeout(580)
LOCK = ROOT / "examples/airflow/requirements.lock"


def test_a_dag_runs_for_each_hour_that_landed_and_not_before_the_work_of_a_killed_producer_was_redone() -> None:
    command = [sys.executable, "-m", "examples.airflow"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=560, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("  proven  ") == 4


def test_airflow_is_locked_with_a_hash_for_each_package_and_without_an_address() -> None:
    lock = LOCK.read_text()
    packages = re.split(r"\n(?=\S)", lock.strip())
    assert len(packages) > 50
    assert all("==" in package and "--hash=sha256:" in package for package in packages)
    assert "://" not in lock
    assert not re.search(r"^\s*(-i|--index|--extra-index|--find-links)", lock, re.MULTILINE)
