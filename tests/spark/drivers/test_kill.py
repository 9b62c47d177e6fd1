"""Drivers of their own are killed and started again from their checkpoint: no tree is stuck, none done too early."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.driver import OPS_A_REQUEST, SCHEMA
from tests.spark.elsewhere import MESSAGES, Elsewhere, sentences
from tests.spark.tracked import Source, Tracked

pytestmark = pytest.mark.timeout(900)

BETWEEN = 1 + 2 * -(-(MESSAGES - 1) // OPS_A_REQUEST)
"""The last of its requests: a leader, the other inits, and by then all deltas but some."""


def drive(tracked: Tracked, folder: Path, partitions: int, fate: str) -> int:
    """Run a driver to its end; give its exit code."""
    command = [sys.executable, "-m", "tests.spark.driver", tracked.process.url, tracked.topology, str(folder)]
    with (folder / "driver.log").open("ab") as log:
        return subprocess.run([*command, str(partitions), fate], stdout=log, stderr=log, check=False).returncode


def test_a_driver_that_is_killed_and_started_again_with_other_partitions_ends_its_trees(
    spark: Any, tracked: Tracked, tmp_path: Path
) -> None:
    """Killed between two of its requests, then when its acks are sent and Spark has not committed the batch."""
    lines = spark.createDataFrame([(row["id"], row["sentence"]) for row in sentences()], SCHEMA)
    elsewhere = Elsewhere(lines, tracked)
    Source(spark=spark, folder=tmp_path / "source", schema=SCHEMA).put(*sentences())
    fates = [drive(tracked, tmp_path, *how) for how in ((4, f"requests:{BETWEEN}"), (2, "commit"), (7, "none"))]
    assert fates == [-9, -9, 0], (tmp_path / "driver.log").read_text()
    assert elsewhere.let_go() == {"acked": MESSAGES}
