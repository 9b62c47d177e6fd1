"""Acking for Spark: attaches a job to an acker, so that the sender of each message hears when all of it is done."""

from acker_spark.acker import Acker
from acker_spark.errors import (
    AckerSparkError,
    AnotherQuery,
    EqualKeys,
    LedgerClosed,
    Misuse,
    NoQueryId,
    NoRoom,
    NotOfThisBatch,
    NullMessageId,
    RowsChanged,
    UnfitTopology,
    WrongOptions,
)
from acker_spark.ledger import Ledger
from acker_spark.rows import fail_rows, filter_rows, fork, gathered, join_anchors, live, split_rows
from acker_spark.shipping import Shipped

__all__ = [
    "Acker",
    "AckerSparkError",
    "AnotherQuery",
    "EqualKeys",
    "Ledger",
    "LedgerClosed",
    "Misuse",
    "NoQueryId",
    "NoRoom",
    "NotOfThisBatch",
    "NullMessageId",
    "RowsChanged",
    "Shipped",
    "UnfitTopology",
    "WrongOptions",
    "fail_rows",
    "filter_rows",
    "fork",
    "gathered",
    "join_anchors",
    "live",
    "split_rows",
]
