"""Records in the column of the message ids for which spout task a frame's roots were made."""

from typing import TYPE_CHECKING

from acker_spark._batch.columns import MESSAGE
from acker_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from acker_spark.options import SparkAckerOptions

OWNER = "acker"


def with_owner(message: "Column", options: "SparkAckerOptions") -> "Column":
    """Return the column of message ids with the spout task in its metadata."""
    return message.alias(MESSAGE, metadata={OWNER: _name(options)})


def check_owner(frame: "DataFrame", options: "SparkAckerOptions") -> None:
    """Raise `UsageError` for roots that were made for another spout task, where the metadata is left."""
    marks = (field.metadata for field in frame.schema.fields if field.name == MESSAGE)
    found = [mark[OWNER] for mark in marks if OWNER in mark]
    if any(name != _name(options) for name in found):
        raise UsageError(
            f"these roots were made by root() of an acker for {found[0]}, but this one is for {_name(options)}, which "
            "would get their completions: take root() and the function of the batch from one acker"
        )


def _name(options: "SparkAckerOptions") -> str:
    return f"spout task {options.spout_task!r} of topology {options.topology!r}"
