"""The options of a `SparkAcker`, checked together."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from acker_client.lowlevel import to_milliseconds
from acker_protocol.wire import fields

from acker_spark.errors import InvalidOptions

DEFAULT_MESSAGE_TIMEOUT_S = 600.0
HOUR_S = 3_600.0
DEFAULT_STARTUP_TIMEOUT_S = 5.0
MAX_TIMEOUT_S = 7 * 24 * HOUR_S
MAX_RETENTION_S = 24 * HOUR_S
MAX_RETRY_S = 300.0
"""A service remembers request keys for at least ten minutes; no request is repeated for longer than half of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAckerOptions:
    """The options of a `SparkAcker`; times in seconds. Raises `InvalidOptions` with all faults at once."""

    url: str
    topology: str
    spout_task: str
    token: str | None = field(default=None, repr=False)
    """The API key. Spark redacts an option of this name."""
    message_timeout: float | None = None
    """The message timeout of each root; None takes the topology's."""
    dedupe_window: float = HOUR_S
    retention: float = HOUR_S
    """With the message timeout, the configuration of a topology that does not exist yet."""
    heartbeat_for: float = 6 * HOUR_S
    """How long the timeouts of a batch's roots are reset while its function runs."""
    retry_timeout: float = 240.0
    """How long an unanswered request is repeated."""
    startup_timeout: float | None = DEFAULT_STARTUP_TIMEOUT_S
    """How long the first request is repeated where nothing listens at the address; None: as long as any other."""
    fail_raised: bool = False
    """Whether the roots of a batch fail when its function raises."""
    query_id: str | None = None
    """One name for each checkpoint; only Spark Connect, where a batch does not know its query, needs it."""

    def __post_init__(self) -> None:
        if found := list(self._faults()):
            raise InvalidOptions(found)

    @property
    def created_message_timeout(self) -> float:
        """The message timeout of a topology that the connector creates, in seconds."""
        return DEFAULT_MESSAGE_TIMEOUT_S if self.message_timeout is None else self.message_timeout

    @property
    def message_timeout_ms(self) -> int | None:
        """The message timeout as an init carries it."""
        return None if self.message_timeout is None else to_milliseconds(self.message_timeout)

    def _faults(self) -> Iterator[str]:
        yield from _url_faults(self.url)
        yield from _name_faults("topology", self.topology)
        yield from _name_faults("spout_task", self.spout_task)
        if not isinstance(self.fail_raised, bool):
            yield f"fail_raised must be True or False, not {self.fail_raised!r}"
        yield from _text_faults(token=self.token, query_id=self.query_id)
        yield from _seconds_faults("message_timeout", self.created_message_timeout, least=0.1, most=MAX_TIMEOUT_S)
        yield from _seconds_faults("dedupe_window", self.dedupe_window, least=0.1, most=MAX_RETENTION_S)
        yield from _seconds_faults("retention", self.retention, least=1, most=MAX_RETENTION_S)
        yield from _seconds_faults("heartbeat_for", self.heartbeat_for, least=0, most=MAX_TIMEOUT_S)
        yield from _seconds_faults("retry_timeout", self.retry_timeout, least=0, most=MAX_RETRY_S)
        if self.startup_timeout is not None:
            yield from _seconds_faults("startup_timeout", self.startup_timeout, least=0, most=MAX_RETRY_S)
        yield from self._order_faults()

    def _order_faults(self) -> Iterator[str]:
        times = (self.created_message_timeout, self.dedupe_window, self.retention)
        if not all(_is_number(time) for time in times):
            return
        if self.dedupe_window < self.created_message_timeout:
            yield "dedupe_window must not be shorter than message_timeout: a batch that runs again would count twice"
        if self.retention < self.dedupe_window:
            yield "retention must not be shorter than dedupe_window: a repeated ack would find no root"


def _url_faults(url: Any) -> Iterator[str]:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        yield f"url must be an http or https address, as http://127.0.0.1:8700, not {url!r}"


def _name_faults(option: str, value: Any) -> Iterator[str]:
    try:
        fields.name(value)
    except ValueError as error:
        yield f"{option} {error}, not {value!r}"


def _text_faults(**values: Any) -> Iterator[str]:
    for option, value in values.items():
        if value is not None and not (isinstance(value, str) and value):
            yield f"{option} must be a text that is not empty, or None"


def _seconds_faults(option: str, value: Any, *, least: float, most: float) -> Iterator[str]:
    if not _is_number(value):
        yield f"{option} must be a number of seconds, not {value!r}"
    elif not least <= value <= most:
        yield f"{option} must be from {least:g} to {most:g} seconds, not {value:g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
