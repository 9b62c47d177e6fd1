import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime

import pytest
from acker_service.metrics.logs import JsonFormatter, RateLimitFilter, start_logging


def record(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("acker_service.redis", logging.WARNING, "redis.py", 7, message, args, None)


def record_of_a_fault() -> logging.LogRecord:
    told = record("it failed")
    try:
        raise ValueError("no such root")
    except ValueError as fault:
        told.exc_info = (type(fault), fault, fault.__traceback__)
    return told


def formatted(told: logging.LogRecord) -> dict[str, str]:
    line = JsonFormatter().format(told)
    assert "\n" not in line
    members: dict[str, str] = json.loads(line)
    return members


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger without the handlers of the test run, which come back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    root.handlers = []
    yield root
    for handler in root.handlers:
        handler.close()
    root.handlers = handlers
    root.setLevel(level)


def test_a_record_is_one_line_of_json() -> None:
    members = formatted(record("Redis: %s\nnot there, 刘备", "gone"))
    assert set(members) == {"at", "level", "logger", "message"}
    assert members["level"] == "warning"
    assert members["logger"] == "acker_service.redis"
    assert members["message"] == "Redis: gone\nnot there, 刘备"


def test_the_time_of_a_record_has_its_zone() -> None:
    told = record("now")
    told.created = 1_790_000_000.75
    at = datetime.strptime(formatted(told)["at"], "%Y-%m-%dT%H:%M:%S%z")
    assert at.timestamp() == 1_790_000_000


def test_a_fault_brings_its_traceback() -> None:
    members = formatted(record_of_a_fault())
    assert members["message"] == "it failed"
    assert members["traceback"].startswith("Traceback (most recent call last):\n")
    assert members["traceback"].endswith("\nValueError: no such root")


def test_text_goes_to_standard_error_as_a_line_a_record(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging(level="info", style="text")
    logging.getLogger("acker_service.tick").warning("late by %s ms", 7)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING acker_service.tick: late by 7 ms\n", err)


def test_json_goes_to_standard_error_as_a_line_a_record(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging(level="info", style="json")
    logging.getLogger("one").info("first")
    logging.getLogger("two").error("second")
    out, err = capsys.readouterr()
    assert out == ""
    assert [json.loads(line)["message"] for line in err.splitlines()] == ["first", "second"]


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_what_is_below_the_level_is_not_told(
    root: logging.Logger, capsys: pytest.CaptureFixture[str], level: str, told: list[str]
) -> None:
    start_logging(level=level, style="json")
    for name in ("debug", "info", "warning", "error"):
        logging.getLogger("acker_service").log(logging.getLevelNamesMapping()[name.upper()], name)
    assert [json.loads(line)["level"] for line in capsys.readouterr().err.splitlines()] == told


def test_logging_begun_again_takes_the_place_of_the_first(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging(level="debug", style="text")
    start_logging(level="info", style="json")
    logging.getLogger("acker_service").info("once")
    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == ["once"]


def test_the_same_warning_is_written_once_in_a_while_with_how_often_it_was_left_out() -> None:
    sparing, written = RateLimitFilter(every_s=10), []
    for second in (0, 1, 2, 10, 11, 12, 30):
        record = logging.makeLogRecord({"name": "store", "levelno": logging.WARNING, "msg": "away: %s", "args": ("x",)})
        record.created = 1_000.0 + second
        if sparing.filter(record):
            written.append((second, record.getMessage()))
    assert written == [(0, "away: x"), (10, "away: x (and 2 times before)"), (30, "away: x (and 2 times before)")]


def test_other_warnings_and_errors_are_always_written() -> None:
    sparing = RateLimitFilter()
    levels = (logging.WARNING, logging.ERROR, logging.ERROR, logging.INFO)
    records = [logging.makeLogRecord({"levelno": level, "msg": f"{level}"}) for level in levels]
    assert all(sparing.filter(record) for record in records)


def test_what_was_said_is_forgotten_before_it_is_much() -> None:
    sparing = RateLimitFilter(max_messages=2)
    for number in range(5):
        assert sparing.filter(logging.makeLogRecord({"levelno": logging.WARNING, "msg": f"{number}"}))
    assert len(sparing._last) <= 2
