"""Knows what a repeated request is answered: its roots' present states, without effect."""

from acker_protocol.operations import Fail, Init, Operation, OperationState, ResetTimeout
from acker_protocol.states import Finished, State, Tree


def replay_operation(state: State, message: Operation, *, refused_inits: int) -> OperationState:
    """Answer one message of a request that was applied before.

    ``places_refused`` is not zero where the first run refused inits for want of a place. Those were not recorded as
    done; the caller has to send them in a new request, so an init that is not there is told so again.
    """
    if isinstance(state, Finished):
        return OperationState.FINISHED
    if isinstance(message, Init):
        return _replayed_init(state, message, refused_inits)
    if state is None:
        return OperationState.DUPLICATE
    if state.spout_task is None:
        return OperationState.UNKNOWN if isinstance(message, ResetTimeout) else OperationState.EARLY
    return OperationState.DUPLICATE if isinstance(message, Fail) else OperationState.PENDING


def _replayed_init(state: Tree | None, init: Init, refused_inits: int) -> OperationState:
    if state is None or state.spout_task is None:
        return OperationState.MAX_SPOUT_PENDING if refused_inits else OperationState.DUPLICATE
    return OperationState.PENDING if state.emitted_by(init) else OperationState.CONFLICT
