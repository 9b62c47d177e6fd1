"""Acking for Spark: the sender of each message learns when everything that a streaming job made of it is done."""

import acker_spark._pyspark  # noqa: F401 - before all that imports PySpark
from acker_spark import functions
from acker_spark._batch.collector import BatchCollector
from acker_spark._batch.columns import ANCHORS as ANCHORS_COLUMN
from acker_spark._batch.columns import EDGE as EDGE_COLUMN
from acker_spark._batch.columns import ROOT as ROOT_COLUMN
from acker_spark._batch.run import BatchReport
from acker_spark.acker import SparkAcker
from acker_spark.errors import (
    AckerError,
    BatchClosed,
    ConcurrentQuery,
    DataLoss,
    DuplicateKey,
    IncompatibleTopology,
    InvalidOptions,
    MissingAnchors,
    NondeterministicBatch,
    NullMessageId,
    PendingLimit,
    QueryIdRequired,
    QueryStopped,
    UsageError,
)
from acker_spark.options import SparkAckerOptions

__all__ = [
    "ANCHORS_COLUMN",
    "EDGE_COLUMN",
    "ROOT_COLUMN",
    "AckerError",
    "BatchClosed",
    "BatchCollector",
    "BatchReport",
    "ConcurrentQuery",
    "DataLoss",
    "DuplicateKey",
    "IncompatibleTopology",
    "InvalidOptions",
    "MissingAnchors",
    "NondeterministicBatch",
    "NullMessageId",
    "PendingLimit",
    "QueryIdRequired",
    "QueryStopped",
    "SparkAcker",
    "SparkAckerOptions",
    "UsageError",
    "functions",
]
