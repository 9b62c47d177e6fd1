"""Knows what the function of a batch declares of its rows: failed, or emitted to be acked elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from acker_spark import columns
from acker_spark.columns import EDGE, MESSAGE, PARENT, ROOT, TAG, need, unsigned
from acker_spark.errors import EqualKeys, LedgerClosed, Misuse, NotOfThisBatch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from acker_spark.deliveries import Delivery

LONGEST_REASON = 1_024


@dataclass(slots=True, kw_only=True)
class Book:
    """What was declared so far, by root and edge."""

    edges: dict[tuple[int, int], int]
    failed: dict[int, str] = field(default_factory=dict)
    sent: int = 0

    @classmethod
    def of(cls, deliveries: "Iterable[Delivery]") -> "Book":
        """Begin with every delivery acked: its own edge is taken out of the tree."""
        return cls(edges={(one.root_id, one.edge_id): one.edge_id for one in deliveries})

    def refuse_strangers(self, pairs: Iterable[tuple[int, int]], *, who: str) -> None:
        """Raise `NotOfThisBatch` for an anchor that this batch did not take on itself."""
        for root, edge in pairs:
            if (root, edge) not in self.edges:
                raise NotOfThisBatch(f"{who} was given a row of root {root:016x}, which is not of this batch")


class Ledger:
    """What becomes of the rows of one batch: acked when the function returns, unless it says otherwise here.

    What a verb is given is computed at once, so that what the function does later changes nothing of it, and once.
    Raises `LedgerClosed` when the batch is over.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self._stages: set[str] = set()
        self._open = True

    def keep(self, frame: "DataFrame") -> "DataFrame":
        """Compute a frame now and once, and give what came out: go on with that. A charge in a column is charged once.

        A cache would not do: Spark computes it anew when a file is written that the frame was read from.
        """
        self._refuse_late("keep")
        return frame.localCheckpoint()

    def fail(self, rows: "DataFrame", reason: "str | Column") -> None:
        """Fail the roots of these rows. ``reason`` is a text, or a column that holds it. Nothing else of them is sent.

        Raises `NotOfThisBatch` for rows that have no anchors, or those of another batch.
        """
        self._refuse_late("fail")
        need(rows, ROOT, EDGE, who="ledger.fail")
        why = F.lit(reason) if isinstance(reason, str) else reason
        told = self.keep(rows).select(ROOT, EDGE, F.substring(why.cast("string"), 1, LONGEST_REASON).alias("why"))
        found = told.groupBy(ROOT, EDGE).agg(F.max("why").alias("why")).toArrow().to_pydict()
        pairs = _pairs(found[ROOT], found[EDGE])
        self._book.refuse_strangers(pairs, who="ledger.fail")
        for (root, _), text in zip(pairs, found["why"], strict=True):
            self._book.failed.setdefault(root, text or "failed")

    def emit(self, rows: "DataFrame", stage: str, key: "Sequence[str | Column]") -> "DataFrame":
        """Give rows that leave for another system a new edge each, left open until it is acked there.

        Write what this gives. ``key`` tells the rows of one root apart, also when the batch is run again; ``stage`` is
        the name of where they go, and each can be used once. Raises `EqualKeys`, `NotOfThisBatch`.
        """
        self._refuse_late("emit")
        need(rows, ROOT, EDGE, who="ledger.emit")
        self._take(stage, key)
        new = columns.hashed(F.col(ROOT), F.col(PARENT), stage, *map(columns.column, key))
        out = self.keep(rows.withColumn(PARENT, F.col(EDGE)).withColumn(EDGE, new))
        self._enter(out, stage)
        return out.drop(PARENT, MESSAGE, TAG)

    def close(self) -> None:
        """End it."""
        self._open = False

    def _enter(self, out: "DataFrame", stage: str) -> None:
        counts = (F.count(F.lit(1)).alias("rows"), F.count_distinct(EDGE).alias("edges"))
        found = out.groupBy(ROOT, PARENT).agg(F.bit_xor(EDGE).alias("xor"), *counts).toArrow().to_pydict()
        pairs = _pairs(found[ROOT], found[PARENT])
        self._book.refuse_strangers(pairs, who="ledger.emit")
        for (root, _), rows, edges in zip(pairs, found["rows"], found["edges"], strict=True):
            if rows != edges:
                raise EqualKeys(
                    f"{rows} rows of root {root:016x} are emitted to {stage!r} with only {edges} keys: equal edges "
                    "cancel each other, and the tree would be done while both are on their way"
                )
        for pair, xor, rows in zip(pairs, found["xor"], found["rows"], strict=True):
            self._book.edges[pair] ^= unsigned(xor)
            self._book.sent += rows

    def _take(self, stage: str, key: "Sequence[str | Column]") -> None:
        if isinstance(key, str) or not key:
            raise Misuse('ledger.emit needs a key of at least one column, as key=["order_id"]')
        if stage in self._stages:
            raise EqualKeys(f"stage {stage!r} was emitted to before in this batch: equal edges would cancel each other")
        self._stages.add(stage)

    def _refuse_late(self, verb: str) -> None:
        if not self._open:
            raise LedgerClosed(f"ledger.{verb} was called when its batch was over: its acks have been sent")


def _pairs(roots: list[int | None], edges: list[int | None]) -> list[tuple[int, int]]:
    found = zip(roots, edges, strict=True)
    pairs = [(unsigned(root), unsigned(edge)) for root, edge in found if root is not None and edge is not None]
    if len(pairs) < len(roots):
        raise NotOfThisBatch("a row without anchors (an outer join makes such ones) was given to the ledger")
    return pairs
