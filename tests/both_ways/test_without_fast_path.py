"""The tests of operations pass without the fast path as well: both ways are held to the same sentences."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITES = (
    *("access", "answers", "bad_input", "batcher", "batches", "early_roots", "full_mailbox", "idempotency", "limits"),
    *("metrics", "openapi", "operations", "packed", "remembered_requests", "repeats", "resets", "stamps", "topologies"),
    *("topology_deletion", "unknown_parameters"),
)
"""The integration tests that send operations, or ask what was counted of them."""


@pytest.mark.timeout(900)
def test_operations_do_the_same_without_the_fast_path() -> None:
    modules = [f"tests/integration/test_{suite}.py" for suite in SUITES]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-fast-path", *modules]
    run = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
