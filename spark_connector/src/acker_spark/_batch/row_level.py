"""Runs one batch at row level: the state of each root is computed first, and shipped when the function returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_protocol.operations import Ack, Fail, Operation

from acker_spark._batch.anchors import is_active
from acker_spark._batch.cache import cached
from acker_spark._batch.columns import ANCHORS, EDGE, MESSAGE, OWN, ROOT, require_columns, unsigned
from acker_spark._batch.edges import BatchEdge, BatchId, batch_edge, begins_here, of_root, without_second_deliveries
from acker_spark._batch.row_state import COPIED, row_state
from acker_spark._batch.run import BatchRun
from acker_spark.errors import DuplicateKey

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from acker_spark._batch.client_base import _ClientBase

    Function = Callable[[DataFrame, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeState:
    """The state of one root after a batch: the XOR of the edges that end in it, and why the root failed."""

    edge: BatchEdge
    ended: int
    reason: str | None

    def delta(self) -> Operation | None:
        """Return the delta, under the edge of this batch: it is applied once, however the batch is partitioned.

        Where the batch emits the root that edge is part of the tree, and ends with it. A fail ends the same edges as an
        ack: a root that ends when all have ended waits for the others.
        """
        own = self.edge
        value = self.ended if own.message_id is None else self.ended ^ own.edge_id
        if self.reason is not None:
            return Fail(root_id=own.root_id, reason=self.reason, ack_val=value, edge_id=own.edge_id)
        return Ack(root_id=own.root_id, ack_val=value, edge_id=own.edge_id) if value else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFunction:
    """The argument of ``foreachBatch`` at row level: calls ``function(rows, batch_id)`` with the active rows.

    When it returns, the rows that ``ends`` selects are acked; those that failed fail their roots.
    """

    acker: "_ClientBase"
    function: "Function"
    ends: "Callable[[DataFrame], Column]"
    kept_columns: tuple[str, ...] = ()

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Run one batch."""
        run = BatchRun.of(self.acker, batch, batch_id)
        if ANCHORS not in batch.columns:
            require_columns(batch, ROOT, EDGE, MESSAGE, caller="acker.foreach_rows")
        with run.logged(), cached(batch) as frame, run.exclusive():
            self._run(run, frame)

    def _run(self, run: BatchRun, frame: "DataFrame") -> None:
        states, rows = tree_states(frame, run.batch, self.ends)
        edges = [one.edge for one in states]
        kept = [name for name in self.kept_columns if ANCHORS not in frame.columns or name == ANCHORS]
        with run.keep_alive(edges, begins=begins_here(frame)) as emitted:
            active = rows.where(is_active(rows)).drop(*(name for name in OWN if name not in kept))
            with run.fail_raised(edges):
                self.function(active, run.batch.batch_id)
            deltas = [delta for one in states if (delta := one.delta()) is not None]
            run.ship(deltas, emitted=emitted, forwarded=0)


def tree_states(
    frame: "DataFrame", batch: BatchId, ends: "Callable[[DataFrame], Column]"
) -> "tuple[list[TreeState], DataFrame]":
    """Return the state of each root, and the rows without second deliveries. Raises `DuplicateKey`."""
    found = row_state(frame, batch, ends)
    rows = without_second_deliveries(frame, found, ROOT) if of_root(frame) else frame
    if rows is not frame:
        found = row_state(rows, batch, ends)
    begins = begins_here(frame)
    states = [_tree_state(found, at, begins=begins) for at in range(len(found[ROOT]))]
    _check_copies(found)
    return sorted(states, key=lambda one: one.edge.root_id), rows


def _check_copies(found: dict[str, list[Any]]) -> None:
    """Raise `DuplicateKey` for rows that leave with one edge: the first ack of it elsewhere would end the tree."""
    copied = [unsigned(root) for root, copies in zip(found[ROOT], found[COPIED], strict=True) if copies]
    if copied:
        raise DuplicateKey(
            f"rows of {len(copied)} roots, as {copied[0]:016x}, would leave as copies with one edge: the first ack "
            "would end the tree. Make rows of a row with af.explode, and forward a row before it is joined"
        )


def _tree_state(found: dict[str, list[Any]], at: int, *, begins: bool) -> TreeState:
    row = {name: values[at] for name, values in found.items()}
    first = None if row["own"] is None or row["start"] is None else row["own"] ^ row["start"]
    own = batch_edge(row[ROOT], row["own"], row[MESSAGE], begins=begins, ack_val=first)
    return TreeState(edge=own, ended=unsigned(row["ended"] or 0), reason=row["why"])
