"""The answers to a replayed request: the present states of its roots, without effect."""

from acker_protocol.operations import EndOn, Fail, Init, Operation, OperationState, ResetTimeout
from acker_protocol.states import Finished, State, Tree


def replay_operation(state: State, operation: Operation, *, refused: bool) -> OperationState:
    """Answer one operation of a request that was applied before. Twin of ``replay_operation`` in transitions.lua.

    ``refused`` says that the first run refused this operation, so that its caller has to send it in a new request: an
    init is answered ``max_spout_pending`` unless its root is pending or finished, an ack or a fail ``store_full``
    unless its root is finished.
    """
    if isinstance(state, Finished):
        return OperationState.FINISHED
    if isinstance(operation, Init):
        return _replayed_init(state, operation, refused=refused)
    if refused:
        return OperationState.STORE_FULL
    if state is None:
        # rule: a repeated operation on a forgotten root is a duplicate
        return OperationState.DUPLICATE
    if state.spout_task is None:
        # rule: a repeated reset is answered unknown while its root is early
        return OperationState.UNKNOWN if isinstance(operation, ResetTimeout) else OperationState.EARLY
    # rule: a repeated fail of a pending root is a duplicate, unless it may have ended an edge alone
    if isinstance(operation, Fail) and (operation.is_plain or state.end_on is EndOn.FIRST_FAIL):
        return OperationState.DUPLICATE
    return OperationState.PENDING


def _replayed_init(state: Tree | None, operation: Init, *, refused: bool) -> OperationState:
    if state is None or state.spout_task is None:
        # rule: a repeated init that was refused is refused again
        return OperationState.MAX_SPOUT_PENDING if refused else OperationState.DUPLICATE
    # rule: a repeated init is a conflict unless it made the root pending
    return OperationState.PENDING if state.emitted_by(operation) else OperationState.CONFLICT
