"""Times for people: lengths, and how long ago something was."""

import argparse
import re
import time
from datetime import datetime

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_SIZES_MS = {"": 1_000, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d+(?:\.\d+)?) ?(s|m|min|h|d|)", re.ASCII)


def span(milliseconds: float) -> str:
    """Write a length of time in its largest whole unit: ``7 min``; ``0 s`` for what is shorter than a second."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{int(milliseconds // size)} {unit}"
    return "0 s"


def ago(at_ms: int | None, now_ms: float) -> str:
    """Write how long ago a time was; a dash for none."""
    return "-" if at_ms is None else f"{span(now_ms - at_ms)} ago"


def clock_time(at_ms: int | None) -> str:
    """Write a time of this machine's time zone; a dash for none."""
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def when(at_ms: int | None, now_ms: float) -> str | None:
    """Write a time of this machine's time zone, and how long ago or ahead it is; None for none."""
    if at_ms is None:
        return None
    distance = f"in {span(at_ms - now_ms)}" if at_ms > now_ms else ago(at_ms, now_ms)
    return f"{clock_time(at_ms)} ({distance})"


def read_span(text: str) -> int:
    """Read a length of time, ``90``, ``90s``, ``5m``, ``2h``, ``1d``, as milliseconds; an argparse type."""
    if not (found := _SPAN.fullmatch(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time; write 90s, 5m, 2h or 1d")
    return int(float(found[1]) * _SIZES_MS[found[2]])


def read_time(text: str) -> int:
    """Read a time, as Unix milliseconds: a length of time ago, or ISO 8601; an argparse type."""
    if _SPAN.fullmatch(text):
        return int(time.time() * 1000) - read_span(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; write how long ago (2h), or 2026-01-31T12:00:00Z"
        ) from None
