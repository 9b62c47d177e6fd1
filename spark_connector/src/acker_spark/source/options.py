"""The options of ``format("acker")``, in camelCase as Kafka's, checked together."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import httpx
from acker_protocol.wire import fields

from acker_spark.errors import InvalidOptions

OPTIONS: dict[str, str] = {
    "url": "the acker's address, such as http://127.0.0.1:8700",
    "topology": "the topology of the spout task",
    "spoutTask": "the spout task whose completions to read",
    "token": "the API key, of scope spout, if the acker needs one",
    "startingOffsets": 'where a new query begins: earliest, latest or {"cursor": "…"} [earliest]',
    "maxCompletionsPerTrigger": "how many completions a batch takes at most [10000]",
    "failOnDataLoss": "whether missing completions of a batch that is read again are an error [true]",
    "startupTimeoutMs": "how long a query or a read waits for an acker that has never answered it [5000]",
    "pollTimeoutMs": "how long to wait for the first completion when there is none [1000]",
}
REQUIRED = ("url", "topology", "spoutTask")
MAX_COMPLETIONS = range(1, 1_000_001)
STARTUP_MS = range(300_001)
EARLIEST = ""
"""The cursor of the oldest completion that is not released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one source. The representation leaves the key out."""

    url: str
    topology: str
    spout_task: str
    token: str | None = field(default=None, repr=False)
    starting_offsets: str | None = EARLIEST
    """The cursor after which a new query begins; None for the latest."""
    max_completions_per_trigger: int = 10_000
    fail_on_data_loss: bool = True
    startup_timeout_ms: int = 5_000
    """How long a driver waits for the first answer; its tasks wait for an acker that has answered the driver."""
    poll_timeout_ms: int = 1_000

    @property
    def startup_timeout(self) -> float:
        """The seconds that a driver waits for the first answer."""
        return self.startup_timeout_ms / 1000


def read_options(options: Mapping[str, str]) -> SourceOptions:
    """Read the options that Spark was given, in any case. Raises `InvalidOptions` with all faults at once."""
    names = {name.lower(): name for name in OPTIONS}
    given = {names.get(name.lower(), name): value for name, value in options.items()}
    read: dict[str, Any] = {}
    faults = [_unknown(name) for name in given if name not in OPTIONS]
    faults += [f"{name} is missing: {OPTIONS[name]}" for name in REQUIRED if name not in given]
    for name in OPTIONS.keys() & given:
        try:
            read[_FIELDS[name]] = _CHECKS.get(name, str)(given[name])
        except ValueError as error:
            faults.append(f"{name} {error}")
    if faults:
        raise InvalidOptions([f'format("acker"): {fault}' for fault in sorted(faults)])
    return SourceOptions(**read)


def _unknown(name: str) -> str:
    names = {known.lower(): known for known in OPTIONS}
    near = get_close_matches(name.lower().replace("_", ""), names, n=1)
    hint = f"did you mean {names[near[0]]}?" if near else f"the options are {', '.join(OPTIONS)}"
    return f"there is no option {name}, {hint}"


def _url(text: str) -> str:
    try:
        address = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ValueError(f"is not a URL: {error}") from None
    if address.scheme not in ("http", "https") or not address.host:
        raise ValueError(f"must be an http or https URL, not {text!r}")
    return text


def _number(allowed: range) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) not in allowed:
            raise ValueError(f"must be a whole number from {allowed.start} to {allowed.stop - 1}, not {text!r}")
        return int(text)

    return read


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not {text!r}")
    return text.lower() == "true"


def _offsets(text: str) -> str | None:
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else None
    try:
        return fields.text(json.loads(text)["cursor"])
    except (ValueError, TypeError, KeyError):
        raise ValueError(f'must be earliest, latest or {{"cursor": "…"}}, not {text!r}') from None


_FIELDS = {
    "url": "url",
    "topology": "topology",
    "spoutTask": "spout_task",
    "token": "token",
    "startingOffsets": "starting_offsets",
    "maxCompletionsPerTrigger": "max_completions_per_trigger",
    "failOnDataLoss": "fail_on_data_loss",
    "startupTimeoutMs": "startup_timeout_ms",
    "pollTimeoutMs": "poll_timeout_ms",
}
_CHECKS: dict[str, Callable[[str], Any]] = {
    "url": _url,
    "topology": fields.name,
    "spoutTask": fields.name,
    "startingOffsets": _offsets,
    "maxCompletionsPerTrigger": _number(MAX_COMPLETIONS),
    "failOnDataLoss": _boolean,
    "startupTimeoutMs": _number(STARTUP_MS),
    "pollTimeoutMs": _number(fields.WAIT_MS),
}
