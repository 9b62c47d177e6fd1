"""Under Spark Connect both levels, a hop to another query and the completions do what they do elsewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.tracked import Source, Tracked
from tests.support.servers import AckerProcess

pytestmark = pytest.mark.timeout(900)

ROWS = [
    {"id": 1, "sentence": "the quick fox"},
    {"id": 2, "sentence": "a cow"},
    {"id": 3, "sentence": "the dog"},
]


def test_a_session_of_spark_connect_tells_the_acker_what_any_other_does(
    java: None, acker_process: AckerProcess, tmp_path: Path
) -> None:
    pytest.importorskip("grpc", reason="needs pip install 'pyspark[connect]'")
    Source(spark=None, folder=tmp_path / "source", schema="").put(*ROWS)
    command = [sys.executable, "-m", "tests.spark.connecting", acker_process.url, str(tmp_path)]
    log = tmp_path / "driver.log"
    with log.open("wb") as out:
        ended = subprocess.run(command, stdout=out, stderr=out, check=False, timeout=800)
    assert ended.returncode == 0, log.read_text()
    assert (tmp_path / "nameless").exists()
    assert (tmp_path / "printed").read_text() == "the dog,the quick fox"
    assert (tmp_path / "words").read_text() == "a,dog,fox,quick"
    assert (tmp_path / "counts").read_text() == "1,1"
    assert (tmp_path / "ends").read_text() == "1 acked,2 failed,3 acked"
    told = Tracked(process=acker_process, topology="connect", spout_task="batch")
    assert told.outcomes() == {"1": "acked", "2": "failed", "3": "acked"}
    assert told.reasons()["2"] == "no cows"
