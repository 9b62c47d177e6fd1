"""Tests what is given to ``foreachBatch``."""

import pickle

import pytest
from acker_spark import SparkAcker, errors
from acker_spark._batch.batch_level import check_function


def told(_: object) -> None:
    """Hear of a batch."""


def work(batch: object, batch_id: int, collector: object) -> None:
    """Do nothing."""


def test_the_function_of_a_batch_travels_without_connections_and_says_the_same() -> None:
    """As Spark Connect has it, which runs it in a process of its own."""
    acker = SparkAcker(url="http://127.0.0.1:1", topology="t", spout_task="s", query_id="q", on_batch=told)
    assert acker.sender is acker.sender
    arrived = pickle.loads(pickle.dumps(acker.foreach_batch(work)))
    assert arrived.function is work
    assert arrived.acker.options == acker.options
    assert arrived.acker._sender is None
    acker.close()


@pytest.mark.parametrize("given", [(None,), ("frame", 0), (work, 0), (lambda _: None,)])
def test_what_is_no_function_of_a_batch_is_refused_in_words(given: tuple[object, ...]) -> None:
    with pytest.raises(errors.UsageError, match=r"f\(batch, batch_id, collector\)"):
        check_function(*given, method="foreach_batch", parameters="batch, batch_id, collector")
