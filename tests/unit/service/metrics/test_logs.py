import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime

import pytest
from acker_service.metrics.logs import JsonFormatter, ProblemLog, RateLimitFilter, log_request, start_logging


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


def test_one_of_several_processes_names_itself_in_every_line(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    for style in ("text", "json"):
        start_logging(level="info", style=style, process="api-1")
        logging.getLogger("acker_service.tick").warning("late")
    text, line = capsys.readouterr().err.splitlines()
    assert text.endswith(" WARNING [api-1] acker_service.tick: late")
    assert json.loads(line)["process"] == "api-1"


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


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def problems(clock: Clock, caplog: pytest.LogCaptureFixture) -> ProblemLog:
    caplog.set_level(logging.INFO)
    return ProblemLog(logging.getLogger("acker_service.somewhere"), clock=clock)


def test_a_problem_is_logged_once_when_it_begins_and_once_when_it_is_over(
    problems: ProblemLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    problems.end("store", "it is back")
    for clock.now in (0.0, 5.0, 10.0):
        problems.begin("store", "%s is away", "it")
    clock.now = 12.0
    for _ in range(3):
        problems.end("store", "it is back")
    problems.begin("store", "%s is away", "it")
    assert caplog.messages == ["it is away", "it is back, after 12 s", "it is away"]


def test_a_success_right_after_a_failure_does_not_end_a_problem(
    problems: ProblemLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for step in range(20):
        clock.now = step / 4
        problems.begin("store", "it is away")
        problems.end("store", "it is back")
        problems.succeeded("all is well")
    assert caplog.messages == ["it is away"]
    clock.now += 1
    problems.succeeded("all is well")
    assert caplog.messages == ["it is away", "all is well, after 6 s"]
    assert not problems


def test_the_end_of_a_problem_is_logged_at_the_level_of_its_begin_but_never_as_an_error(
    problems: ProblemLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        problems.begin(level, "it fails", level=level)
        clock.now += 2
        problems.end(level, "it works")
    assert [record.levelname for record in caplog.records] == [
        *("DEBUG", "DEBUG", "INFO", "INFO", "WARNING", "WARNING", "ERROR", "WARNING")
    ]


def test_a_problem_that_gets_worse_is_logged_again(problems: ProblemLog, caplog: pytest.LogCaptureFixture) -> None:
    for level in (logging.DEBUG, logging.WARNING, logging.ERROR, logging.ERROR, logging.DEBUG):
        problems.begin("task", "it fails at %s", level, level=level)
    assert caplog.messages == ["it fails at 30", "it fails at 40"]


def test_a_problem_that_another_replaces_is_forgotten_and_several_end_with_one_line(
    problems: ProblemLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for problem in ("one", "two", "three"):
        problems.begin(problem, "it fails: %s", problem)
    problems.forget("one")
    problems.end_all(lambda problem: problem != "three", "others work")
    problems.end_all(lambda problem: problem != "three", "others work")
    clock.now = 2.0
    problems.end("one", "one works")
    problems.end("three", "three works")
    assert caplog.messages[3:] == ["others work", "three works, after 2 s"]


def test_a_problem_that_returns_is_logged_however_soon(caplog: pytest.LogCaptureFixture) -> None:
    problems = ProblemLog(logging.getLogger("acker_service.somewhere"), settle_s=0)
    sparing = RateLimitFilter()
    for _ in range(2):
        problems.begin("store", "it is away")
        problems.end("store", "it is back")
    assert [sparing.filter(record) for record in caplog.records] == [True] * 4


def test_what_the_server_logs_has_a_name_of_ours_and_its_start_is_not_logged(
    root: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("uvicorn", "uvicorn.error"):  # another test may have configured them as uvicorn does by default
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    start_logging(level="info", style="json")
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("uvicorn.error").error("it failed")
    assert [json.loads(line)["logger"] for line in capsys.readouterr().err.splitlines()] == ["acker_service.http"]


def test_a_line_of_text_ends_with_the_id_of_its_request(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging(level="info", style="text")
    request = log_request(b"mine")
    root.info("within")
    request.id = None
    root.info("afterwards")
    within, afterwards = capsys.readouterr().err.splitlines()
    assert within.endswith("root: within request_id=mine")
    assert afterwards.endswith("root: afterwards")
