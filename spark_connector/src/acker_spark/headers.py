"""The header ``Acker-Anchors`` of rows that arrive and of rows that leave, as native expressions of Spark only.

``00 <topology> <root>-<edge>[,<root>-<edge>…]``: docs/anchors.md describes it. A row without the header is not tracked.
"""

from typing import TYPE_CHECKING

from acker_protocol.routes import ANCHORS as NAME
from pyspark.sql import functions as F

from acker_spark._batch.columns import ANCHORS, ANCHORS_TYPE, EDGE, ROOT, column, digits, identity, type_of
from acker_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VERSION = "00"
MAX_ANCHORS = 64
KAFKA_TYPE = "array<struct<key:string,value:binary>>"
"""The type of Kafka's column ``headers``."""

_ANCHOR = "(?!0{16})[0-9a-f]{16}-(?!0{16})[0-9a-f]{16}"
_WHITE_SPACE = " \t\n\r\f\v"
_INVALID = f"the header {NAME} of a row is invalid, or of another topology than "


def read_header(frame: "DataFrame", headers: "str | Column", topology: str) -> "Column":
    """Return the anchors in a column of headers, as an array of `ANCHORS_TYPE`; empty for a row without the header.

    The column is Kafka's ``headers``, a map from name to value, or the value itself. An invalid header, or one of
    another topology, ends the job with a message that shows it. Raises `UsageError` for a column of another type.
    """
    value = F.btrim(_value(column(headers), type_of(frame, headers)), F.lit(_WHITE_SPACE))
    name = topology.replace(".", r"\.")
    form = rf"\A{VERSION} {name} {_ANCHOR}(,{_ANCHOR}){{0,{MAX_ANCHORS - 1}}}\z"
    texts = F.split(F.substring_index(value, " ", -1), ",")
    is_valid = value.rlike(form) & (F.size(F.array_distinct(texts)) == F.size(texts))
    invalid = F.raise_error(F.concat(F.lit(f"{_INVALID}'{topology}': "), value))
    anchors = F.transform(texts, _read_anchor).cast(ANCHORS_TYPE)
    return F.when(value.isNull(), F.array().cast(ANCHORS_TYPE)).when(is_valid, anchors).otherwise(invalid)


def write_header(topology: str, frame: "DataFrame | None" = None) -> "Column":
    """Return the value of the header for a row that leaves; null for a row that is not tracked.

    Rows with several anchors need ``frame``, which says so. More than 64 anchors of a row end the job.
    """
    prefix = F.lit(f"{VERSION} {topology} ")
    if frame is None or ANCHORS not in frame.columns:
        return F.concat(prefix, _write_anchor(F.col(ROOT), F.col(EDGE)))
    texts = F.transform(ANCHORS, lambda one: _write_anchor(one["root"], one["edge"]))
    count = F.size(ANCHORS)
    too_many = F.raise_error(
        F.concat(F.lit(f"a message carries at most {MAX_ANCHORS} anchors, and a row has "), count.cast("string"))
    )
    value = F.concat(prefix, F.concat_ws(",", texts))
    return F.when(count > MAX_ANCHORS, too_many).when(count > 0, value)


def write_kafka_headers(topology: str, frame: "DataFrame | None", others: "str | Column | None") -> "Column":
    """Return Kafka's array of headers with the header, among ``others``, whose own anchors are left out."""
    value = write_header(topology, frame)
    own = F.array(F.struct(F.lit(NAME).alias("key"), value.cast("binary").alias("value")))
    pairs = F.when(value.isNotNull(), own).otherwise(F.array()).cast(KAFKA_TYPE)
    if others is None:
        return pairs
    kept = F.filter(F.coalesce(column(others), F.array()).cast(KAFKA_TYPE), lambda pair: ~_is_ours(pair["key"]))
    return F.concat(kept, pairs)


def _value(headers: "Column", kind: str) -> "Column":
    """Return the value of the header, null where it is missing. A header that appears twice ends the job.

    One that is there with a null, which Kafka and maps allow, is the text ``null``: no valid value.
    """
    if kind in ("string", "binary"):
        return headers.cast("string")
    if kind.startswith("map<string,"):
        headers = F.map_entries(headers)
    elif not kind.startswith("array<struct<key:string,value:"):
        raise UsageError(f"headers= needs the value of {NAME}, a map or Kafka's headers ({KAFKA_TYPE}), not {kind}")
    found = F.transform(F.filter(headers, lambda pair: _is_ours(pair["key"])), lambda pair: pair["value"])
    many = F.raise_error(F.concat(F.lit(f"a row has {NAME} more than once: "), F.size(found).cast("string")))
    value = F.coalesce(F.get(found, F.lit(0)).cast("string"), F.lit("null"))
    return F.when(F.size(found) > 1, many).when(F.size(found) == 1, value)


def _is_ours(key: "Column") -> "Column":
    return F.lower(key) == NAME.lower()


def _read_anchor(text: "Column") -> "Column":
    root, edge = (identity(F.substring(text, at, 16), is_text=True) for at in (1, 18))
    return F.struct(root.alias("root"), edge.alias("edge"), F.lit(None).cast("string").alias("reason"))


def _write_anchor(root: "Column", edge: "Column") -> "Column":
    return F.concat(digits(root), F.lit("-"), digits(edge))
