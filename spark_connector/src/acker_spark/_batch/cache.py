"""Caches the rows of a batch, so that Spark computes them once while the batch runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.storagelevel import StorageLevel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def cached(frame: "DataFrame") -> "Iterator[DataFrame]":
    """Cache a frame for a block; a frame that the program has cached itself stays cached.

    The block gets a frame with another plan: Spark finds a cached frame by its plan, and sees through a mere
    ``select``, so an ``unpersist`` by the function of a batch would drop the batch itself.
    """
    theirs = frame.storageLevel != StorageLevel.NONE
    kept = frame if theirs else frame.persist()
    try:
        yield kept.where("true")
    finally:
        if not theirs:
            kept.unpersist()
