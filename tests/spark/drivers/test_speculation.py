"""Spark runs tasks twice at the same time, and both do all that they do: trees end once, none stuck, none too early."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import cluster
from tests.spark.driver import SCHEMA
from tests.spark.elsewhere import MESSAGES, Elsewhere, sentences
from tests.spark.speculating import READ, SLOW, WRITTEN
from tests.spark.tracked import Source, Tracked, expect_outcomes

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def master(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of two machines."""
    with cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


@pytest.fixture
def elsewhere(spark: Any, tracked: Tracked, tmp_path: Path) -> Elsewhere:
    """Sentences to read, and an edge of each tree that is open elsewhere."""
    Source(spark=spark, folder=tmp_path / "source", schema=SCHEMA).put(*sentences())
    return Elsewhere(spark.createDataFrame([(row["id"], row["sentence"]) for row in sentences()], SCHEMA), tracked)


def speculate(tracked: Tracked, folder: Path, master: str, who: str) -> None:
    """Run a driver over them to its end."""
    command = [sys.executable, "-m", "tests.spark.speculating", tracked.process.url, tracked.topology]
    log = folder / "driver.log"
    with log.open("wb") as out:
        ended = subprocess.run([*command, str(folder), master, who], stdout=out, stderr=out, check=False, timeout=600)
    assert ended.returncode == 0, log.read_text()


def attempts(folder: Path) -> set[str]:
    """Which attempts there were of the task with the slow word."""
    return {path.suffix for path in folder.glob(f"{SLOW}.*")}


@pytest.mark.parametrize("level", ["batch", "rows"])
def test_tasks_that_run_twice_at_once_count_once(
    master: str, tracked: Tracked, elsewhere: Elsewhere, tmp_path: Path, level: str
) -> None:
    speculate(tracked, tmp_path, master, level)
    assert attempts(tmp_path / READ) == attempts(tmp_path / WRITTEN) == {".0", ".1"}
    assert elsewhere.let_go() == {"acked": MESSAGES}
    expect_outcomes(tracked, {str(row["id"]): "acked" for row in sentences()})


def test_acks_sent_by_the_tasks_themselves_would_leave_trees_stuck_when_one_runs_twice(
    master: str, tracked: Tracked, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    speculate(tracked, tmp_path, master, "tasks")
    assert attempts(tmp_path / WRITTEN) == {".0", ".1"}
    assert elsewhere.let_go()["pending"] > 0
    assert SLOW.removeprefix("w") in tracked.pending()
