"""The columns in which rows carry their anchors, as native expressions of Spark only.

Ids are hashes of their parts, so that a batch that runs again has the same ids. They are the 64 bits of a ``bigint``,
which is signed where the ids of the contract are unsigned.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from acker_spark.errors import MissingAnchors, UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROOT, EDGE = "acker_root", "acker_edge"
"""The anchor of a row: its root id, and the id of the edge that the acker waits for. ``bigint``.

No column begins with an underscore: functions of pandas get named tuples, in which such a column has another name.
"""

_OLD_NAMES = {"_ack_root": ROOT, "_ack_edge": EDGE}
"""How the columns of an anchor were named at first; rows that were written then are read."""

ANCHORS = "acker_anchors"
"""All anchors of a row that may have several (from a header, a join or a window): an array of `ANCHORS_TYPE`.

A row from a header has its first anchor in ROOT and EDGE as well: an edge belongs to one message, so the first anchor
identifies a message that is delivered twice.
"""

ANCHORS_TYPE = "array<struct<root:bigint,edge:bigint,reason:string>>"

MESSAGE = "acker_message"
"""The message id. Its type says where a row comes from, so that a frame that lost it in a select is noticed.

``string``: the batch emits the roots. ``boolean``: received, one anchor in ROOT and EDGE. `SEVERAL`: received, the
anchors are in ANCHORS. `FOLLOWING`: a further branch of a frame whose first branch emits the roots.
"""

FOLLOWING, SEVERAL = "tinyint", "smallint"

TAG = "acker_tag"
"""Distinguishes the rows of one delivery of a message from the rows of another delivery, see `tag`."""

REASON, DONE, BRANCH = "acker_reason", "acker_done", "acker_branch"
ROW_LEVEL = (REASON, DONE, BRANCH)
"""Columns of the row level: why a row failed, whether it is done, whether other sinks share its root."""

JOINED = "acker_left"
"""The anchors of the left side in a join by ``af.join``."""

OWN = (ROOT, EDGE, MESSAGE, TAG, ANCHORS, *ROW_LEVEL)
"""All columns of the connector."""

_ID = "bigint"
_HALF = 2**32
_UNHASHED = ("map", "variant", "geography", "geometry")
"""Spark cannot hash these types."""
_UNSIGNED = 2**64 - 1
_COLLATION = re.compile(" collate [A-Za-z0-9_]+")


def unsigned(value: int) -> int:
    """Convert a ``bigint`` to an id."""
    return value & _UNSIGNED


def hashed(*parts: "Column | str") -> "Column":
    """Return an id made from these parts, where a str is a literal; never zero, which is no id."""
    columns = [F.lit(part) if isinstance(part, str) else part for part in parts]
    value = F.xxhash64(*columns)
    return F.when(value == 0, F.lit(1).cast(_ID)).otherwise(value)


def tag(frame: "DataFrame") -> "Column":
    """Return a tag: the upper half is a hash of the row's values, the lower half is random, for rows with equal values.

    Branches of a frame are computed separately; because of the upper half all keep the same one of two deliveries that
    differ, except in columns that Spark cannot hash (maps, variants). Spark compiles code with ``rand`` again for
    each batch, because the code contains the seed; it does not compile ``zip_with``, nor what is inside.
    """
    names = Counter(name.lower() for name in frame.columns)
    once = [one.name for one in frame.schema.fields if names[one.name.lower()] == 1 and _is_hashed(one.dataType)]
    content = F.xxhash64(F.lit(""), *(F.col(f"`{name.replace('`', '``')}`") for name in once))
    one = F.array(F.lit(0))
    place = F.get(F.zip_with(one, one, lambda _a, _b: (F.rand() * _HALF).cast(_ID)), F.lit(0))
    return content.bitwiseAND(F.lit(-_HALF)).bitwiseOR(place)


def _is_hashed(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_hashed(one.dataType) for one in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_hashed(kind.elementType)
    return kind.typeName() not in _UNHASHED


def column(named: "Column | str") -> "Column":
    """Return a column by its name, or as it is."""
    return F.col(named) if isinstance(named, str) else named


def with_names(frame: "DataFrame", *wanted: "Column | str") -> "DataFrame":
    """Rename those of the wanted columns of an anchor that have their old names."""
    found, names = frame.columns, [name for name in wanted if isinstance(name, str)]
    old = {old: new for old, new in _OLD_NAMES.items() if new in names and new not in found and old in found}
    return frame.withColumnsRenamed(old) if old else frame


def type_of(frame: "DataFrame", named: "Column | str") -> str:
    """Return the type of a column, as ``DataFrame.dtypes`` writes it, without the collations of its texts."""
    return _COLLATION.sub("", dict(frame.select(column(named)).dtypes).popitem()[1])


def identity(value: "Column", *, is_text: bool) -> "Column":
    """Read an id from a ``bigint``, or from 16 hex digits (null for anything else).

    Digits are compared by their bytes: in some collations ``A`` equals ``a``.
    """
    if not is_text:
        return value.cast(_ID)
    text = value.cast("string")
    high, low = (F.conv(F.substring(text, at, 8), 16, 10).cast(_ID) for at in (1, 9))
    return F.when(text.rlike("^[0-9a-f]{16}$"), F.shiftleft(high, 32).bitwiseOR(low))


def digits(value: "Column") -> "Column":
    """Write an id as 16 hex digits."""
    return F.lower(F.lpad(F.hex(value), 16, "0"))


def each_anchor(frame: "DataFrame", *rest: "Column") -> "DataFrame":
    """Return a row for each anchor of each row, in ROOT and EDGE, with ``rest``; a row without anchors has none."""
    if ANCHORS not in frame.columns:
        return frame.select(ROOT, EDGE, *rest)
    each = frame.select(F.explode(F.array_distinct(ANCHORS)).alias("one"), *rest)
    others = [name for name in each.columns if name != "one"]
    return each.select(F.col("one.root").alias(ROOT), F.col("one.edge").alias(EDGE), *others)


def check_joined(frame: "DataFrame") -> None:
    """Raise `UsageError` for a frame that Spark's own ``join`` made of two frames with anchors."""
    found = Counter(frame.columns)
    if doubled := [name for name in OWN if found[name] > 1]:
        raise UsageError(
            f"these rows have {' and '.join(doubled)} twice, as a join of two frames from root() or received() makes "
            "them: join them with af.join(left, right, on), whose rows have the anchors of both"
        )


def require_columns(frame: "DataFrame", *names: str, caller: str) -> None:
    """Raise `MissingAnchors` for a frame without these columns, or with only the first of several anchors.

    Raises `UsageError` for a frame that has some of them twice.
    """
    check_joined(frame)
    missing = [name for name in names if name not in frame.columns]
    if dict(frame.dtypes).get(MESSAGE) == SEVERAL and ANCHORS not in frame.columns:
        missing.append(ANCHORS)
    if missing:
        raise MissingAnchors(
            f"{caller} needs rows with their anchors, and these have no {' and no '.join(missing)}: "
            "take the frame from root() or received(), and keep these columns in every select"
        )
