"""The acker's law: what one message, or time passing, does to one root. Pure; time is an argument.

A root is in one of four states::

    None ──ack, fail──► early ──init──► pending ──► finished ──retention──► None
      └──────────────────init────────────┘ ▲  │         ▲
                                           └──┘ ack,    │ ack val 0 and none outstanding: acked
                                           reset timeout│ fail, now or while early: failed
                                                        │ deadline passed: timed out
    early ──one message timeout without an init──► None (dropped, nobody to tell)

A `Tree` without spout task is early, with one it is pending. The XOR is Storm's (``Acker.java``); what each message
does out of order, repeated or late is Acker's own and is listed in docs/semantics.md. The same law is written in
``acker_service/redis/lua/law.lua``; a stateful property test holds the two equal.
"""

from dataclasses import replace

from acker_protocol.operations import Ack, CompletionRecord, Fail, Init, Operation, OperationState, Outcome
from acker_protocol.states import Finished, State, TopologyRules, Transition, Tree

MAX_SPAN_MS = 2**32 - 1
"""A deadline is at most this long after a root's first message (49 days), however often its timeout is reset."""

_INT32 = range(-(2**31), 2**31)
OPERATION_STATES = {
    Outcome.ACKED: OperationState.ACKED,
    Outcome.FAILED: OperationState.FAILED,
    Outcome.TIMED_OUT: OperationState.FINISHED,
}


def apply_operation(
    state: State, operation: Operation, *, now_ms: int, rules: TopologyRules, free_slots: int | None = None
) -> Transition:
    """Apply one message to a root; ``room`` is how many more pending roots its spout task may have (None: any)."""
    state = forget_expired(state, now_ms=now_ms, rules=rules)
    if isinstance(state, Finished):
        return Transition(state=state, operation_state=OperationState.FINISHED, outcome=state.outcome)
    if not rules.tracked:
        return apply_untracked(operation, now_ms, rules)
    match operation:
        case Init():
            return init(state, operation, now_ms, rules, free_slots)
        case Ack():
            return ack(state, operation, now_ms, rules)
        case Fail():
            return fail(state, operation, now_ms, rules)
        case _:
            return reset_timeout(state, now_ms, rules)


def expire(state: State, *, now_ms: int) -> tuple[State, CompletionRecord | None]:
    """Let time pass: time out a pending root that is overdue, drop an early one (None, without a completion)."""
    if not isinstance(state, Tree) or now_ms <= state.due_ms:
        return state, None
    if state.spout_task is None:
        return None, None
    step = finish(state, Outcome.TIMED_OUT, now_ms)
    return step.state, step.completion


def forget_expired(state: State, *, now_ms: int, rules: TopologyRules) -> State:
    """Forget what is no longer remembered: outcomes after the retention, acked edges after the dedupe window."""
    if isinstance(state, Finished):
        return state if is_remembered(state.at_ms, now_ms, rules.retention_ms) else None
    if isinstance(state, Tree) and state.edges:
        edges = {e for e in state.edges if is_remembered(e[1], now_ms, rules.dedupe_window_ms)}
        return replace(state, edges=frozenset(edges))
    return state


def apply_untracked(message: Operation, now_ms: int, rules: TopologyRules) -> Transition:
    if not isinstance(message, Init):
        return Transition(state=None, operation_state=OperationState.FINISHED, outcome=Outcome.ACKED)
    tree = emit(new_tree(message, now_ms, rules), message, now_ms, rules)
    return finish(tree, Outcome.ACKED, now_ms)


def init(state: Tree | None, init: Init, now_ms: int, rules: TopologyRules, free_slots: int | None) -> Transition:
    if state is not None and state.spout_task is not None:
        return Transition(
            state=state, operation_state=OperationState.DUPLICATE if state.emitted_by(init) else OperationState.CONFLICT
        )
    step = resolve(emit(state or new_tree(init, now_ms, rules), init, now_ms, rules), now_ms)
    if step.operation_state is OperationState.PENDING and free_slots is not None and free_slots <= 0:
        return Transition(state=state, operation_state=OperationState.MAX_SPOUT_PENDING)
    return step


def ack(state: Tree | None, ack: Ack, now_ms: int, rules: TopologyRules) -> Transition:
    if not ack.ack_val:
        return Transition(state=state, operation_state=current_state(state))
    tree = state or new_tree(ack, now_ms, rules)
    edges = tree.edges
    if rules.dedupe_window_ms and ack.edge_id is not None:
        if any(edge == ack.edge_id for edge, _ in edges):
            return Transition(state=state, operation_state=OperationState.DUPLICATE)
        edges |= {(ack.edge_id, now_ms)}
    tree = replace(touch_progress_deadline(tree, now_ms), edges=edges)
    return resolve(xor_in(tree, ack.ack_val, ack.outstanding), now_ms)


def fail(state: Tree | None, fail: Fail, now_ms: int, rules: TopologyRules) -> Transition:
    tree = state or new_tree(fail, now_ms, rules)
    return resolve(replace(tree, failure=tree.failure or fail), now_ms)


def reset_timeout(state: Tree | None, now_ms: int, rules: TopologyRules) -> Transition:
    if state is None or state.spout_task is None:
        return Transition(state=state, operation_state=OperationState.UNKNOWN)
    timeout = state.message_timeout_ms or rules.message_timeout_ms
    tree = replace(state, deadline_ms=deadline_after(state, now_ms, timeout))
    return Transition(state=touch_progress_deadline(tree, now_ms), operation_state=OperationState.PENDING)


def resolve(tree: Tree, now_ms: int) -> Transition:
    """Say what a changed tree has come to: the one place where a root is found to be done."""
    if tree.spout_task is None:
        return Transition(state=tree, operation_state=OperationState.EARLY)
    if tree.failure is not None:
        return finish(tree, Outcome.FAILED, now_ms)
    if tree.ack_val == 0 and not tree.outstanding:
        return finish(tree, Outcome.ACKED, now_ms)
    return Transition(state=tree, operation_state=OperationState.PENDING, unbalanced=tree.ack_val == 0)


def finish(tree: Tree, outcome: Outcome, now_ms: int) -> Transition:
    assert tree.spout_task is not None
    completion = CompletionRecord(
        root_id=tree.root_id,
        spout_task=tree.spout_task,
        outcome=outcome,
        message_id=tree.message_id,
        reason=tree.failure.reason if tree.failure else None,
        component=tree.failure.component if tree.failure else None,
        started_ms=tree.started_ms,
        at_ms=now_ms,
    )
    return Transition(
        state=Finished(outcome=outcome, at_ms=now_ms),
        operation_state=OPERATION_STATES[outcome],
        outcome=outcome,
        completion=completion,
    )


def new_tree(message: Operation, now_ms: int, rules: TopologyRules) -> Tree:
    """Begin a tree at its first message, of any kind. Until its init has come it has one message timeout."""
    return Tree(root_id=message.root_id, started_ms=now_ms, deadline_ms=now_ms + rules.message_timeout_ms)


def emit(tree: Tree, init: Init, now_ms: int, rules: TopologyRules) -> Tree:
    """Put into a tree what its init says."""
    progress = rules.progress_timeout_ms if init.progress_timeout_ms is None else init.progress_timeout_ms
    tree = replace(
        tree,
        spout_task=init.spout_task,
        message_id=init.message_id,
        message_timeout_ms=init.message_timeout_ms,
        progress_timeout_ms=progress,
        deadline_ms=deadline_after(tree, now_ms, init.message_timeout_ms or rules.message_timeout_ms),
    )
    return xor_in(touch_progress_deadline(tree, now_ms), init.ack_val, init.outstanding)


def xor_in(tree: Tree, ack_val: int, outstanding: int | None) -> Tree:
    """XOR a value in; count beside it, unless this or an earlier message left the count out or it leaves 32 bits."""
    return replace(tree, ack_val=tree.ack_val ^ ack_val, outstanding=add_outstanding(tree.outstanding, outstanding))


def add_outstanding(count: int | None, more: int | None) -> int | None:
    if count is None or more is None:
        return None
    return count + more if count + more in _INT32 else None


def touch_progress_deadline(tree: Tree, now_ms: int) -> Tree:
    if not tree.progress_timeout_ms:
        return tree
    return replace(tree, idle_deadline_ms=deadline_after(tree, now_ms, tree.progress_timeout_ms))


def deadline_after(tree: Tree, now_ms: int, timeout_ms: int) -> int:
    return tree.started_ms + min(max(now_ms + timeout_ms - tree.started_ms, 0), MAX_SPAN_MS)


def current_state(state: Tree | None) -> OperationState:
    return OperationState.EARLY if state is None or state.spout_task is None else OperationState.PENDING


def is_remembered(at_ms: int, now_ms: int, window_ms: int) -> bool:
    """Whether something of then is remembered now: for its slice of one window's length and the whole next one."""
    return window_ms > 0 and now_ms // window_ms - at_ms // window_ms <= 1
