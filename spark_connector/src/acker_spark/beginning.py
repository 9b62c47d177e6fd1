"""Knows how the roots of a batch are begun, and how it is seen that somebody else has begun them.

The first root of a batch, its leader, is begun with one edge more, the batch's *claim*, which is acked in the same
step. When the batch is run again its claim is a `duplicate`; that of any other query is not, and is taken back. A
batch that was refused plants a *flag*, an early root that nobody begins, since its claim is a `duplicate` from then on.
A process that dies between these steps leaves a tree that times out, never one that is done too early.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acker_protocol.ids import derive_edge, draw_id
from acker_protocol.operations import Ack, Fail, Init, Operation, OperationState

from acker_spark.errors import AnotherQuery, NoRoom

if TYPE_CHECKING:
    from acker_client import OperationResult

    from acker_spark.deliveries import Claim, Delivery
    from acker_spark.line import Line
    from acker_spark.options import Options

REFUSED = "refused: another query tracks roots of this batch"


def begin(line: "Line", options: "Options", claim: "Claim", deliveries: Sequence["Delivery"]) -> int:
    """Begin the roots of a batch; give how many were new. Raises `AnotherQuery`, `NoRoom`."""
    if not deliveries:
        return 0
    leader, *others = (_init(one, options) for one in deliveries)
    ours = _begin_leader(line, claim, leader)
    answers = line.send(others)
    _refuse_unplaced(answers)
    if not ours and (held := [one for one in answers if one.state is OperationState.DUPLICATE]):
        _refuse(line, claim, (answer.operation for answer in answers if answer.state is OperationState.PENDING), leader)
        raise _another(held[0].operation)
    return sum(1 for answer in answers if answer.state is OperationState.PENDING) + (not ours)


def _begin_leader(line: "Line", claim: "Claim", leader: Init) -> bool:
    """Begin the leader; give whether this batch has been begun before."""
    edge = _derived(claim, leader.root_id, "claim")
    first = replace(leader, ack_val=leader.ack_val ^ edge)
    begun, claimed = line.send([first, Ack(root_id=leader.root_id, ack_val=edge, edge_id=edge)])
    if (
        begun.state in (OperationState.DUPLICATE, OperationState.CONFLICT)
        and claimed.state is not OperationState.DUPLICATE
    ):
        line.send([Ack(root_id=leader.root_id, ack_val=edge, edge_id=draw_id()), *_planted(claim, leader)])
        raise _another(leader)
    _refuse_unplaced([begun])
    if begun.state is OperationState.PENDING:
        return False
    if line.root_is_known(_flag(claim, leader)):
        raise _another(leader)
    return True


def _refuse(line: "Line", claim: "Claim", begun: Iterable[Operation], leader: Init) -> None:
    """Let go what was begun for nothing.

    The flag first and by itself: a batch that was cut off here, run again, would take what had failed for its own work.
    """
    line.send(_planted(claim, leader))
    fails = [Fail(root_id=one.root_id, reason=REFUSED) for one in (leader, *begun)]
    line.send(fails)


def _planted(claim: "Claim", leader: Init) -> list[Operation]:
    flag = _flag(claim, leader)
    return [Ack(root_id=flag, ack_val=flag, edge_id=flag)]


def _flag(claim: "Claim", leader: Init) -> int:
    return _derived(claim, leader.root_id, "refused")


def _derived(claim: "Claim", root_id: int, name: str) -> int:
    return derive_edge(root_id=root_id, parent_edge=claim.batch_id, component=claim.query_id, name=name)


def _init(one: "Delivery", options: "Options") -> Init:
    return Init(
        root_id=one.root_id,
        spout_task=options.spout_task,
        ack_val=one.ack_val,
        message_id=one.message_id,
        message_timeout_ms=options.message_timeout_ms,
    )


def _refuse_unplaced(answers: Iterable["OperationResult"]) -> None:
    for answer in answers:
        if answer.state in (OperationState.MAX_SPOUT_PENDING, OperationState.MAILBOX_FULL, OperationState.STORE_FULL):
            raise NoRoom(f"the roots of this batch found no place, up to the end of their time: {answer.state}")
        if answer.state is OperationState.CONFLICT:
            raise _another(answer.operation)


def _another(message: Operation) -> AnotherQuery:
    named = f"message id {message.message_id!r}" if isinstance(message, Init) else f"root {message.root_id:016x}"
    return AnotherQuery(
        f"another query tracks these roots: that of {named} was begun elsewhere and is not done. Give each query a "
        "spout task of its own; where a message can come again before it is done, give its attempt to root(). Where no "
        "other query can have begun it, this batch had, and can no longer tell: its program or its source gives other "
        "rows now, or the dedupe window was over when it was run again. Then start it again when that root is done or "
        "has timed out, and give the Acker a longer dedupe_window"
    )
