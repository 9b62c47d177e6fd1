"""Knows what a repeated request is answered: its roots' present states, without effect."""

from acker_protocol.messages import Fail, Init, Message, ResetTimeout, Word
from acker_protocol.states import Finished, State, Tree


def repeat(state: State, message: Message, *, places_refused: int) -> Word:
    """Answer one message of a request that was applied before.

    ``places_refused`` is not zero where the first run refused inits for want of a place. Those were not recorded as
    done; the caller has to send them in a new request, so an init that is not there is told so again.
    """
    if isinstance(state, Finished):
        return Word.FINISHED
    if isinstance(message, Init):
        return _repeat_init(state, message, places_refused)
    if state is None:
        return Word.DUPLICATE
    if state.spout_task is None:
        return Word.UNKNOWN if isinstance(message, ResetTimeout) else Word.EARLY
    return Word.DUPLICATE if isinstance(message, Fail) else Word.PENDING


def _repeat_init(state: Tree | None, init: Init, places_refused: int) -> Word:
    if state is None or state.spout_task is None:
        return Word.MAX_SPOUT_PENDING if places_refused else Word.DUPLICATE
    return Word.PENDING if state.emitted_by(init) else Word.CONFLICT
