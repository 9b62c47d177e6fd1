# ruff: noqa: E501 - a rule stands in one line
"""Breaks each rule of the state machine, in Lua and in Python: a test must fail. Runs by `make mutations`, for minutes."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acker_protocol import idempotency, tree
from acker_service.redis import library
from hypothesis import Phase

from tests.model.test_model_and_redis import compare
from tests.model.test_table import WINDOW_MS, ModelUnderTest, max_early, play
from tests.support import model_acker
from tests.support.driven_store import DrivenStore
from tests.support.scenarios import SCENARIOS, Scenario, words_of

EXAMPLES = 400
UNSHRUNK = (Phase.generate,)

IN_LUA = [
    ("root.high, root.low = bit.bxor(root.high, op.high), bit.bxor(root.low, op.low)", "root.high, root.low = op.high, op.low"),
    ("bit.bxor(root.low, op.low)\n", "root.low\n"),
    ("if root.high ~= 0 or root.low ~= 0 then return 'p' end", "if root.low ~= 0 then return 'p' end"),
    ("if root.high ~= 0 or root.low ~= 0 then return 'p' end", "if root.high ~= 0 then return 'p' end"),
    ("if root.state == 'E' then return 'e' end\n    if root.failed", "if root.failed"),
    ("if root.outstanding and root.outstanding ~= 0 then", "if root.outstanding and root.outstanding > 0 then"),
    ("if root.outstanding and root.outstanding ~= 0 then", "if false then"),
    ("return sum and sum >= -2147483648 and sum <= 2147483647 and sum or nil", "return sum"),
    ("return root.spout == op.spout and read_message_id(call, root) == op.text", "return root.spout == op.spout"),
    ("return root.spout == op.spout and read_message_id(call, root) == op.text", "return read_message_id(call, root) == op.text"),
    ("if root.state == 'P' then return emitted_by(call, root, op) and 'd' or 'c' end\n    local code", "local code"),
    ("if root.failed then return true end", ""),
    ("if (call.free_slots[op.spout] or 0) <= 0 then", "if (call.free_slots[op.spout] or 0) < 0 then"),
    ("call.free_slots[op.spout], root.holds_slot = call.free_slots[op.spout] - 1, true", "root.holds_slot = true"),
    ("call.free_slots[root.spout] = free + 1 end", "call.free_slots[root.spout] = free end"),
    ("op.message_timeout, op.progress_timeout or call.progress_timeout", "op.message_timeout, call.progress_timeout"),
    ("root.deadline = deadline_after(call, root, root.message_timeout or call.message_timeout)\n", ""),
    ("root.deadline = deadline_after(call, root, root.message_timeout or call.message_timeout)\n", "root.deadline = deadline_after(call, root, call.message_timeout)\n"),
    ("local started = root.state == 'N' and call.now or root.started", "local started = 0"),
    ("if redis.call('SISMEMBER', call.base .. 'p1' .. set, member) == 1 then return true end", ""),
    ("if redis.call('SISMEMBER', call.base .. 'p0' .. set, member) == 1 then return true end", ""),
    ("if op.high == 0 and op.low == 0 then return current_state(root) end", ""),
    ("if call.dedupe_window > 0 and op.edge_high and acked_before(call, root, op) then return 'd' end", ""),
    ("    touch_progress_deadline(call, root)\n    note_ack(call, root, op)\n", "    note_ack(call, root, op)\n"),
    ("if not root.failed then root.failed, root.failure", "if true then root.failed, root.failure"),
    ("if root.state ~= 'P' then return 'u' end", "if root.state == 'N' then return 'u' end"),
    ("root.deadline, root.dirty = deadline_after(call, root, root.message_timeout or call.message_timeout), true", "root.dirty = true"),
    ("if kind ~= INIT then return 'A' end", "if kind ~= INIT then return 'e' end"),
    ("if root.state == 'F' then return root.outcome end\n    if call.tracked", "if call.tracked"),
    ("return op.refused and 'm' or 'd'", "return 'd'"),
    ("bytes[at] = bytes[at] + 2 ^ (position % 8)", "bytes[at] = 255"),
    ("if root.state == 'N' then return 'd' end", ""),
    ("return kind == FAIL and 'd' or 'p'", "return 'p'"),
    ("refused and request.partial_hash or request.hash", "request.hash"),
    ("if call.store_full and not call.changed then return end", "if true then return end"),
    ("    expire_slice(call, hashes, call.idempotency_window)\n", ""),
    ("    if call.now > expiry then return nil end\n", ""),
    ("(nth + 2) * call.retention - 1", "(nth + 1) * call.retention - 1"),
    ("(nth + 2) * call.retention - 1", "(nth + 3) * call.retention - 1"),
    ("(math.floor(call.now / window) + 2) * window - 1", "(math.floor(call.now / window) + 1) * window - 1"),
    ("(math.floor(call.now / window) + 2) * window - 1", "(math.floor(call.now / window) + 3) * window - 1"),
    ("if root.was_due and scan_at >= root.was_due then", "if root.was_due then"),
    ("if now > deadline and FAST_PATH", "if now >= deadline and FAST_PATH"),
    ("if call.now <= due_ms(root) then return due_ms(root) end", "if call.now < due_ms(root) then return due_ms(root) end"),
    ("return root.idle_deadline and math.min(root.idle_deadline, root.deadline) or root.deadline", "return root.deadline"),
    ("return root.idle_deadline and math.min(root.idle_deadline, root.deadline) or root.deadline", "return root.idle_deadline or root.deadline"),
    ("scored[#scored + 1] = scan_at", "scored[#scored + 1] = scan_at + 1000"),
    ("  count(call, 'dropped')\n", ""),
    ("  redis.call('HDEL', root.key, root.id)\n  remove_long_values(call, root)\n  count(call, 'dropped')", "  count(call, 'dropped')"),
    ("  if pending ~= 0 then call.pending", "  if pending > 0 then call.pending"),
    ("if root.progress_timeout then root.idle_deadline = deadline_after(call, root, root.progress_timeout) end", "if root.progress_timeout then root.idle_deadline = call.now + 1 end"),
    ("root.state, root.outcome, root.dirty = 'F', outcome, true", "root.state, root.outcome, root.dirty = 'F', 'A', true"),
    ("if root.state ~= 'N' or not call.max_early then return nil end", "if true then return nil end"),
    ("if root.state ~= 'N' or not call.max_early then return nil end", "if root.state == 'P' or not call.max_early then return nil end"),
    ("    if call.store_full then return 's' end\n    return early_before", "    return early_before"),
    ("early_before(call) + call.early_change >= call.max_early", "early_before(call) + call.early_change > call.max_early"),
    ("early_before(call) + call.early_change >= call.max_early", "early_before(call) >= call.max_early"),
    ("early_before(call) + call.early_change >= call.max_early", "call.early_change >= call.max_early"),
    ("    local code = early_refusal(call, root)\n    if code then return code end\n    if call.dedupe_window", "    if call.dedupe_window"),
    ("    local code = early_refusal(call, root)\n    if code then return code end\n    if root.state", "    if root.state"),
    ("    local code = early_refusal(call, root)\n    if code then return code end\n    if call.dedupe_window > 0 and op.edge_high and acked_before(call, root, op) then return 'd' end", "    if call.dedupe_window > 0 and op.edge_high and acked_before(call, root, op) then return 'd' end\n    local code = early_refusal(call, root)\n    if code then return code end"),
    ("+ (root.state == 'E' and 1 or 0) - (root.was_early and 1 or 0)", "+ (root.state == 'E' and 1 or 0)"),
    ("+ (root.state == 'E' and 1 or 0) - (root.was_early and 1 or 0)", "- (root.was_early and 1 or 0)"),
    ("root.holds_slot, root.was_early = root.state == 'P', root.state == 'P', root.state == 'E'", "root.holds_slot, root.was_early = root.state == 'P', root.state == 'P', false"),
    ("  call.early_change = call.early_change - 1\n", ""),
    ("local new_high, new_low, sum = bxor(high, op_high), bxor(low, op_low), outstanding + op_outstanding", "local new_high, new_low, sum = op_high, op_low, outstanding + op_outstanding"),
    ("is_zero and (sum ~= 0 or kept % DETAILS >= LONG_MESSAGE_ID) then", "is_zero and kept % DETAILS >= LONG_MESSAGE_ID then"),
    ("    if call.free_slots then call.free_slots[spout] = call.free_slots[spout] - 1 end\n", ""),
    ("    if free and free ~= MAILBOX_FULL then call.free_slots[spout] = free + 1 end\n", ""),
    ("elseif dedupes and edge_at and is_acked_before(call, bucket, rest, ops, edge_at) then", "elseif false then"),
    ("  write_early(call)\n", ""),
]  # fmt: skip

IN_TREE = [
    ("ack_val=tree.ack_val ^ ack_val", "ack_val=ack_val"),
    ("if tree.ack_val == 0 and not tree.outstanding:", "if tree.ack_val == 0:"),
    ("if tree.ack_val == 0 and not tree.outstanding:", "if not tree.outstanding:"),
    ("unbalanced=tree.ack_val == 0", "unbalanced=False"),
    ("    if tree.spout_task is None:\n        return Transition(state=tree, operation_state=OperationState.EARLY)\n    if tree.failure", "    if tree.failure"),
    ("    if tree.failure is not None:\n        return finish(tree, Outcome.FAILED, now_ms)\n", ""),
    ("OperationState.DUPLICATE if same else OperationState.CONFLICT", "OperationState.DUPLICATE"),
    ("free_slots is not None and free_slots <= 0", "free_slots is not None and free_slots < 0"),
    ("if transition.operation_state is OperationState.PENDING and free_slots", "if free_slots"),
    ("    if not operation.ack_val:\n        return Transition(state=state, operation_state=current_state(state))\n", ""),
    ("        edges |= {(operation.edge_id, now_ms)}\n", ""),
    ("if rules.dedupe_window_ms and operation.edge_id is not None:", "if False:"),
    ("tree = replace(touch_progress_deadline(tree, now_ms), edges=edges)", "tree = replace(tree, edges=edges)"),
    ("failure=tree.failure or operation", "failure=operation"),
    ("timeout = state.message_timeout_ms or rules.message_timeout_ms", "timeout = rules.message_timeout_ms"),
    ("    return Transition(state=touch_progress_deadline(tree, now_ms), operation_state=OperationState.PENDING)", "    return Transition(state=tree, operation_state=OperationState.PENDING)"),
    ("now_ms <= state.due_ms", "now_ms < state.due_ms"),
    ("    if state.spout_task is None:\n        return None, None\n", ""),
    ("operation.message_timeout_ms or rules.message_timeout_ms", "rules.message_timeout_ms"),
    ("rules.progress_timeout_ms if operation.progress_timeout_ms is None else operation.progress_timeout_ms", "rules.progress_timeout_ms"),
    ("return count + more if count + more in _INT32 else None", "return count + more"),
    ("    if count is None or more is None:\n        return None\n", "    count, more = count or 0, more or 0\n"),
    ("at_ms // window_ms <= 1", "at_ms // window_ms <= 0"),
    ("at_ms // window_ms <= 1", "at_ms // window_ms <= 2"),
    ("        return state if is_remembered(state.at_ms, now_ms, rules.retention_ms) else None", "        return state"),
    ("    if not rules.tracked:\n        return apply_untracked(operation, now_ms, rules)\n", ""),
    ("return OperationState.EARLY if state is None or state.spout_task is None else OperationState.PENDING", "return OperationState.PENDING"),
    ("started_ms=tree.started_ms,", "started_ms=now_ms,"),
    ("return OperationState.STORE_FULL if state is None and free_early is not None and free_early <= 0 else None", "return None"),
    ("return OperationState.STORE_FULL if state is None and free_early is not None and free_early <= 0 else None", "return OperationState.STORE_FULL if free_early is not None and free_early <= 0 else None"),
    ("free_early is not None and free_early <= 0", "free_early is not None and free_early < 0"),
    ("        return Transition(state=state, operation_state=current_state(state))\n    if refused := early_refusal(state, free_early):\n        return Transition(state=state, operation_state=refused)\n", "        return Transition(state=state, operation_state=current_state(state))\n"),
    ("    if refused := early_refusal(state, free_early):\n        return Transition(state=state, operation_state=refused)\n    tree = state or new_tree(operation, now_ms, rules)\n    return resolve(replace", "    tree = state or new_tree(operation, now_ms, rules)\n    return resolve(replace"),
]  # fmt: skip

IN_IDEMPOTENCY = [
    ("return OperationState.MAX_SPOUT_PENDING if refused else OperationState.DUPLICATE", "return OperationState.DUPLICATE"),
    ("return OperationState.PENDING if state.emitted_by(operation) else OperationState.CONFLICT", "return OperationState.PENDING"),
    ("return OperationState.DUPLICATE if isinstance(operation, Fail) else OperationState.PENDING", "return OperationState.PENDING"),
    ("return OperationState.UNKNOWN if isinstance(operation, ResetTimeout) else OperationState.EARLY", "return OperationState.EARLY"),
    ("    if state is None:\n        return OperationState.DUPLICATE\n    if state.spout_task", "    if state is None:\n        return OperationState.EARLY\n    if state.spout_task"),
]  # fmt: skip

IN_PYTHON = [(tree, *mutant) for mutant in IN_TREE] + [(idempotency, *mutant) for mutant in IN_IDEMPOTENCY]


def broken(text: str, old: str, new: str) -> str:
    """Break a text wherever it reads so."""
    assert old in text, f"there is nothing to break: {old}"
    return text.replace(old, new)


def play_table(make: Callable[[Scenario], Any]) -> None:
    """Play every row of the table."""
    for scenario in SCENARIOS:
        acker = make(scenario)
        try:
            assert play(acker, scenario) == words_of(scenario)
            mailbox = acker.mailbox if isinstance(acker, ModelUnderTest) else acker.mailbox()
            assert [(done.outcome, done.reason) for done in mailbox] == scenario.told
        finally:
            if isinstance(acker, DrivenStore):
                acker.close()


def is_noticed(make: Callable[[Scenario], Any], url: str, text: str) -> bool:
    """Whether the table or the random sequences fail, however."""
    try:
        play_table(make)
        compare(url, examples=EXAMPLES, text=text, phases=UNSHRUNK)
    except Exception:  # noqa: BLE001
        return True
    return False


def test_every_rule_to_break_stands_in_its_text() -> None:
    for old, new in IN_LUA:
        assert broken(library.source(), old, new) != library.source()
    for module, old, new in IN_PYTHON:
        source = Path(str(module.__file__)).read_text()
        assert broken(source, old, new) != source


@pytest.mark.mutations
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("old", "new"), IN_LUA)
def test_a_rule_broken_in_lua_is_noticed(driven_url: str, old: str, new: str) -> None:
    """With the fast path or without it: with it, few operations meet some rules of the state machine."""
    text = broken(library.source(), old, new)

    def is_noticed_in(text: str) -> bool:
        def make(scenario: Scenario) -> DrivenStore:
            bound = max_early(scenario)
            return DrivenStore(driven_url, scenario.configuration, window_ms=WINDOW_MS, max_early=bound, text=text)

        return is_noticed(make, driven_url, text)

    assert is_noticed_in(text) or is_noticed_in(broken(text, "local FAST_PATH = true", "local FAST_PATH = false"))


@pytest.mark.mutations
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("module", "old", "new"), IN_PYTHON)
def test_a_rule_broken_in_python_is_noticed(
    driven_url: str, monkeypatch: pytest.MonkeyPatch, module: types.ModuleType, old: str, new: str
) -> None:
    mutant = types.ModuleType(module.__name__)
    exec(broken(Path(str(module.__file__)).read_text(), old, new), mutant.__dict__)
    for name in ("apply_operation", "expire", "forget_expired", "replay_operation"):
        if hasattr(mutant, name) and hasattr(module, name):
            monkeypatch.setattr(model_acker, name, getattr(mutant, name))

    def make(scenario: Scenario) -> ModelUnderTest:
        return ModelUnderTest(scenario.configuration, WINDOW_MS, 0, max_early=max_early(scenario))

    assert is_noticed(make, driven_url, library.source())
