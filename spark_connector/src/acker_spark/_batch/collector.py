"""What the function of a batch declares about its rows: failed, or emitted to be acked elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from acker_protocol.operations import Ack, Fail, Operation
from acker_protocol.wire.fields import REASON_CHARACTERS
from pyspark.sql import functions as F

from acker_spark._batch import keys
from acker_spark._batch.columns import (
    ANCHORS,
    EDGE,
    MESSAGE,
    ROOT,
    TAG,
    column,
    each_anchor,
    hashed,
    require_columns,
    unsigned,
)
from acker_spark.errors import BatchClosed, DuplicateKey, MissingAnchors, UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from acker_spark._batch.edges import BatchEdge

PARENT, PARENTS = "acker_parent", "acker_parents"


@dataclass(slots=True, kw_only=True)
class BatchState:
    """What was declared so far, by root and edge: the value of each edge, and why it failed."""

    edges: dict[tuple[int, int], int]
    failed: dict[tuple[int, int], str] = field(default_factory=dict)
    forwarded: int = 0

    @classmethod
    def of(cls, edges: "Iterable[BatchEdge]") -> "BatchState":
        """Begin with every edge acked: it is XORed out of its tree."""
        return cls(edges={(one.root_id, one.edge_id): one.edge_id for one in edges})

    def check_anchors(self, pairs: Iterable[tuple[int, int]], *, caller: str) -> None:
        """Raise `MissingAnchors` for an anchor that this batch did not take on."""
        for root, edge in pairs:
            if (root, edge) not in self.edges:
                raise MissingAnchors(f"{caller} was given a row of root {root:016x}, which is not of this batch")

    def deltas(self) -> list[Operation]:
        """Return the deltas of the batch: a fail for each failed edge, then an ack for every other one.

        Each edge has one, also of a root that has failed: that may end when all of its edges have ended. The acker
        dedupes by the edge: whatever changes in a batch that runs again, each delta is applied once.
        """
        fails = (
            Fail(root_id=root, reason=reason, ack_val=self.edges[root, edge], edge_id=edge)
            for (root, edge), reason in self.failed.items()
        )
        acks = (
            Ack(root_id=root, ack_val=value, edge_id=edge)
            for (root, edge), value in self.edges.items()
            if (root, edge) not in self.failed
        )
        return [*fails, *acks]


class BatchCollector:
    """Says what becomes of the rows of one batch: all are acked when the function returns, but for those declared here.

    Each method computes its rows at once, and once: what the function does later changes nothing about them. Each
    raises `BatchClosed` after the end of the batch.
    """

    def __init__(self, state: BatchState) -> None:
        self._state = state
        self._stages: set[str] = set()
        self._is_open = True

    def materialize(self, frame: "DataFrame") -> "DataFrame":
        """Compute a frame now, once, and return the result: a charge in a column is charged once.

        A cache is not enough: Spark computes it again when a file that the frame reads is written.
        """
        self._check_open("materialize")
        return frame.localCheckpoint()

    def fail(self, rows: "DataFrame", reason: "str | Column") -> None:
        """Fail the edges of these rows, and with them their roots, unless those end when all have ended.

        ``reason`` is a text, or a column. Raises `MissingAnchors` for rows without anchors, or of another batch.
        """
        self._check_open("fail")
        require_columns(rows, ROOT, EDGE, caller="collector.fail")
        text = (F.lit(reason) if isinstance(reason, str) else reason).cast("string")
        failed = each_anchor(self.materialize(rows), F.substring(text, 1, REASON_CHARACTERS).alias("why"))
        found = failed.groupBy(ROOT, EDGE).agg(F.max("why").alias("why")).toArrow().to_pydict()
        pairs = _pairs(found[ROOT], found[EDGE])
        self._state.check_anchors(pairs, caller="collector.fail")
        for pair, given in zip(pairs, found["why"], strict=True):
            self._state.failed.setdefault(pair, given or "failed")

    def emit(self, rows: "DataFrame", stage: str, key: "Sequence[str | Column]") -> "DataFrame":
        """Give rows that leave for another system a new edge each, which stays open until it is acked there.

        Write what this returns. ``key`` tells the rows of one root apart, also when the batch runs again; ``stage`` is
        the name of the place they go to, each used once in a batch. Raises `DuplicateKey`, `MissingAnchors`, and
        `UsageError` for a key that the plan makes anew when the batch runs again.
        """
        self._check_open("emit")
        require_columns(rows, ROOT, EDGE, caller="collector.emit")
        self._check_stage(stage, key)
        keys.check_stable(rows, *key, caller=f"the key of emit to {stage!r}")
        if ANCHORS in rows.columns:
            out = self.materialize(_with_new_anchors(rows, stage, key))
            pair = F.explode(F.arrays_zip(PARENTS, ANCHORS))
            each = out.select(pair.alias("one")).select(
                F.col(f"one.{PARENTS}.root").alias(ROOT),
                F.col(f"one.{PARENTS}.edge").alias(PARENT),
                F.col(f"one.{ANCHORS}.edge").alias(EDGE),
            )
            self._add_edges(each, stage)
            return out.drop(PARENTS, ROOT, EDGE, MESSAGE, TAG)
        new = hashed(F.col(ROOT), F.col(PARENT), stage, *map(column, key))
        out = self.materialize(rows.withColumn(PARENT, F.col(EDGE)).withColumn(EDGE, new))
        self._add_edges(out, stage)
        return out.drop(PARENT, MESSAGE, TAG)

    def close(self) -> None:
        """End the batch."""
        self._is_open = False

    def _add_edges(self, out: "DataFrame", stage: str) -> None:
        counts = (F.count(F.lit(1)).alias("rows"), F.count_distinct(EDGE).alias("edges"))
        found = out.groupBy(ROOT, PARENT).agg(F.bit_xor(EDGE).alias("xor"), *counts).toArrow().to_pydict()
        pairs = _pairs(found[ROOT], found[PARENT])
        self._state.check_anchors(pairs, caller="collector.emit")
        for (root, _), rows, edges in zip(pairs, found["rows"], found["edges"], strict=True):
            if rows != edges:
                raise DuplicateKey(
                    f"{rows} rows of root {root:016x} are emitted to {stage!r} with only {edges} keys: equal edges "
                    "cancel each other, and the tree would be acked too early. Add a column to key"
                )
        for pair, xor, rows in zip(pairs, found["xor"], found["rows"], strict=True):
            self._state.edges[pair] ^= unsigned(xor)
            self._state.forwarded += rows

    def _check_stage(self, stage: str, key: "Sequence[str | Column]") -> None:
        if isinstance(key, str) or not key:
            raise UsageError('collector.emit needs a key of at least one column, as key=["order_id"]')
        if stage in self._stages:
            raise DuplicateKey(
                f"stage {stage!r} was emitted to before in this batch: equal edges would cancel each other. "
                "Use another stage"
            )
        self._stages.add(stage)

    def _check_open(self, method: str) -> None:
        if not self._is_open:
            raise BatchClosed(f"collector.{method} was called after the end of its batch: its acks have been sent")


def _with_new_anchors(rows: "DataFrame", stage: str, key: "Sequence[str | Column]") -> "DataFrame":
    names = [column(one) for one in key]

    def renewed(one: "Column") -> "Column":
        return one.withField("edge", hashed(one["root"], one["edge"], stage, *names))

    distinct = rows.withColumn(PARENTS, F.array_distinct(ANCHORS))
    return distinct.withColumn(ANCHORS, F.transform(PARENTS, renewed))


def _pairs(roots: list[int | None], edges: list[int | None]) -> list[tuple[int, int]]:
    found = zip(roots, edges, strict=True)
    pairs = [(unsigned(root), unsigned(edge)) for root, edge in found if root is not None and edge is not None]
    if len(pairs) < len(roots):
        raise MissingAnchors("a row without anchors (an outer join makes such rows) was given to the collector")
    return pairs
