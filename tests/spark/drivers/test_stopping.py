"""A driver whose Spark is stopped while the function of a batch works acks nothing of that batch."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.spark.tracked import Source, Tracked, messages


def test_a_batch_is_not_acked_if_all_of_spark_is_stopped_while_its_function_works(
    spark: Any, tracked: Tracked, tmp_path: Path
) -> None:
    Source(spark=spark, folder=tmp_path / "source", schema="id long").put(*messages(1, 2))
    command = [sys.executable, "-m", "tests.spark.stopping", tracked.process.url, tracked.topology, str(tmp_path)]
    with (tmp_path / "driver.log").open("ab") as log:
        subprocess.run(command, stdout=log, stderr=log, check=True)
    assert (tmp_path / "swallowed").exists()
    assert (tracked.outcomes(), tracked.pending()) == ({}, {"1", "2"}), (tmp_path / "driver.log").read_text()
