"""The log says how far a batch has come at each of its stages, at both levels; here a minute is short."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_spark import SparkAcker
from acker_spark._batch import run
from pyspark.sql import functions as F

from tests.spark.tracked import Tracked, expect_outcomes
from tests.support.waiting import eventually_true

READ = "their roots are read"
PATIENCE_S = 120


class Told(httpx.BaseTransport):
    """Sends what writes when the log has said that it is being sent."""

    def __init__(self, log: pytest.LogCaptureFixture) -> None:
        self._log = log
        self._inner = httpx.HTTPTransport()
        self._left = ["0 of 2 roots are emitted", "1 of 2 roots are emitted", "0 of 2 acks and fails are sent"]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            words = self._left.pop(0)
            eventually_true(lambda: words in self._log.text, within=PATIENCE_S)
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


class Touching(logging.Handler):
    """Makes a file when the log says that roots are read."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        if READ in record.getMessage():
            self._file.touch()


@pytest.mark.parametrize(
    "function",
    [lambda acker: acker.foreach_batch(lambda *_: None), lambda acker: acker.foreach_rows(lambda *_: None)],
    ids=["foreach_batch", "foreach_rows"],
)
def test_each_stage_of_a_batch_that_takes_long_is_in_the_log(
    spark: Any,
    tracked: Tracked,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    function: Callable[[SparkAcker], Any],
) -> None:
    said = tmp_path / "said"

    def wait(number: int) -> str:
        import time  # noqa: PLC0415 - it runs in a process of Spark's

        until = time.monotonic() + PATIENCE_S
        while not said.exists():
            assert time.monotonic() < until, "the log does not say that roots are read"
            time.sleep(0.01)
        return str(number)

    monkeypatch.setattr(run, "LOGGED_EVERY_S", 0.01)
    handler = Touching(said)
    run.log.addHandler(handler)
    try:
        acker = tracked.acker(query_id="q", transport=Told(caplog))
        function(acker)(acker.root(spark.range(2), F.udf(wait, useArrow=False)("id")), 0)
    finally:
        run.log.removeHandler(handler)
    expect_outcomes(tracked, {"0": "acked", "1": "acked"})
