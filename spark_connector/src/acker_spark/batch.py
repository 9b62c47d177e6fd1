"""Knows the course of one batch at batch level: its roots begin, its function runs, its deltas are shipped."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_spark import deliveries, shipping
from acker_spark.course import Course
from acker_spark.errors import Misuse
from acker_spark.held import held
from acker_spark.ledger import Book, Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from acker_spark.connected import Connected

    Function = Callable[[DataFrame, int, Ledger], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFunction:
    """What is given to ``foreachBatch``: calls ``function(batch, batch_id, ledger)``, and acks what it was given.

    When the function raises nothing is sent: the query ends, and when it is started again the batch is run anew.
    """

    acker: "Connected"
    function: "Function"

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Run one batch."""
        course = Course.of(self.acker, batch, batch_id)
        with held(deliveries.owned(batch, course.claim)) as frame, course.alone():
            self._run(course, frame)

    def _run(self, course: Course, frame: "DataFrame") -> None:
        taken, rows = deliveries.taken(frame)
        book = Book.of(taken)
        with course.attended(taken, here=deliveries.begins_here(frame)) as begun:
            self._call(rows, course.claim.batch_id, book)
            course.ship(shipping.deltas(book), begun=begun, sent=book.sent)

    def _call(self, rows: "DataFrame", batch_id: int, book: Book) -> None:
        ledger = Ledger(book)
        try:
            self.function(rows, batch_id, ledger)
        finally:
            ledger.close()


def checked(function: Any, *rest: Any, verb: str, takes: str) -> None:
    """Raise `Misuse` for what is no function of a batch, and where the verb itself was given to Spark."""
    names = takes.split(", ")
    if rest or not callable(function):
        raise Misuse(f"not foreachBatch(acker.{verb}): write foreachBatch(acker.{verb}(f)) with f({takes})")
    try:
        inspect.signature(function).bind(*names)
    except TypeError as fault:
        raise Misuse(f"the function of acker.{verb} is called as f({takes}): {fault}") from None
