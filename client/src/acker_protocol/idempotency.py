"""The answers to a replayed request: the present states of its roots, without effect."""

from acker_protocol.operations import Fail, Init, Operation, OperationState, ResetTimeout
from acker_protocol.states import Finished, State, Tree


def replay_operation(state: State, operation: Operation, *, refused_inits: int) -> OperationState:
    """Answer one operation of a request that was applied before. Twin of ``replay_operation`` in transitions.lua.

    ``refused_inits`` is the number of inits that the first run did not admit. Only this number is remembered, not which
    inits they were. So, unless it is 0, every init whose root is not pending is answered as refused, and the caller has
    to send it in a new request.
    """
    if isinstance(state, Finished):
        return OperationState.FINISHED
    if isinstance(operation, Init):
        return _replayed_init(state, operation, refused_inits)
    if state is None:
        return OperationState.DUPLICATE
    if state.spout_task is None:
        return OperationState.UNKNOWN if isinstance(operation, ResetTimeout) else OperationState.EARLY
    return OperationState.DUPLICATE if isinstance(operation, Fail) else OperationState.PENDING


def _replayed_init(state: Tree | None, operation: Init, refused_inits: int) -> OperationState:
    if state is None or state.spout_task is None:
        return OperationState.MAX_SPOUT_PENDING if refused_inits else OperationState.DUPLICATE
    return OperationState.PENDING if state.emitted_by(operation) else OperationState.CONFLICT
