"""Windows whose rows carry anchors; none may be open for longer than a root may be pending."""

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from acker_spark._batch.anchors import share_edges
from acker_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_UNITS_S = {"second": 1.0, "minute": 60.0, "hour": 3_600.0, "day": 86_400.0, "week": 604_800.0, "millisecond": 0.001}
_PART = re.compile(r"(\d+)\s+([a-z]+)\s*")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration(text: str) -> float:
    """Read a duration as Spark's windows take it, ``10 minutes`` or ``1 hour 30 minutes``, in seconds.

    Raises `UsageError`.
    """
    written = text.strip().lower()
    parts = [(int(count), unit.removesuffix("s")) for count, unit in _PART.findall(written)]
    if not _WHOLE.fullmatch(written) or any(unit not in _UNITS_S for _, unit in parts):
        raise UsageError(f"{text!r} is not a duration such as '10 minutes' or '1 hour 30 minutes'")
    return sum(count * _UNITS_S[unit] for count, unit in parts)


def check_window(duration: str, delay: str, *, message_timeout: float) -> None:
    """Raise `UsageError` for a window that is open for longer than the message timeout in seconds, as Storm does."""
    wanted = parse_duration(duration) + parse_duration(delay)
    if wanted > message_timeout:
        raise UsageError(
            f"a window of {duration} with a watermark {delay} behind is open for {wanted:g} s, and a root is pending "
            f"for {message_timeout:g} s at most: it would time out before its window is emitted. Make the message "
            "timeout longer, or the window shorter"
        )


def windowed(frame: "DataFrame", time: str, duration: str, slide: str | None, delay: str) -> "DataFrame":
    """Give rows their windows in the column ``window``, each copy of a row with its share of the row's edge.

    Raises `UsageError` where the duration is no multiple of the slide: copies could not be counted.
    """
    marked = frame.withWatermark(time, delay)
    # Whole microseconds: in seconds, 0.3 / 0.1 is not 3.
    duration_us, slide_us = (round(parse_duration(text) * 1_000_000) for text in (duration, slide or duration))
    if slide is None or slide_us == duration_us:
        return _in_windows(marked, F.window(time, duration))
    if not slide_us or duration_us % slide_us:
        raise UsageError(f"the duration {duration!r} must be a multiple of the slide {slide!r}")
    rows = _in_windows(marked, F.window(time, duration, slide))
    since = F.unix_micros(F.col(time)) - F.unix_micros(F.col("window.start"))
    at = F.floor(since / F.lit(slide_us)).cast("int")
    return share_edges(rows, at, F.lit(duration_us // slide_us))


def _in_windows(frame: "DataFrame", window: "Column") -> "DataFrame":
    """Add the column, by ``select``: with ``withColumn`` it would lose its watermark under Spark Connect."""
    return frame.drop("window").select("*", window.alias("window"))
