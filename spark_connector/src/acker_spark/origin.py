"""Knows for which spout task the roots of a frame were made: the column of their message ids says so."""

from typing import TYPE_CHECKING

from acker_spark.columns import MESSAGE
from acker_spark.errors import Misuse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from acker_spark.options import Options

MADE_FOR = "acker"


def marked(message: "Column", options: "Options") -> "Column":
    """Give the column of message ids with a mark of the spout task, in its metadata."""
    return message.alias(MESSAGE, metadata={MADE_FOR: _name(options)})


def refuse_foreign(frame: "DataFrame", options: "Options") -> None:
    """Refuse roots that were made for another spout task, where the mark is left. Raises `Misuse`."""
    marks = (field.metadata for field in frame.schema.fields if field.name == MESSAGE)
    found = [mark[MADE_FOR] for mark in marks if MADE_FOR in mark]
    if any(name != _name(options) for name in found):
        raise Misuse(
            f"these roots were made by root() of an acker for {found[0]}, and this one is for {_name(options)}, which "
            "would be told of them: take root() and the function of the batch from one acker"
        )


def _name(options: "Options") -> str:
    return f"spout task {options.spout_task!r} of topology {options.topology!r}"
