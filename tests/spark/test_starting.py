"""Where no acker answers, a query, a read and a loop over completions end soon, and say how to start one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acker_client import RetriesExhausted
from acker_spark import SparkAcker
from acker_spark.source.datasource import CompletionsReader, CompletionsStreamReader
from acker_spark.source.options import read_options
from pyspark.errors import StreamingQueryException

from tests.spark.tracked import Source, messages, run

START_ONE = r"no acker answers at .*Start one \(`acker serve`\)"


@pytest.fixture
def nobody() -> dict[str, str]:
    """An address where nothing listens."""
    return {"url": "http://127.0.0.1:1", "topology": "t"}


@pytest.fixture
def acker(nobody: dict[str, str]) -> SparkAcker:
    return SparkAcker(**nobody, spout_task="reader", startup_timeout=0.1)


LEVELS: list[Callable[[SparkAcker], Any]] = [
    lambda acker: acker.foreach_batch(lambda *_: None),
    lambda acker: acker.foreach_rows(lambda *_: None),
    lambda acker: acker.forward_rows(lambda *_: None),
]


@pytest.mark.parametrize("level", LEVELS, ids=["foreach_batch", "foreach_rows", "forward_rows"])
def test_a_query_without_an_acker_ends(
    spark: Any, acker: SparkAcker, tmp_path: Path, level: Callable[[SparkAcker], Any]
) -> None:
    source = Source(spark=spark, folder=tmp_path / "source", schema="id long")
    source.put(*messages(1))
    with pytest.raises(StreamingQueryException, match=START_ONE):
        run(acker.root(source.stream(), "id"), level(acker), tmp_path / "checkpoint")


def test_a_loop_over_completions_without_an_acker_ends(acker: SparkAcker) -> None:
    with pytest.raises(RetriesExhausted, match=START_ONE):
        next(acker.completions())


def test_a_read_and_a_stream_of_completions_without_an_acker_end(spark: Any, nobody: dict[str, str]) -> None:
    given = {**nobody, "spoutTask": "reader", "startupTimeoutMs": "100"}
    options = read_options(given)
    with pytest.raises(RetriesExhausted, match=START_ONE):
        CompletionsReader(options).partitions()
    stream = CompletionsStreamReader(options)
    with pytest.raises(RetriesExhausted, match=START_ONE):
        stream.read(stream.initialOffset())
    with pytest.raises(Exception, match=START_ONE):
        spark.read.format("acker").options(**given).load().collect()
