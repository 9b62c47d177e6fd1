"""Formats the log as text or as lines of JSON, limits repeated warnings, and logs the begin and end of problems."""

import json
import logging
import time
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

REPEAT_INTERVAL_S = 10.0
SETTLE_S = 1.0
"""Seconds without a failure after which a problem is over: one that comes and goes faster is one problem."""

_ONCE = {"once": True}
"""Marks the records of a `ProblemLog`, which repeats none: no filter drops them."""
_NO_REQUEST = {"request": ""}
_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s%(request)s"
_TEXT_OF_PROCESS = "%(asctime)s %(levelname)-7s [{process}] %(name)s: %(message)s%(request)s"


class LoggedRequest:
    """The request whose lines are logged; ``id`` is None once it is answered.

    A task that a request starts keeps its context, and may run on for others.
    """

    __slots__ = ("id",)

    def __init__(self, id_: bytes) -> None:
        self.id: bytes | None = id_


_current: ContextVar[LoggedRequest | None] = ContextVar("acker_request", default=None)


def log_request(id_: bytes) -> LoggedRequest:
    """Let the lines that this context logs name a request, until its ``id`` is set to None."""
    request = LoggedRequest(id_)
    _current.set(request)
    return request


class RequestFilter(logging.Filter):
    """Adds to each record the id of the request that logs it, if there is one."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set ``request_id`` of the record, and ``request``, the end of its line of text; pass every record."""
        request = _current.get()
        if request is not None and request.id is not None:
            named = request.id.decode("ascii")
            record.__dict__ |= {"request_id": named, "request": f" request_id={named}"}
        return True


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON; ``process`` names the process that logs it, where there are several."""

    def __init__(self, process: str | None = None) -> None:
        super().__init__()
        self._process = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        """Write the record's time, level, logger and message, and the request's id and the traceback if it has them."""
        line: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            **self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request_id := getattr(record, "request_id", None)) is not None:
            line["request_id"] = request_id
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class RateLimitFilter(logging.Filter):
    """Passes a repeated warning once every ``every_s`` seconds, with the number of those suppressed in between.

    Remembers at most ``max_messages`` messages.
    """

    def __init__(self, *, every_s: float = REPEAT_INTERVAL_S, max_messages: int = 1_000) -> None:
        super().__init__()
        self._every_s = every_s
        self._max_messages = max_messages
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Decide whether a record is written. Errors, tracebacks and the records of a `ProblemLog` always are."""
        if record.levelno >= logging.ERROR or record.exc_info or hasattr(record, "once"):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """When a problem began, when it was seen last, both in seconds, and the highest level of its failures."""

    began: float
    seen: float
    level: int


class ProblemLog:
    """Logs a problem once when it begins, and once when it is over.

    Further failures of the same problem are logged at DEBUG. ``settle_s`` is how long none may come before it is over.
    """

    def __init__(
        self, log: logging.Logger, *, settle_s: float = SETTLE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._settle_s = settle_s
        self._clock = clock
        self._open: dict[Hashable, _Span] = {}

    def __bool__(self) -> bool:
        """Whether there is a problem now."""
        return bool(self._open)

    def __contains__(self, problem: Hashable) -> bool:
        return problem in self._open

    def begin(
        self,
        problem: Hashable,
        message: str,
        *args: object,
        level: int = logging.WARNING,
        error: BaseException | None = None,
    ) -> None:
        """Note a failure: the first of a problem, or one that is worse, is logged at ``level``.

        The traceback of ``error`` is logged with it.
        """
        now, known = self._clock(), self._open.get(problem)
        began, before = (known.began, known.level) if known else (now, logging.NOTSET)
        self._open[problem] = _Span(began=began, seen=now, level=max(level, before))
        self._log.log(level if level > before else logging.DEBUG, message, *args, exc_info=error, extra=_ONCE)

    def end(self, problem: Hashable, message: str, *args: object) -> bool:
        """Note a success: log that a problem is over, and how long it lasted, if it is one and has settled.

        Gives whether it has ended so.
        """
        now, known = self._clock(), self._open.get(problem)
        if known is None or now - known.seen < self._settle_s:
            return False
        del self._open[problem]
        level = min(known.level, logging.WARNING)
        self._log.log(level, f"{message}, after %.0f s", *args, now - known.began, extra=_ONCE)
        return True

    def forget(self, problem: Hashable) -> None:
        """Forget a problem without a line: another one has taken its place."""
        self._open.pop(problem, None)

    def succeeded(self, message: str, *args: object) -> None:
        """Note a success that ends every problem: logged once, when all have settled."""
        now, spans = self._clock(), self._open.values()
        if not spans or any(now - span.seen < self._settle_s for span in spans):
            return
        level, began = max(span.level for span in spans), min(span.began for span in spans)
        self._open = {}
        self._log.log(min(level, logging.WARNING), f"{message}, after %.0f s", *args, now - began, extra=_ONCE)

    def end_all(self, ended: Callable[[Hashable], bool], message: str) -> None:
        """Log once, whether they have settled or not, that some problems are over."""
        over = [problem for problem in self._open if ended(problem)]
        for problem in over:
            del self._open[problem]
        if over:
            self._log.warning("%s", message, extra=_ONCE)


class _ServerLog(logging.Filter):
    """Puts the name of our package before what uvicorn logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.name = "acker_service.http"
        return True


def start_logging(*, level: str, style: str, process: str | None = None) -> None:
    """Log to standard error, as text or as lines of JSON; ``process`` names this process in every line."""
    handler = logging.StreamHandler()
    text = _TEXT if process is None else _TEXT_OF_PROCESS.format(process=process)
    handler.setFormatter(JsonFormatter(process) if style == "json" else logging.Formatter(text, defaults=_NO_REQUEST))
    handler.addFilter(RateLimitFilter())
    handler.addFilter(RequestFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    server = logging.getLogger("uvicorn.error")
    server.filters = [_ServerLog()]
    server.setLevel(max(logging.WARNING, logging.getLogger().level))  # its start and stop, the acker logs itself
