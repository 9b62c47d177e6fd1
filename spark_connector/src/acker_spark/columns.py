"""Knows the columns in which rows carry their anchors, as native expressions of Spark only.

Ids are hashes of what they are made from, so that a batch that is run again gives the same ones; they are the 64 bits
of a ``bigint``, which has a sign where the contract's ids have none.
"""

from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from acker_spark.errors import NotOfThisBatch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROOT, EDGE = "_ack_root", "_ack_edge"
"""The anchor of a row: its root id, and the edge id by which the acker waits for it."""

FOLLOWING = "tinyint"
MESSAGE = "_ack_message"
"""The message id, a text, in rows whose roots this job begins; without a value, a boolean, in rows it has received,
and a ``tinyint`` in those of a fork whose roots begin where another way of it ends.

By its type a frame that lost it in a select is told from one that was received: nobody would ever begin its roots.
"""

TAG = "_ack_tag"
"""Tells the rows made of one delivery of a message from those of another delivery of the same message, by `tag`."""

PARENT = "_ack_parent"

ANCHORS = "_ack_anchors"
"""Many anchors of one row, behind a join or a window: an array of root, edge and the reason for which it failed."""

REASON, DONE, FORK = "_ack_reason", "_ack_done", "_ack_fork"
ROW_LEVEL = (ANCHORS, REASON, DONE, FORK)
"""Columns of rows that were worked on at row level: why it failed, whether it is done, whether other sinks share it."""

OWN = (ROOT, EDGE, MESSAGE, TAG, *ROW_LEVEL)
"""All columns that are the connector's."""

_ID = "bigint"
_HALF = 2**32
_UNHASHED = ("map", "variant", "geography", "geometry")
"""Of these types Spark makes no hash."""
_UNSIGNED = 2**64 - 1


def unsigned(value: int) -> int:
    """Read a ``bigint`` as an id."""
    return value & _UNSIGNED


def signed(value: int) -> int:
    """Write an id as a ``bigint``."""
    return value - 2**64 if value >= 2**63 else value


def hashed(*parts: "Column | str") -> "Column":
    """Give an id made from these, texts being literals; never zero, which is no id."""
    columns = [F.lit(part) if isinstance(part, str) else part for part in parts]
    value = F.xxhash64(*columns)
    return F.when(value == 0, F.lit(1).cast(_ID)).otherwise(value)


def tag(frame: "DataFrame") -> "Column":
    """Give a tag: half of it is made of what a row holds, and half of its place, for rows that hold the same.

    So the ways of a fork, which are computed apart, keep the same one of two deliveries that differ, but for columns
    with maps and other things that Spark does not hash.
    """
    names = Counter(name.lower() for name in frame.columns)
    once = [one.name for one in frame.schema.fields if names[one.name.lower()] == 1 and _is_hashed(one.dataType)]
    content = F.xxhash64(F.lit(""), *(F.col(f"`{name.replace('`', '``')}`") for name in once))
    place = (F.rand() * _HALF).cast(_ID)
    return content.bitwiseAND(F.lit(-_HALF)).bitwiseOR(place)


def _is_hashed(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_hashed(one.dataType) for one in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_hashed(kind.elementType)
    return kind.typeName() not in _UNHASHED


def column(named: "Column | str") -> "Column":
    """Take a column by its name, or as it is."""
    return F.col(named) if isinstance(named, str) else named


def identity(named: "Column | str", *, is_text: bool) -> "Column":
    """Read an id from a column that holds it as ``bigint``, or as 16 hex digits (None for what is neither)."""
    value = column(named)
    if not is_text:
        return value.cast(_ID)
    high, low = (F.conv(F.substring(value, at, 8), 16, 10).cast(_ID) for at in (1, 9))
    return F.when(value.rlike("^[0-9a-f]{16}$"), F.shiftleft(high, 32).bitwiseOR(low))


def digits(value: "Column") -> "Column":
    """Write an id as 16 hex digits."""
    return F.lower(F.lpad(F.hex(value), 16, "0"))


def header(topology: str) -> "Column":
    """Give the value of the header ``Acker-Anchors`` for a row."""
    anchor = F.concat(digits(F.col(ROOT)), F.lit("-"), digits(F.col(EDGE)))
    return F.concat(F.lit(f"00 {topology} "), anchor)


def need(frame: "DataFrame", *names: str, who: str) -> None:
    """Refuse a frame without these columns. Raises `NotOfThisBatch`."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise NotOfThisBatch(
            f"{who} needs rows with their anchors, and these have no {' and no '.join(missing)}: "
            "take the frame from root() or received(), and keep these columns in every select"
        )
