"""Tests the options of an acker for Spark."""

import pytest
from acker_spark.errors import InvalidOptions, UsageError
from acker_spark.options import SparkAckerOptions

GOOD = {"url": "http://127.0.0.1:8700", "topology": "orders", "spout_task": "reader"}


def test_what_is_left_out_has_the_value_that_a_batch_needs() -> None:
    options = SparkAckerOptions(**GOOD)
    assert (options.created_message_timeout, options.message_timeout_ms) == (600.0, None)
    assert SparkAckerOptions(**GOOD, message_timeout=1.5).message_timeout_ms == 1_500


def test_seconds_are_rounded_up_to_whole_milliseconds() -> None:
    assert SparkAckerOptions(**GOOD, message_timeout=0.1001).message_timeout_ms == 101
    assert SparkAckerOptions(**GOOD, message_timeout=16.1).message_timeout_ms == 16_100


def test_all_that_is_wrong_is_described_in_one_error() -> None:
    with pytest.raises(InvalidOptions) as caught:
        SparkAckerOptions(
            url="acker", topology="", spout_task="a b", token="", query_id=7, retry_timeout=600, retention="x"
        )
    told = "\n".join(caught.value.faults)
    assert len(caught.value.faults) == 7
    for name in (
        "url must be an http",
        "topology",
        "spout_task",
        "token must be",
        "query_id must be",
        "retry_timeout must be from",
    ):
        assert name in told
    assert "retention must be a number of seconds, not 'x'" in told
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({"message_timeout": 7_200}, "dedupe_window must not be shorter than message_timeout"),
        ({"retention": 60}, "retention must not be shorter than dedupe_window"),
        ({"message_timeout": 0}, "message_timeout must be from 0.1"),
        ({"fail_raised": "yes"}, "fail_raised must be True or False"),
        ({"startup_timeout": -1}, "startup_timeout must be from 0"),
        ({"heartbeat_for": True}, "heartbeat_for must be a number"),
    ],
)
def test_times_that_do_not_fit_each_other_are_refused(times: dict[str, float], words: str) -> None:
    with pytest.raises(InvalidOptions, match=words):
        SparkAckerOptions(**GOOD, **times)


def test_the_key_is_not_shown() -> None:
    assert "hunter2" not in repr(SparkAckerOptions(**GOOD, token="hunter2"))
