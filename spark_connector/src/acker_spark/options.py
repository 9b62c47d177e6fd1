"""Knows the options of an acker for Spark, and says of all that are wrong in words what."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypedDict
from urllib.parse import urlsplit

from acker_protocol.wire import fields

from acker_spark.errors import WrongOptions

MESSAGE_TIMEOUT_S = 600.0
HOUR_S = 3_600.0
LONGEST_S = 7 * 24 * HOUR_S
LONGEST_RETENTION_S = 24 * HOUR_S
MOST_RETRY_S = 300.0
"""A service remembers request keys for at least ten minutes; no request is sent again for longer than half of it."""


class Further(TypedDict, total=False):
    """The further options as arguments; `Options` says what each means."""

    token: str | None
    message_timeout: float | None
    dedupe_window: float
    retention: float
    heartbeat_for: float
    retry_for: float
    query_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an acker for Spark goes by. Raises `WrongOptions`, which tells of all that is wrong at once.

    ``token`` is the API key (Spark redacts an option of this name). ``message_timeout`` is given to each root in
    seconds, None is the topology's. A topology that is not there is made with this timeout (600 s where None), with
    ``dedupe_window`` and ``retention``. While the roots of a batch are begun and its function runs, their timeouts are
    reset, but for no longer than ``heartbeat_for``. A request that is not answered is sent again for ``retry_for``.
    ``query_id`` is for Spark Connect, where a batch does not know its query: one name for each checkpoint.
    """

    url: str
    topology: str
    spout_task: str
    token: str | None = field(default=None, repr=False)
    message_timeout: float | None = None
    dedupe_window: float = HOUR_S
    retention: float = HOUR_S
    heartbeat_for: float = 6 * HOUR_S
    retry_for: float = 240.0
    query_id: str | None = None

    def __post_init__(self) -> None:
        if found := list(self._faults()):
            raise WrongOptions(found)

    @property
    def made_timeout(self) -> float:
        """The message timeout of a topology that has to be made."""
        return MESSAGE_TIMEOUT_S if self.message_timeout is None else self.message_timeout

    @property
    def message_timeout_ms(self) -> int | None:
        """The message timeout as it stands in an init."""
        return None if self.message_timeout is None else round(self.message_timeout * 1000)

    def _faults(self) -> Iterator[str]:
        yield from _address(self.url)
        yield from _name("topology", self.topology)
        yield from _name("spout_task", self.spout_task)
        yield from _texts(token=self.token, query_id=self.query_id)
        yield from _seconds("message_timeout", self.made_timeout, least=0.1, most=LONGEST_S)
        yield from _seconds("dedupe_window", self.dedupe_window, least=0.1, most=LONGEST_RETENTION_S)
        yield from _seconds("retention", self.retention, least=1, most=LONGEST_RETENTION_S)
        yield from _seconds("heartbeat_for", self.heartbeat_for, least=0, most=LONGEST_S)
        yield from _seconds("retry_for", self.retry_for, least=0, most=MOST_RETRY_S)
        yield from self._disorder()

    def _disorder(self) -> Iterator[str]:
        times = (self.made_timeout, self.dedupe_window, self.retention)
        if not all(_is_number(time) for time in times):
            return
        if self.dedupe_window < self.made_timeout:
            yield "dedupe_window must not be shorter than message_timeout: a batch that is run again would count twice"
        if self.retention < self.dedupe_window:
            yield "retention must not be shorter than dedupe_window: an ack that is repeated would find no root"


def _address(url: Any) -> Iterator[str]:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        yield f"url must be an http or https address, as http://127.0.0.1:8700, not {url!r}"


def _name(option: str, value: Any) -> Iterator[str]:
    try:
        fields.name(value)
    except ValueError as fault:
        yield f"{option} {fault}, not {value!r}"


def _texts(**values: Any) -> Iterator[str]:
    for option, value in values.items():
        if value is not None and not (isinstance(value, str) and value):
            yield f"{option} must be a text that is not empty, or None"


def _seconds(option: str, value: Any, *, least: float, most: float) -> Iterator[str]:
    if not _is_number(value):
        yield f"{option} must be a number of seconds, not {value!r}"
    elif not least <= value <= most:
        yield f"{option} must be from {least:g} to {most:g} seconds, not {value:g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
