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
``acker_service/store/lua/law.lua``; a stateful property test holds the two equal.
"""

from dataclasses import replace

from acker_protocol.messages import Ack, Completion, Fail, Init, Message, Outcome, Word
from acker_protocol.states import Finished, Rules, State, Step, Tree

MAX_SPAN_MS = 2**32 - 1
"""A deadline is at most this long after a root's first message (49 days), however often its timeout is reset."""

_INT32 = range(-(2**31), 2**31)
_WORDS = {Outcome.ACKED: Word.ACKED, Outcome.FAILED: Word.FAILED, Outcome.TIMED_OUT: Word.FINISHED}


def apply(state: State, message: Message, *, now_ms: int, rules: Rules, room: int | None = None) -> Step:
    """Apply one message to a root; ``room`` is how many more pending roots its spout task may have (None: any)."""
    state = recall(state, now_ms=now_ms, rules=rules)
    if isinstance(state, Finished):
        return Step(state=state, word=Word.FINISHED, outcome=state.outcome)
    if not rules.tracked:
        return _untracked(message, now_ms, rules)
    match message:
        case Init():
            return _init(state, message, now_ms, rules, room)
        case Ack():
            return _ack(state, message, now_ms, rules)
        case Fail():
            return _fail(state, message, now_ms, rules)
        case _:
            return _reset_timeout(state, now_ms, rules)


def expire(state: State, *, now_ms: int) -> tuple[State, Completion | None]:
    """Let time pass: time out a pending root that is overdue, drop an early one (None, without a completion)."""
    if not isinstance(state, Tree) or now_ms <= state.due_ms:
        return state, None
    if state.spout_task is None:
        return None, None
    step = _finish(state, Outcome.TIMED_OUT, now_ms)
    return step.state, step.completion


def recall(state: State, *, now_ms: int, rules: Rules) -> State:
    """Forget what is no longer remembered: outcomes after the retention, acked edges after the dedupe window."""
    if isinstance(state, Finished):
        return state if _remembered(state.at_ms, now_ms, rules.retention_ms) else None
    if isinstance(state, Tree) and state.edges:
        edges = {e for e in state.edges if _remembered(e[1], now_ms, rules.dedupe_window_ms)}
        return replace(state, edges=frozenset(edges))
    return state


def _untracked(message: Message, now_ms: int, rules: Rules) -> Step:
    if not isinstance(message, Init):
        return Step(state=None, word=Word.FINISHED, outcome=Outcome.ACKED)
    tree = _emitted(_new(message, now_ms, rules), message, now_ms, rules)
    return _finish(tree, Outcome.ACKED, now_ms)


def _init(state: Tree | None, init: Init, now_ms: int, rules: Rules, room: int | None) -> Step:
    if state is not None and state.spout_task is not None:
        return Step(state=state, word=Word.DUPLICATE if state.emitted_by(init) else Word.CONFLICT)
    step = _settle(_emitted(state or _new(init, now_ms, rules), init, now_ms, rules), now_ms)
    if step.word is Word.PENDING and room is not None and room <= 0:
        return Step(state=state, word=Word.MAX_SPOUT_PENDING)
    return step


def _ack(state: Tree | None, ack: Ack, now_ms: int, rules: Rules) -> Step:
    if not ack.ack_val:
        return Step(state=state, word=_standing(state))
    tree = state or _new(ack, now_ms, rules)
    edges = tree.edges
    if rules.dedupe_window_ms and ack.edge_id is not None:
        if any(edge == ack.edge_id for edge, _ in edges):
            return Step(state=state, word=Word.DUPLICATE)
        edges |= {(ack.edge_id, now_ms)}
    tree = replace(_progressed(tree, now_ms), edges=edges)
    return _settle(_xored(tree, ack.ack_val, ack.outstanding), now_ms)


def _fail(state: Tree | None, fail: Fail, now_ms: int, rules: Rules) -> Step:
    tree = state or _new(fail, now_ms, rules)
    return _settle(replace(tree, failure=tree.failure or fail), now_ms)


def _reset_timeout(state: Tree | None, now_ms: int, rules: Rules) -> Step:
    if state is None or state.spout_task is None:
        return Step(state=state, word=Word.UNKNOWN)
    timeout = state.message_timeout_ms or rules.message_timeout_ms
    tree = replace(state, deadline_ms=_deadline(state, now_ms, timeout))
    return Step(state=_progressed(tree, now_ms), word=Word.PENDING)


def _settle(tree: Tree, now_ms: int) -> Step:
    """Say what a changed tree has come to: the one place where a root is found to be done."""
    if tree.spout_task is None:
        return Step(state=tree, word=Word.EARLY)
    if tree.failure is not None:
        return _finish(tree, Outcome.FAILED, now_ms)
    if tree.ack_val == 0 and not tree.outstanding:
        return _finish(tree, Outcome.ACKED, now_ms)
    return Step(state=tree, word=Word.PENDING, unbalanced=tree.ack_val == 0)


def _finish(tree: Tree, outcome: Outcome, now_ms: int) -> Step:
    assert tree.spout_task is not None
    completion = Completion(
        root_id=tree.root_id,
        spout_task=tree.spout_task,
        outcome=outcome,
        message_id=tree.message_id,
        reason=tree.failure.reason if tree.failure else None,
        component=tree.failure.component if tree.failure else None,
        started_ms=tree.started_ms,
        at_ms=now_ms,
    )
    return Step(
        state=Finished(outcome=outcome, at_ms=now_ms),
        word=_WORDS[outcome],
        outcome=outcome,
        completion=completion,
    )


def _new(message: Message, now_ms: int, rules: Rules) -> Tree:
    """Begin a tree at its first message, of any kind. Until its init has come it has one message timeout."""
    return Tree(root_id=message.root_id, started_ms=now_ms, deadline_ms=now_ms + rules.message_timeout_ms)


def _emitted(tree: Tree, init: Init, now_ms: int, rules: Rules) -> Tree:
    """Put into a tree what its init says."""
    progress = rules.progress_timeout_ms if init.progress_timeout_ms is None else init.progress_timeout_ms
    tree = replace(
        tree,
        spout_task=init.spout_task,
        message_id=init.message_id,
        message_timeout_ms=init.message_timeout_ms,
        progress_timeout_ms=progress,
        deadline_ms=_deadline(tree, now_ms, init.message_timeout_ms or rules.message_timeout_ms),
    )
    return _xored(_progressed(tree, now_ms), init.ack_val, init.outstanding)


def _xored(tree: Tree, ack_val: int, outstanding: int | None) -> Tree:
    """XOR a value in; count beside it, unless this or an earlier message left the count out or it leaves 32 bits."""
    return replace(tree, ack_val=tree.ack_val ^ ack_val, outstanding=_sum(tree.outstanding, outstanding))


def _sum(count: int | None, more: int | None) -> int | None:
    if count is None or more is None:
        return None
    return count + more if count + more in _INT32 else None


def _progressed(tree: Tree, now_ms: int) -> Tree:
    if not tree.progress_timeout_ms:
        return tree
    return replace(tree, idle_deadline_ms=_deadline(tree, now_ms, tree.progress_timeout_ms))


def _deadline(tree: Tree, now_ms: int, timeout_ms: int) -> int:
    return tree.started_ms + min(max(now_ms + timeout_ms - tree.started_ms, 0), MAX_SPAN_MS)


def _standing(state: Tree | None) -> Word:
    return Word.EARLY if state is None or state.spout_task is None else Word.PENDING


def _remembered(at_ms: int, now_ms: int, window_ms: int) -> bool:
    """Whether something of then is remembered now: for its slice of one window's length and the whole next one."""
    return window_ms > 0 and now_ms // window_ms - at_ms // window_ms <= 1
