"""The state machine of a root: what one operation, or time passing, does to it. Pure; time is an argument.

::

    state \\ operation  Init                  Ack                       Fail                      ResetTimeout
    unknown            pending acked refused early refused             early refused             unknown
    early              pending acked failed  early duplicate refused   early duplicate refused   unknown
                       refused
    pending            duplicate conflict    pending acked failed      failed pending duplicate  pending
                                             duplicate
    finished           finished, with the outcome, whatever the operation
    no ackers          acked refused         finished                  finished                  finished
    handler            init                  ack                       fail                      reset_timeout

Each cell has the states that answer an operation (`OperationState`); *refused* is one of `NOT_ADMITTED` and changes
nothing. A root is unknown (None), early (a `Tree` without spout task: its init has not arrived), pending (a `Tree` with
one) or `Finished`. Time moves it, too: `expire` times a pending root out and drops an early one, `forget_expired` makes
a finished root unknown after its retention.

The XOR is Storm's (``Acker.java``). What each operation does out of order, repeated or late is Acker's own; see
docs/semantics.md. ``acker_service/redis/lua/transitions.lua`` is the twin of this file, with the same functions under
the same names in the same order; a stateful property test compares the two. `apply_operation`, `note_tick`, `expire`
and `forget_expired` are the API; the other functions are their steps.
"""

from dataclasses import replace

from acker_protocol.operations import Ack, CompletionRecord, EndOn, Fail, Init, Operation, OperationState, Outcome
from acker_protocol.states import Finished, Gap, State, TopologyRules, Transition, Tree

__all__ = [
    "ACKED_TOO_OFTEN_IN_WINDOW",
    "ACKED_TOO_OFTEN_WITHOUT_WINDOW",
    "MAX_APART_MS",
    "MAX_SPAN_MS",
    "apply_operation",
    "expire",
    "forget_expired",
    "note_tick",
]

MAX_SPAN_MS = 2**32 - 1
"""A deadline is at most this long after a root's first operation (49 days), however often its timeout is reset."""

MAX_APART_MS = 2_000
"""The longest time between two ticks that leaves no gap."""

GAP_KEPT_MS = 60_000
"""How long a gap is kept at least, so that all that was due in it gets its grace."""

ACKED_TOO_OFTEN_WITHOUT_WINDOW = (
    "a tuple was acked more often than sent: it came twice and dedupe_window_ms is 0, "
    "or the ack that names it as a child is lost"
)
ACKED_TOO_OFTEN_IN_WINDOW = (
    "a tuple was acked more often than sent: it came twice and its acks name no edge_id or came after the "
    "dedupe window or in a full store, or the ack that names it as a child is lost"
)
"""Reasons of timeouts, of topologies without a dedupe window and with one."""

MAX_COUNTED = 2**32 - 1
"""Failed edges and dropped ones are counted up to this number."""

_INT32 = range(-(2**31), 2**31)
_STATES = {
    Outcome.ACKED: OperationState.ACKED,
    Outcome.FAILED: OperationState.FAILED,
    Outcome.TIMED_OUT: OperationState.FINISHED,
}


def apply_operation(
    state: State,
    operation: Operation,
    *,
    now_ms: int,
    rules: TopologyRules,
    free_slots: int | None = None,
    free_early: int | None = None,
    free_edges: int | None = None,
    is_full: bool = False,
    max_reason: int | None = None,
) -> Transition:
    """Apply one operation to the root that it names.

    ``now_ms`` is in Unix milliseconds. ``free_slots`` is the number of further pending roots that the spout task of an
    init may have, ``free_early`` the number of further early roots (0 in a full store), ``free_edges`` the number of
    further ended edges of the root that may be remembered, ``max_reason`` the number of characters that the root keeps
    of the reason of a fail (0: neither reason nor component); None means no limit. ``is_full`` says that the store is:
    there a pending root takes also the end of an edge that there is no room to remember.
    If the operation has no effect, the returned state equals the given one.
    """
    state = forget_expired(state, now_ms=now_ms, rules=rules)
    if isinstance(state, Finished):
        return Transition(state=state, operation_state=OperationState.FINISHED, outcome=state.outcome)
    # rule: without ackers nothing is tracked
    if not rules.tracked:
        return apply_untracked(operation, now_ms, rules)
    match operation:
        case Init():
            return init(state, operation, now_ms, rules, free_slots)
        case Ack():
            return ack(state, operation, now_ms, rules, free_early, free_edges, is_full=is_full)
        case Fail():
            failure = kept_failure(operation, max_reason)
            return fail(state, failure, now_ms, rules, free_early, free_edges, is_full=is_full)
        case _:  # ResetTimeout
            return reset_timeout(state, now_ms, rules)


def apply_untracked(operation: Operation, now_ms: int, rules: TopologyRules) -> Transition:
    """Apply an operation without ackers: an init is acked at once, every other operation finds its root finished."""
    if not isinstance(operation, Init):
        return Transition(state=None, operation_state=OperationState.FINISHED, outcome=Outcome.ACKED)
    tree = emit(new_tree(operation, now_ms, rules), operation, now_ms, rules)
    return finish(tree, Outcome.ACKED, now_ms)


def init(state: Tree | None, operation: Init, now_ms: int, rules: TopologyRules, free_slots: int | None) -> Transition:
    """Make an unknown or early root pending, unless it needs a slot and there is none."""
    if state is not None and state.spout_task is not None:
        same = state.emitted_by(operation)
        # rule: an init is a duplicate of the one that made the root pending, and a conflict with any other
        return Transition(state=state, operation_state=OperationState.DUPLICATE if same else OperationState.CONFLICT)
    transition = resolve(emit(state or new_tree(operation, now_ms, rules), operation, now_ms, rules), now_ms)
    # rule: an init that leaves its root pending needs a free slot
    if transition.operation_state is OperationState.PENDING and free_slots is not None and free_slots <= 0:
        return Transition(state=state, operation_state=OperationState.MAX_SPOUT_PENDING)
    return transition


def ack(
    state: Tree | None,
    operation: Ack,
    now_ms: int,
    rules: TopologyRules,
    free_early: int | None,
    free_edges: int | None,
    *,
    is_full: bool,
) -> Transition:
    """XOR an ack val in. An ack val of zero, or an edge that is remembered as ended, changes nothing.

    An ack of a dropped tuple is counted, also where its ack val is zero.
    """
    # rule: an ack val of zero changes nothing, unless the tuple was dropped
    if not (operation.ack_val or operation.dropped):
        return Transition(state=state, operation_state=current_state(state))
    # rule: an ack begins no tree beyond the bound on early roots
    if refused := early_refusal(state, free_early):
        return Transition(state=state, operation_state=refused)
    tree = state or new_tree(operation, now_ms, rules)
    # rule: an edge that is remembered is a duplicate
    if is_ended_before(tree, operation.edge_id):
        return Transition(state=state, operation_state=OperationState.DUPLICATE)
    # rule: an ack is refused whose edge there is no room to remember
    if refused := edge_refusal(state, operation.edge_id, rules, free_edges, is_full=is_full):
        return Transition(state=state, operation_state=refused)
    # rule: an edge that was dropped is counted, whatever its value
    if operation.dropped:
        tree = replace(tree, dropped=min(tree.dropped + 1, MAX_COUNTED))
    tree = end_edge(tree, operation, now_ms, rules, free_edges)
    return resolve(xor_in(tree, operation.ack_val, operation.outstanding), now_ms)


def fail(
    state: Tree | None,
    operation: Fail,
    now_ms: int,
    rules: TopologyRules,
    free_early: int | None,
    free_edges: int | None,
    *,
    is_full: bool,
) -> Transition:
    """Fail a root, or end an edge as failed where all edges have to end; an early root may be of either kind."""
    # rule: a fail begins no tree beyond the bound on early roots
    if refused := early_refusal(state, free_early):
        return Transition(state=state, operation_state=refused)
    tree = state or new_tree(operation, now_ms, rules)
    # rule: the first failure of a root that counts is kept
    failed = replace(tree, failure=tree.failure if has_counted(tree) else operation)
    if operation.ack_val is None:
        # rule: a plain fail ends a root of either kind
        return resolve(replace(failed, has_plain_fail=True), now_ms)
    # rule: any fail ends a root that ends at its first one, whatever became of its edge
    if tree.end_on is EndOn.FIRST_FAIL:
        return resolve(failed, now_ms)
    # rule: an early root keeps that it was failed, also by the fail of an edge that ended or has no room
    is_marked = state is not None and tree.end_on is None and tree.failure is None
    marked = failed if is_marked else state
    if is_ended_before(tree, operation.edge_id):
        # rule: such a fail of an early root is a duplicate if the root was failed before
        answer = OperationState.EARLY if is_marked else OperationState.DUPLICATE
        return Transition(state=marked, operation_state=answer)
    # rule: a fail is refused whose edge there is no room to remember
    if refused := edge_refusal(state, operation.edge_id, rules, free_edges, is_full=is_full):
        return Transition(state=marked, operation_state=refused)
    # rule: an edge that failed is counted, whatever its value
    failed = replace(failed, failures=min(tree.failures + 1, MAX_COUNTED))
    failed = end_edge(failed, operation, now_ms, rules, free_edges)
    return resolve(xor_in(failed, operation.ack_val, operation.outstanding), now_ms)


def reset_timeout(state: Tree | None, now_ms: int, rules: TopologyRules) -> Transition:
    """Return a pending root its whole message timeout again, from now on."""
    if state is None or state.spout_task is None:
        return Transition(state=state, operation_state=OperationState.UNKNOWN)
    # rule: a reset gives the root its own message timeout again, or else the topology's
    timeout = state.message_timeout_ms or rules.message_timeout_ms
    tree = replace(state, deadline_ms=deadline_after(state, now_ms, timeout))
    # rule: a reset gives the root its whole progress timeout again, too
    return Transition(state=touch_progress_deadline(tree, now_ms), operation_state=OperationState.PENDING)


def resolve(tree: Tree, now_ms: int) -> Transition:
    """Return the answer for a changed root. An operation finishes a tracked root only here."""
    # rule: a root without an init stays early
    if tree.spout_task is None:
        return Transition(state=tree, operation_state=OperationState.EARLY)
    # rule: a root that was failed ends failed, whatever its ack val is
    if tree.is_failed:
        return finish(tree, Outcome.FAILED, now_ms)
    # rule: a root has ended when its ack val is zero and no edge is outstanding
    if tree.ack_val == 0 and not tree.outstanding:
        # rule: a root with failed edges ends failed, and any other acked
        return finish(tree, Outcome.FAILED if tree.failures else Outcome.ACKED, now_ms)
    # rule: an ack val of zero with edges outstanding is unbalanced
    return Transition(state=tree, operation_state=OperationState.PENDING, unbalanced=tree.ack_val == 0)


def has_counted(tree: Tree) -> bool:
    """Whether a fail counted: that of an edge which had ended before, or for which there was no room, does not."""
    return tree.failures > 0 or tree.has_plain_fail


def finish(tree: Tree, outcome: Outcome, now_ms: int) -> Transition:
    """End a pending tree with an outcome and its completion."""
    assert tree.spout_task is not None
    # rule: a root that ended acked or timed out names no failure
    failure = tree.failure if outcome is Outcome.FAILED else None
    completion = CompletionRecord(
        root_id=tree.root_id,
        spout_task=tree.spout_task,
        outcome=outcome,
        message_id=tree.message_id,
        reason=failure.reason if failure else None,
        component=failure.component if failure else None,
        # rule: a completion tells the start of its tree
        started_ms=tree.started_ms,
        at_ms=now_ms,
        traceparent=tree.traceparent,
        # rule: the completion of a root that ends when all have ended tells how many failed
        failures=tree.failures if tree.end_on is EndOn.ALL_ENDED else None,
        # rule: a completion tells how many edges were dropped
        dropped=tree.dropped,
    )
    return Transition(
        state=Finished(outcome=outcome, at_ms=now_ms),
        operation_state=_STATES[outcome],
        outcome=outcome,
        completion=completion,
    )


def new_tree(operation: Operation, now_ms: int, rules: TopologyRules) -> Tree:
    """Begin a tree at the first operation on its root, of any kind. Its init has one message timeout to arrive."""
    return Tree(
        root_id=operation.root_id,
        started_ms=now_ms,
        deadline_ms=now_ms + rules.message_timeout_ms,
        # rule: a tree that begins has details if its topology wants them
        has_details=rules.root_details,
    )


def emit(tree: Tree, operation: Init, now_ms: int, rules: TopologyRules) -> Tree:
    """Make a tree pending with the fields of its init."""
    # rule: an init may bring its own progress timeout
    progress = rules.progress_timeout_ms if operation.progress_timeout_ms is None else operation.progress_timeout_ms
    tree = replace(
        tree,
        spout_task=operation.spout_task,
        message_id=operation.message_id,
        message_timeout_ms=operation.message_timeout_ms,
        progress_timeout_ms=progress,
        traceparent=operation.traceparent,
        # rule: a root ends on what its init says, or else the topology
        end_on=operation.end_on or rules.end_on,
        # rule: a root has the message timeout of its init, or else the topology's
        deadline_ms=deadline_after(tree, now_ms, operation.message_timeout_ms or rules.message_timeout_ms),
    )
    return xor_in(touch_progress_deadline(tree, now_ms), operation.ack_val, operation.outstanding)


def is_ended_before(tree: Tree, edge_id: int | None) -> bool:
    """Whether an edge is remembered as acked or failed."""
    # rule: an edge is known again by its name
    return any(edge == edge_id for edge, _ in tree.edges)


def end_edge(tree: Tree, operation: Ack | Fail, now_ms: int, rules: TopologyRules, free_edges: int | None) -> Tree:
    """Remember an edge that ended, if it is named and there is room, and move the idle deadline."""
    # rule: an ack gives its root the whole progress timeout again
    tree = note_ack(touch_progress_deadline(tree, now_ms), operation, now_ms)
    # rule: an edge is remembered only where there is room
    if not rules.dedupe_window_ms or operation.edge_id is None or (free_edges is not None and free_edges <= 0):
        return tree
    # rule: an edge that ended is remembered
    return replace(tree, edges=tree.edges | {(operation.edge_id, now_ms)})


def note_ack(tree: Tree, operation: Ack | Fail, now_ms: int) -> Tree:
    """Keep of an ack when it came and which component it named, in a tree with details: data that decides nothing."""
    if not tree.has_details:
        return tree
    return replace(
        tree,
        # rule: the time of the last ack is kept
        last_ack_ms=max(now_ms, tree.started_ms),
        # rule: the component of the last ack is kept
        last_component=operation.component,
    )


def xor_in(tree: Tree, ack_val: int, outstanding: int | None) -> Tree:
    """XOR a value into the ack val and add to the outstanding edges."""
    # rule: an ack val is XORed into that of the tree
    return replace(tree, ack_val=tree.ack_val ^ ack_val, outstanding=add_outstanding(tree.outstanding, outstanding))


def add_outstanding(count: int | None, more: int | None) -> int | None:
    """Add two counts; None if one is unknown or the sum leaves 32 bits."""
    # rule: a count that is unknown stays unknown
    if count is None or more is None:
        return None
    # rule: a count that leaves 32 bits is unknown
    return count + more if count + more in _INT32 else None


def touch_progress_deadline(tree: Tree, now_ms: int) -> Tree:
    """Move the idle deadline of a tree that has a progress timeout."""
    if not tree.progress_timeout_ms:
        return tree
    return replace(tree, idle_deadline_ms=deadline_after(tree, now_ms, tree.progress_timeout_ms))


def deadline_after(tree: Tree, now_ms: int, timeout_ms: int) -> int:
    """Return the deadline of a timeout that begins now: not before the tree's start, at most ``MAX_SPAN_MS`` later."""
    return tree.started_ms + min(max(now_ms + timeout_ms - tree.started_ms, 0), MAX_SPAN_MS)


def current_state(state: Tree | None) -> OperationState:
    """Return the state that answers an operation without effect on an unknown, early or pending root."""
    # rule: a root is answered as early until its init came
    return OperationState.EARLY if state is None or state.spout_task is None else OperationState.PENDING


def early_refusal(state: Tree | None, free_early: int | None) -> OperationState | None:
    """Return the state that refuses an ack or a fail which would begin a tree where no more may be early."""
    # rule: what would begin a tree is refused when there is no room for another early root
    return OperationState.STORE_FULL if state is None and free_early is not None and free_early <= 0 else None


def edge_refusal(
    state: Tree | None, edge_id: int | None, rules: TopologyRules, free_edges: int | None, *, is_full: bool
) -> OperationState | None:
    """Return the state that refuses to end an edge that would be remembered beyond the bound."""
    # rule: an edge that is not to be remembered needs no room
    if not rules.dedupe_window_ms or edge_id is None:
        return None
    # rule: an edge is refused only when there is no room for it
    if free_edges is None or free_edges > 0:
        return None
    # rule: a pending root takes such an ack in a full store, so that it can end
    is_taken = is_full and state is not None and state.spout_task is not None
    return None if is_taken else OperationState.STORE_FULL


def kept_failure(operation: Fail, max_reason: int | None) -> Fail:
    """Return what a root keeps of a fail where there may be no room for all of it."""
    # rule: an early root without room keeps that it failed, and no more
    if max_reason == 0:
        return replace(operation, reason=None, component=None)
    # rule: a root with little room keeps the beginning of a reason
    return replace(operation, reason=operation.reason and operation.reason[:max_reason])


def note_tick(last_ms: int | None, gap: Gap | None, *, now_ms: int, rules: TopologyRules) -> Gap | None:
    """Return the gap that a tick works off, by the time of the tick before it and the gap that this one had.

    All that was due in a gap is taken to have had its grace by the end of the time that a gap is kept.
    """
    # rule: a topology without grace has no gap
    if not rules.grace_ms or last_ms is None:
        return None
    # rule: a gap is kept for a while, and until then no other begins
    if gap is not None and now_ms <= gap.to_ms + GAP_KEPT_MS:
        return gap
    # rule: two ticks that are far apart leave a gap
    if now_ms - last_ms > MAX_APART_MS:
        return Gap(from_ms=last_ms, to_ms=now_ms)
    return None


def grant_grace(tree: Tree, now_ms: int, rules: TopologyRules, gap: Gap | None) -> Tree:
    """Return a pending tree with another deadline for each that lies in the gap: now and a share of the grace.

    The share is drawn from the root id: its first three bytes. The deadline lies behind the gap, and never before the
    old one, so that no root gets it twice.
    """
    # rule: an early root gets no grace
    if gap is None or tree.spout_task is None:
        return tree
    # rule: the root id draws its share of the grace
    deadline_ms = deadline_after(tree, now_ms, (tree.root_id >> 40) * rules.grace_ms >> 24)
    # rule: a message deadline in the gap moves behind it
    if tree.deadline_ms in gap:
        tree = replace(tree, deadline_ms=max(tree.deadline_ms, deadline_ms))
    # rule: an idle deadline in the gap moves behind it
    if tree.idle_deadline_ms is not None and tree.idle_deadline_ms in gap:
        tree = replace(tree, idle_deadline_ms=max(tree.idle_deadline_ms, deadline_ms))
    return tree


def expire(
    state: State, *, now_ms: int, rules: TopologyRules, gap: Gap | None = None
) -> tuple[State, CompletionRecord | None]:
    """Let time pass for one root: give its state and, if it timed out, its completion.

    An overdue pending root becomes finished, unless it gets grace because it was due in a ``gap``. An overdue early
    root is dropped: its state is None, without a completion.
    """
    if not isinstance(state, Tree):
        return state, None
    state = grant_grace(state, now_ms, rules, gap)
    # rule: a root is overdue only after its deadline, or the one that grace gives it
    if now_ms <= state.due_ms:
        return state, None
    # rule: an overdue early root is dropped without a completion
    if state.spout_task is None:
        return None, None
    transition = finish(state, Outcome.TIMED_OUT, now_ms)
    assert transition.completion is not None
    completion = replace(
        transition.completion,
        reason=timeout_reason(state, rules),
        last_component=state.last_component,
        last_ack_ms=state.last_ack_ms,
        # rule: a timeout tells the edges that are outstanding, of a root with details
        outstanding=state.outstanding if state.has_details else None,
    )
    return transition.state, completion


def timeout_reason(tree: Tree, rules: TopologyRules) -> str | None:
    """Return the reason of a timeout where the tree knows it: more edges were acked than sent."""
    # rule: a count of edges that is unknown gives a timeout no reason
    if tree.outstanding is None:
        return None
    # rule: a root that times out says that a tuple was acked more often than sent
    if tree.outstanding < 0 or (tree.outstanding == 0 and tree.ack_val):
        return ACKED_TOO_OFTEN_IN_WINDOW if rules.dedupe_window_ms else ACKED_TOO_OFTEN_WITHOUT_WINDOW
    return None


def forget_expired(state: State, *, now_ms: int, rules: TopologyRules) -> State:
    """Forget what expired: an outcome after the retention, acked edges after the dedupe window."""
    if isinstance(state, Finished):
        # rule: an outcome is forgotten after the retention
        return state if is_remembered(state.at_ms, now_ms, rules.retention_ms) else None
    if isinstance(state, Tree) and state.edges:
        edges = {e for e in state.edges if is_remembered(e[1], now_ms, rules.dedupe_window_ms)}
        return replace(state, edges=frozenset(edges))
    return state


def is_remembered(at_ms: int, now_ms: int, window_ms: int) -> bool:
    """Whether an event is still remembered: in its slice of one window's length and in the whole slice after it."""
    # rule: an event is remembered in its own window and the whole one after it
    return window_ms > 0 and now_ms // window_ms - at_ms // window_ms <= 1
