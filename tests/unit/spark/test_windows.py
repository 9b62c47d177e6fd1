"""Tests how long windows are open."""

import pytest
from acker_spark._batch.windows import check_window, parse_duration
from acker_spark.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10 seconds", 10.0),
        ("1 minute", 60.0),
        ("1 hour 30 minutes", 5_400.0),
        (" 2 Days ", 172_800.0),
        ("500 milliseconds", 0.5),
    ],
)
def test_a_duration_is_read_as_spark_takes_it(text: str, value: float) -> None:
    assert parse_duration(text) == value


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "1 month", "1 minute or so", "interval 1 minute"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        parse_duration(text)


def test_a_window_may_be_open_for_as_long_as_a_root_may_be_pending_and_no_longer() -> None:
    check_window("50 seconds", "10 seconds", message_timeout=60)
    with pytest.raises(UsageError, match="is open for 61 s"):
        check_window("50 seconds", "11 seconds", message_timeout=60)
