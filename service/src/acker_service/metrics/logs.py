"""Formats the log as text or as lines of JSON, and limits the rate of repeated warnings."""

import json
import logging
from typing import Any

REPEAT_INTERVAL_S = 10.0
_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Write the record's time, level, logger and message, and the traceback if there is one."""
        line: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class RateLimitFilter(logging.Filter):
    """Passes a repeated warning once every ``every_s`` seconds, with the number of those suppressed in between.

    Remembers at most ``max_messages`` messages.
    """

    def __init__(self, *, every_s: float = REPEAT_INTERVAL_S, max_messages: int = 1_000) -> None:
        super().__init__()
        self._every_s, self._max_messages = every_s, max_messages
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Decide whether a record is written. Errors and records with a traceback always are."""
        if record.levelno >= logging.ERROR or record.exc_info:
            return True
        message = (record.name, record.getMessage())
        at, suppressed = self._last.get(message, (-self._every_s, 0))
        if record.created - at < self._every_s:
            self._last[message] = (at, suppressed + 1)
            return False
        if len(self._last) >= self._max_messages:
            self._last.clear()
        self._last[message] = (record.created, 0)
        if suppressed:
            record.msg, record.args = f"{message[1]} (and {suppressed} times before)", ()
        return True


def start_logging(*, level: str, style: str) -> None:
    """Log to standard error, as text or as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style == "json" else logging.Formatter(_TEXT))
    handler.addFilter(RateLimitFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
