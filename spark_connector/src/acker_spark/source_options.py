"""Knows the options of ``format("acker")``: what each means, and everything that is wrong with those given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import httpx
from acker_client import UsageError
from acker_client.lowlevel import checked
from acker_protocol.wire import fields

OPTIONS: dict[str, str] = {
    "url": "the acker's address, such as http://127.0.0.1:8700",
    "topology": "whose completions to read",
    "spout_task": "whose completions to read; this query is its one reader",
    "token": "the API key, of scope spout, if the acker asks for one",
    "max_per_batch": "how many completions a batch takes at most [10000]",
    "wait_ms": "how long to wait for the first one when there is none [1000]",
}
NEEDED = ("url", "topology", "spout_task")
MAX_PER_BATCH = range(1, 1_000_001)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one source. The key is not shown."""

    url: str
    topology: str
    spout_task: str
    token: str | None = field(default=None, repr=False)
    max_per_batch: int = 10_000
    wait_ms: int = 1_000


def read_options(options: Mapping[str, str]) -> SourceOptions:
    """Read what Spark was given; the case of a name does not matter. Raises `UsageError` with all faults at once."""
    given = {name.lower(): value for name, value in options.items()}
    read: dict[str, Any] = {}
    faults = [_unknown(name) for name in given if name not in OPTIONS]
    faults += [f"{name} is missing: {OPTIONS[name]}" for name in NEEDED if name not in given]
    for name, value in given.items():
        try:
            read[name] = checked(name, _CHECKS.get(name, str), value)
        except UsageError as fault:
            faults.append(str(fault))
    if faults:
        raise UsageError(f'format("acker"): {"; ".join(faults)}')
    return SourceOptions(**read)


def _unknown(name: str) -> str:
    near = get_close_matches(name, OPTIONS, n=1)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(OPTIONS)}"
    return f"there is no option {name}, {meant}"


def _address(text: str) -> str:
    try:
        address = httpx.URL(text)
    except httpx.InvalidURL as fault:
        raise ValueError(f"is not a URL: {fault}") from None
    if address.scheme not in ("http", "https") or not address.host:
        raise ValueError(f"must be an http or https URL, not {text!r}")
    return text


def _number(allowed: range) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) not in allowed:
            raise ValueError(f"must be a whole number from {allowed.start} to {allowed.stop - 1}, not {text!r}")
        return int(text)

    return read


_CHECKS: dict[str, Callable[[str], Any]] = {
    "url": _address,
    "topology": fields.name,
    "spout_task": fields.name,
    "max_per_batch": _number(MAX_PER_BATCH),
    "wait_ms": _number(fields.WAIT_MS),
}
