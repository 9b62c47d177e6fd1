"""Knows how what a batch has come to is told to the acker: one delta for each edge, which it applies once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_protocol.operations import Ack, Fail, Operation, OperationState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from acker_client import OperationResult

    from acker_spark.ledger import Book


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """What one batch told the acker: roots begun, roots failed, edges acked, edges sent on; how many came too late."""

    query_id: str
    batch_id: int
    begun: int
    acked: int
    failed: int
    sent: int
    late: int


def deltas(book: "Book") -> list[Operation]:
    """Write the deltas of a batch: a root that failed fails and nothing else, every other edge is acked by its name.

    An ack before the fail could complete the tree. The edge is the name under which the acker dedupes: whatever a batch
    that is run again changes, it is applied once.
    """
    fails = (Fail(root_id=root, reason=reason) for root, reason in book.failed.items())
    acks = (
        Ack(root_id=root, ack_val=value, edge_id=edge)
        for (root, edge), value in book.edges.items()
        if root not in book.failed
    )
    return [*fails, *acks]


def late(answers: "Iterable[OperationResult]") -> int:
    """Count the deltas that came too late: their root was done.

    Only this batch can end its trees well, so the root had timed out or failed elsewhere; or the message came again,
    within the retention, when its tree was done.
    """
    return sum(1 for answer in answers if answer.state is OperationState.FINISHED)
