"""The job that deploy/examples sends to the Spark operator counts words and acks sentences."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import AckerProcess

JOB = Path(__file__).parents[2] / "deploy/examples/spark-word-count/job.py"
LOCAL = "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 pyspark-shell"
SENTENCES = [
    {"id": "1", "sentence": "The cow jumps over the moon", "attempt": 1},
    {"id": "2", "sentence": "An apple a day", "attempt": 1},
    {"id": "3", "sentence": " ", "attempt": 1},
]


@pytest.mark.timeout(1200)
def test_the_job_counts_words_and_tells_of_every_sentence(
    java: None, acker_process: AckerProcess, tmp_path: Path
) -> None:
    (tmp_path / "sentences").mkdir()
    (tmp_path / "sentences/some.json").write_text("\n".join(map(json.dumps, SENTENCES)))
    _run(acker_process.url, tmp_path)
    counted = [json.loads(line) for path in tmp_path.glob("counts/*/*.json") for line in path.read_text().splitlines()]
    assert {row["word"]: row["count"] for row in counted} == {
        "the": 2, "cow": 1, "jumps": 1, "over": 1, "moon": 1, "an": 1, "apple": 1, "a": 1, "day": 1
    }  # fmt: skip
    page = acker_process.http.get("/v1/topologies/sentences/spouts/reader/completions").json()
    told = {(end["message_id"], end["outcome"], end["reason"]) for end in page["completions"]}
    assert told == {("1", "acked", None), ("2", "acked", None), ("3", "failed", "an empty sentence")}


def _run(url: str, folder: Path) -> None:
    own = {
        "ACKER_URL": url,
        "PYSPARK_SUBMIT_ARGS": LOCAL,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, JOB, folder / "sentences", folder / "counts", folder / "checkpoint", "--once"]
    ran = subprocess.run(
        command, env=os.environ | own, cwd=folder, capture_output=True, text=True, timeout=1100, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
