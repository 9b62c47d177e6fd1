"""What becomes of the roots of a batch whose function raises: they are pending, or fail if that is asked for."""

from collections.abc import Callable
from typing import Any

import pytest
from acker_spark import SparkAcker
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tests.spark.tracked import Tracked, expect_outcomes


def refuse(_: Any) -> None:
    raise ValueError("no such card\nsee the page")


def name_no_column(rows: Any) -> None:
    rows.select("nothing").collect()


def raise_in_a_task(rows: Any) -> None:
    rows.select(F.raise_error(F.lit("too large"))).collect()


def say_nothing(_: Any) -> None:
    raise KeyError


LEVELS: list[Callable[[SparkAcker, Callable[[Any], None]], Any]] = [
    lambda acker, work: acker.foreach_batch(lambda rows, *_: work(rows)),
    lambda acker, work: acker.foreach_rows(lambda rows, _: work(rows)),
    lambda acker, work: acker.forward_rows(lambda rows, _: work(rows)),
]
level = pytest.mark.parametrize("level", LEVELS, ids=["foreach_batch", "foreach_rows", "forward_rows"])


@pytest.mark.parametrize("level", LEVELS[:2], ids=["foreach_batch", "foreach_rows"])
def test_the_roots_of_a_batch_that_raised_are_pending_until_it_runs_again(
    spark: Any, tracked: Tracked, level: Callable[..., Any]
) -> None:
    acker, rooted = tracked.acker(query_id="q"), spark.range(2)
    with pytest.raises(ValueError, match="no such card"):
        level(acker, refuse)(acker.root(rooted, "id"), 0)
    assert (tracked.outcomes(), tracked.pending()) == ({}, {"0", "1"})
    level(acker, lambda _: None)(acker.root(rooted, "id"), 0)
    expect_outcomes(tracked, {"0": "acked", "1": "acked"})


@level
def test_they_fail_with_the_last_line_of_the_exception_if_that_is_asked_for(
    spark: Any, tracked: Tracked, level: Callable[..., Any]
) -> None:
    acker = tracked.acker(query_id="q", fail_raised=True)
    with pytest.raises(ValueError, match="no such card"):
        level(acker, refuse)(acker.root(spark.range(2), "id"), 0)
    expect_outcomes(tracked, {"0": "failed", "1": "failed"})
    assert tracked.reasons() == {"0": "ValueError: no such card", "1": "ValueError: no such card"}


@pytest.mark.parametrize(
    ("work", "error", "words"),
    [
        (name_no_column, AnalysisException, "UNRESOLVED_COLUMN"),
        (raise_in_a_task, Exception, "too large"),
        (say_nothing, KeyError, "KeyError"),
    ],
)
def test_the_reason_is_one_line_of_whatever_was_raised(
    spark: Any, tracked: Tracked, work: Callable[[Any], None], error: type[Exception], words: str
) -> None:
    acker = tracked.acker(query_id="q", fail_raised=True)
    with pytest.raises(error):
        acker.foreach_batch(lambda rows, *_: work(rows))(acker.root(spark.range(1), "id"), 0)
    reason = tracked.reasons()["0"]
    assert words in reason
    assert len(reason.splitlines()) == 1
