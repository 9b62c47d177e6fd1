"""Emits the roots of a batch, and finds out whether another query has emitted them.

The first root of a batch, its *leader*, is emitted with one edge more, the batch's *claim*, which is acked in the same
request. When the batch runs again its claim is a `duplicate`; the claim of another query is not, and is taken back. A
batch that was refused writes a *refusal marker*, an early root that is never emitted, because its claim is a
`duplicate` from then on. A process that dies between these steps leaves a tree that times out, never one that is
acked too early.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acker_protocol.ids import derive_edge, draw_id
from acker_protocol.operations import Ack, Fail, Init, Operation, OperationState

from acker_spark.errors import ConcurrentQuery, PendingLimit

if TYPE_CHECKING:
    from acker_client import OperationResult

    from acker_spark._batch.edges import BatchEdge, BatchId
    from acker_spark._batch.sender import OperationSender
    from acker_spark.options import SparkAckerOptions

REFUSED = "refused: another query tracks roots of this batch"


def begin(
    sender: "OperationSender",
    options: "SparkAckerOptions",
    batch: "BatchId",
    edges: Sequence["BatchEdge"],
    *,
    on_sent: Callable[[int], object] = lambda _: None,
) -> int:
    """Emit the roots of a batch, and return the number of new ones; ``on_sent`` as in `OperationSender.send`.

    Raises `ConcurrentQuery`, `PendingLimit`.
    """
    if not edges:
        return 0
    leader, *others = (_init(one, options) for one in edges)
    has_begun = _begin_leader(sender, batch, leader)
    on_sent(1)
    results = sender.send(others, on_sent=on_sent)
    _check_admitted(results)
    duplicates = [one.operation for one in results if one.state is OperationState.DUPLICATE]
    new = [one.operation for one in results if one.state is OperationState.PENDING]
    if duplicates and not has_begun:
        _refuse(sender, batch, leader, new)
        raise _concurrent(duplicates[0])
    return len(new) + (not has_begun)


def _begin_leader(sender: "OperationSender", batch: "BatchId", leader: Init) -> bool:
    """Emit the leader, and return whether this batch has emitted it before. Raises `ConcurrentQuery`."""
    edge = _derived_edge(batch, leader.root_id, "claim")
    first = replace(leader, ack_val=leader.ack_val ^ edge)
    emitted, claimed = sender.send([first, Ack(root_id=leader.root_id, ack_val=edge, edge_id=edge)])
    existed = emitted.state in (OperationState.DUPLICATE, OperationState.CONFLICT)
    if existed and claimed.state is not OperationState.DUPLICATE:
        take_back = Ack(root_id=leader.root_id, ack_val=edge, edge_id=draw_id())
        sender.send([take_back, *_refusal_marker(batch, leader)])
        raise _concurrent(leader)
    _check_admitted([emitted])
    if emitted.state is OperationState.PENDING:
        return False
    if sender.root_is_known(_marker_id(batch, leader)):
        raise _concurrent(leader)
    return True


def _refuse(sender: "OperationSender", batch: "BatchId", leader: Init, new: Iterable[Operation]) -> None:
    """Fail the roots that this batch has emitted in vain.

    The refusal marker goes first and alone: a batch that is cut off here and runs again would take failed roots for
    its own.
    """
    sender.send(_refusal_marker(batch, leader))
    fails = [Fail(root_id=one.root_id, reason=REFUSED) for one in (leader, *new)]
    sender.send(fails)


def _refusal_marker(batch: "BatchId", leader: Init) -> list[Operation]:
    marker = _marker_id(batch, leader)
    return [Ack(root_id=marker, ack_val=marker, edge_id=marker)]


def _marker_id(batch: "BatchId", leader: Init) -> int:
    return _derived_edge(batch, leader.root_id, "refused")


def _derived_edge(batch: "BatchId", root_id: int, name: str) -> int:
    return derive_edge(root_id=root_id, parent_edge=batch.batch_id, component=batch.query_id, name=name)


def _init(edge: "BatchEdge", options: "SparkAckerOptions") -> Init:
    return Init(
        root_id=edge.root_id,
        spout_task=options.spout_task,
        ack_val=edge.ack_val,
        message_id=edge.message_id,
        message_timeout_ms=options.message_timeout_ms,
    )


def _check_admitted(results: Iterable["OperationResult"]) -> None:
    for result in results:
        if result.state in (OperationState.MAX_SPOUT_PENDING, OperationState.MAILBOX_FULL, OperationState.STORE_FULL):
            raise PendingLimit(
                f"roots of this batch were refused with {result.state} until the end of the retries; "
                "start the query again when there is space",
                retryable=True,
            )
        if result.state is OperationState.CONFLICT:
            raise _concurrent(result.operation)


def _concurrent(operation: Operation) -> ConcurrentQuery:
    name = f"message id {operation.message_id!r}" if isinstance(operation, Init) else f"root {operation.root_id:016x}"
    return ConcurrentQuery(
        f"another query tracks these roots: the root of {name} was emitted elsewhere and is pending. Give each query a "
        "spout task of its own; where a message can come again while its root is pending, give its attempt to root(). "
        "If no other query can have emitted it, this batch has, and no longer knows: its program or its source gives "
        "other rows now, or the dedupe window was over when it ran again. In that case start it again when that root "
        "is done or has timed out, and set a longer dedupe_window"
    )
