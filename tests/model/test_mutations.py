# ruff: noqa: E501 - a rule stands in one line
"""Rules broken on purpose, in Lua and in the law: each must be noticed. Runs by `make mutations`, for minutes."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acker_protocol import idempotency, tree
from acker_service.redis import library
from hypothesis import Phase

from tests.model.test_law_and_redis import compare
from tests.model.test_table import WINDOW_MS, LawUnderTest, play
from tests.support import law_acker
from tests.support.driven_store import DrivenStore
from tests.support.scenarios import SCENARIOS, Scenario, words_of

pytestmark = [pytest.mark.mutations, pytest.mark.timeout(600)]
EXAMPLES = 400
UNSHRUNK = (Phase.generate,)

IN_LUA = [
    ("t.high, t.low = bit.bxor(t.high, o.high), bit.bxor(t.low, o.low)", "t.high, t.low = o.high, o.low"),
    ("bit.bxor(t.low, o.low)\n", "t.low\n"),
    ("if t.high ~= 0 or t.low ~= 0 then return 'p' end", "if t.low ~= 0 then return 'p' end"),
    ("if t.high ~= 0 or t.low ~= 0 then return 'p' end", "if t.high ~= 0 then return 'p' end"),
    ("if t.state == 'E' then return 'e' end\n  if t.failed", "if t.failed"),
    ("if t.outstanding and t.outstanding ~= 0 then", "if t.outstanding and t.outstanding > 0 then"),
    ("if t.outstanding and t.outstanding ~= 0 then", "if false then"),
    ("return s and s >= -2147483648 and s <= 2147483647 and s or nil", "return s"),
    ("return t.spout == o.spout and read_message_id(c, t) == o.first", "return t.spout == o.spout"),
    ("return t.spout == o.spout and read_message_id(c, t) == o.first", "return read_message_id(c, t) == o.first"),
    ("if t.state == 'P' then return emitted_by(c, t, o) and 'd' or 'c' end\n  local word", "local word"),
    ("if t.failed then return true end", ""),
    ("if (c.rooms[o.spout] or 0) <= 0 then", "if (c.rooms[o.spout] or 0) < 0 then"),
    ("c.rooms[o.spout], t.placed = c.rooms[o.spout] - 1, true", "t.placed = true"),
    ("c.rooms[t.spout] = room + 1 end", "c.rooms[t.spout] = room end"),
    ("t.progress = o.progress or c.progress", "t.progress = c.progress"),
    ("t.deadline = moved(c, t, t.timeout or c.timeout)\n", ""),
    ("t.deadline = moved(c, t, t.timeout or c.timeout)\n", "t.deadline = moved(c, t, c.timeout)\n"),
    ("local started = t.state == 'N' and c.now or t.started", "local started = 0"),
    ("  keep(c, key, c.dedupe)", ""),
    ("if redis.call('SISMEMBER', c.base .. 'p1' .. set, member) == 1 then return true end", ""),
    ("if redis.call('SISMEMBER', c.base .. 'p0' .. set, member) == 1 then return true end", ""),
    ("if o.high == 0 and o.low == 0 then return t.state == 'P' and 'p' or 'e' end", ""),
    ("if c.dedupe > 0 and o.edge1 and acked_before(c, t, o) then return 'd' end", ""),
    ("  progressed(c, t)\n  xored(t, o)\n  return settle(c, t)\nend\n\nlocal function fail", "  xored(t, o)\n"
     "  return settle(c, t)\nend\n\nlocal function fail"),
    ("if not t.failed then t.failed, t.failure", "if true then t.failed, t.failure"),
    ("if t.state ~= 'P' then return 'u' end", "if t.state == 'N' then return 'u' end"),
    ("t.deadline, t.dirty = moved(c, t, t.timeout or c.timeout), true", "t.dirty = true"),
    ("if op ~= 1 then return 'A' end", "if op ~= 1 then return 'e' end"),
    ("if t.state == 'F' then return t.outcome end\n  if c.tracked", "if c.tracked"),
    ("return c.places_refused and 'm' or 'd'", "return 'd'"),
    ("if t.state == 'N' then return 'd' end", ""),
    ("return op == 3 and 'd' or 'p'", "return 'p'"),
    ("words:find('[bms]') and partly or whole", "whole"),
    ("if set == '' or not c.applied then return end", "if true then return end"),
    ("  keep(c, key, c.window)", ""),
    ("keep(c, c.finished .. t.bucket, c.retention)", ""),
    ("(math.floor(c.now / window) + 2) * window - 1", "(math.floor(c.now / window) + 1) * window - 1"),
    ("(math.floor(c.now / window) + 2) * window - 1", "(math.floor(c.now / window) + 3) * window - 1"),
    ("if t.long or t.failed and not t.was_pending then", "if false then"),
    ("if not t.was_due or due(t) < t.was_due then", "if not t.was_due then"),
    ("if c.now <= due(t) then return due(t) end", "if c.now < due(t) then return due(t) end"),
    ("return t.idle and math.min(t.idle, t.deadline) or t.deadline", "return t.deadline"),
    ("return t.idle and math.min(t.idle, t.deadline) or t.deadline", "return t.idle or t.deadline"),
    ("redis.call('ZADD', c.due, earliest, bucket)", "redis.call('ZADD', c.due, earliest + 1000, bucket)"),
    ("    count(c, 'dropped')\n", ""),
    ("    remove_record(c, t)\n    count(c, 'dropped')", "    count(c, 'dropped')"),
    ("  if pending ~= 0 then c.pending", "  if pending > 0 then c.pending"),
    ("if t.progress then t.idle = moved(c, t, t.progress) end", "if t.progress then t.idle = c.now + 1 end"),
    ("t.state, t.outcome, t.dirty = 'F', outcome, true", "t.state, t.outcome, t.dirty = 'F', 'A', true"),
]  # fmt: skip

IN_THE_LAW = [
    ("ack_val=tree.ack_val ^ ack_val", "ack_val=ack_val"),
    ("if tree.ack_val == 0 and not tree.outstanding:", "if tree.ack_val == 0:"),
    ("if tree.ack_val == 0 and not tree.outstanding:", "if not tree.outstanding:"),
    ("unbalanced=tree.ack_val == 0", "unbalanced=False"),
    ("    if tree.spout_task is None:\n        return Step(state=tree, word=Word.EARLY)\n    if tree.failure", "    if tree.failure"),
    ("    if tree.failure is not None:\n        return _finish(tree, Outcome.FAILED, now_ms)\n", ""),
    ("Word.DUPLICATE if state.emitted_by(init) else Word.CONFLICT", "Word.DUPLICATE"),
    ("room is not None and room <= 0", "room is not None and room < 0"),
    ("if step.word is Word.PENDING and room", "if room"),
    ("    if not ack.ack_val:\n        return Step(state=state, word=_standing(state))\n", ""),
    ("        edges |= {(ack.edge_id, now_ms)}\n", ""),
    ("if rules.dedupe_window_ms and ack.edge_id is not None:", "if False:"),
    ("tree = replace(_progressed(tree, now_ms), edges=edges)", "tree = replace(tree, edges=edges)"),
    ("failure=tree.failure or fail", "failure=fail"),
    ("timeout = state.message_timeout_ms or rules.message_timeout_ms", "timeout = rules.message_timeout_ms"),
    ("    return Step(state=_progressed(tree, now_ms), word=Word.PENDING)", "    return Step(state=tree, word=Word.PENDING)"),
    ("now_ms <= state.due_ms", "now_ms < state.due_ms"),
    ("    if state.spout_task is None:\n        return None, None\n", ""),
    ("init.message_timeout_ms or rules.message_timeout_ms", "rules.message_timeout_ms"),
    ("rules.progress_timeout_ms if init.progress_timeout_ms is None else init.progress_timeout_ms", "rules.progress_timeout_ms"),
    ("return count + more if count + more in _INT32 else None", "return count + more"),
    ("    if count is None or more is None:\n        return None\n", "    count, more = count or 0, more or 0\n"),
    ("at_ms // window_ms <= 1", "at_ms // window_ms <= 0"),
    ("at_ms // window_ms <= 1", "at_ms // window_ms <= 2"),
    ("        return state if _remembered(state.at_ms, now_ms, rules.retention_ms) else None", "        return state"),
    ("    if not rules.tracked:\n        return _untracked(message, now_ms, rules)\n", ""),
    ("return Word.EARLY if state is None or state.spout_task is None else Word.PENDING", "return Word.PENDING"),
    ("started_ms=tree.started_ms,", "started_ms=now_ms,"),
]  # fmt: skip

IN_REPEATS = [
    ("return Word.MAX_SPOUT_PENDING if places_refused else Word.DUPLICATE", "return Word.DUPLICATE"),
    ("return Word.PENDING if state.emitted_by(init) else Word.CONFLICT", "return Word.PENDING"),
    ("return Word.DUPLICATE if isinstance(message, Fail) else Word.PENDING", "return Word.PENDING"),
    ("return Word.UNKNOWN if isinstance(message, ResetTimeout) else Word.EARLY", "return Word.EARLY"),
    ("    if state is None:\n        return Word.DUPLICATE\n    if state.spout_task", "    if state is None:\n        return Word.EARLY\n    if state.spout_task"),
]  # fmt: skip


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
            mailbox = acker.mailbox if isinstance(acker, LawUnderTest) else acker.mailbox()
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


@pytest.mark.parametrize(("old", "new"), IN_LUA)
def test_a_rule_broken_in_lua_is_noticed(driven_url: str, old: str, new: str) -> None:
    text = broken(library.source(), old, new)

    def make(scenario: Scenario) -> DrivenStore:
        return DrivenStore(driven_url, scenario.configuration, window_ms=WINDOW_MS, text=text)

    assert is_noticed(make, driven_url, text)


@pytest.mark.parametrize(
    ("module", "old", "new"), [(tree, *m) for m in IN_THE_LAW] + [(idempotency, *m) for m in IN_REPEATS]
)
def test_a_rule_broken_in_the_law_is_noticed(
    driven_url: str, monkeypatch: pytest.MonkeyPatch, module: types.ModuleType, old: str, new: str
) -> None:
    mutant = types.ModuleType(module.__name__)
    exec(broken(Path(str(module.__file__)).read_text(), old, new), mutant.__dict__)
    for name in ("apply", "expire", "recall", "repeat"):
        if hasattr(mutant, name) and hasattr(module, name):
            monkeypatch.setattr(law_acker, name, getattr(mutant, name))

    def make(scenario: Scenario) -> LawUnderTest:
        return LawUnderTest(scenario.configuration, WINDOW_MS, 0)

    assert is_noticed(make, driven_url, library.source())
