"""Knows how the log is written: as text, or as lines of JSON."""

import json
import logging
from typing import Any

EVERY_S = 10.0
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
    """Lets the same warning through once in a while, and says then how often it was to be written meanwhile."""

    def __init__(self, *, every_s: float = EVERY_S, most: int = 1_000) -> None:
        super().__init__()
        self._every_s, self._most = every_s, most
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record is to be written. Errors always are, and what comes with a traceback."""
        if record.levelno >= logging.ERROR or record.exc_info:
            return True
        said = (record.name, record.getMessage())
        at, left_out = self._last.get(said, (-self._every_s, 0))
        if record.created - at < self._every_s:
            self._last[said] = (at, left_out + 1)
            return False
        if len(self._last) >= self._most:
            self._last.clear()
        self._last[said] = (record.created, 0)
        if left_out:
            record.msg, record.args = f"{said[1]} (and {left_out} times before)", ()
        return True


def start_logging(*, level: str, style: str) -> None:
    """Log to standard error, as text or as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style == "json" else logging.Formatter(_TEXT))
    handler.addFilter(RateLimitFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
