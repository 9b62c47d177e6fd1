"""Knows how the rows of a batch are held: computed once while it is worked on, as long as no machine is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.storagelevel import StorageLevel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def held(frame: "DataFrame") -> "Iterator[DataFrame]":
    """Hold a frame in Spark's cache for a block; one that the program has cached itself stays there afterwards.

    What is given is another frame to Spark, which knows a cached one by its plan and sees through a mere ``select``: a
    function that lets its rows go (``unpersist``) would let go those of its batch.
    """
    theirs = frame.storageLevel != StorageLevel.NONE
    kept = frame if theirs else frame.persist()
    try:
        yield kept.where("true")
    finally:
        if not theirs:
            kept.unpersist()
