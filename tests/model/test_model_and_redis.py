"""Random sequences of everything, through the state machine in Python and through Redis: both must agree."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from acker_protocol.operations import Ack, CompletionRecord, EndOn, Fail, Init, Operation, ResetTimeout
from acker_protocol.states import Finished, State, Tree
from acker_service.redis import library
from acker_service.roots.reading import RootView
from acker_service.topologies.config import TopologyConfig
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.driven_store import START_MS, DrivenStore
from tests.support.model_acker import ModelAcker

WINDOW_MS = 1_500
ROOTS = (1, 2, 3, 4, 2**64 - 1)
GRACES = (0, 0, 400, 3_000)
SPOUTS = ("a", "b")
LONG = "a message id that is longer than a record may hold, so it lies beside it: 刘备"

LONG_REASON = "\N{SNOWMAN}a" * 40

roots = st.sampled_from(ROOTS)
values = st.sampled_from((0, 1, 2, 3, 1 << 63, (1 << 63) | 1))
TRACEPARENT = f"00-{1:032x}-{2:016x}-01"
OTHER_TRACEPARENT = f"00-{'f' * 32}-{'e' * 16}-00"
counts = st.sampled_from((None, -1, 0, 1, 2, 2**31 - 1, -(2**31)))
small_counts = st.sampled_from((None, -1, 0, 1))
ends = st.sampled_from((None, EndOn.ALL_ENDED, EndOn.ALL_ENDED, EndOn.FIRST_FAIL))
timeouts = st.sampled_from((None, 100, 250, 2_000))
messages = st.one_of(
    st.builds(
        Init,
        root_id=roots,
        spout_task=st.sampled_from(SPOUTS),
        ack_val=values,
        outstanding=small_counts,
        message_id=st.sampled_from((None, "", "x", LONG)),
        message_timeout_ms=timeouts,
        progress_timeout_ms=st.sampled_from((None, 0, 150)),
        trace=st.sampled_from((None, True)),
        traceparent=st.sampled_from((None, None, TRACEPARENT, OTHER_TRACEPARENT)),
        end_on=ends,
    ),
    st.builds(
        Ack,
        root_id=roots,
        ack_val=values,
        outstanding=st.one_of(small_counts, counts),
        edge_id=st.sampled_from((None, 1, 2, 3)),
        children=st.sampled_from((None, (1,), (2, 3))),
        component=st.sampled_from((None, "split", "count")),
        dropped=st.sampled_from((False, False, True)),
    ),
    st.builds(
        Fail,
        root_id=roots,
        reason=st.sampled_from((None, "", "broken", LONG_REASON)),
        component=st.sampled_from((None, "bolt")),
    ),
    st.builds(
        Fail,
        root_id=roots,
        ack_val=values,
        outstanding=st.one_of(small_counts, counts),
        edge_id=st.sampled_from((None, 1, 2, 3)),
        children=st.sampled_from((None, (1,), (2, 3))),
        reason=st.sampled_from((None, "broken", LONG_REASON)),
        component=st.sampled_from((None, "bolt")),
    ),
    st.builds(ResetTimeout, root_id=roots),
)
requests = st.lists(messages, min_size=1, max_size=8)
keys = st.sampled_from((None, "k1", "k2"))
configurations = st.builds(
    TopologyConfig,
    ackers=st.sampled_from((0, 1, 2, 3)),
    message_timeout_ms=st.sampled_from((300, 600)),
    progress_timeout_ms=st.sampled_from((None, 200)),
    max_spout_pending=st.sampled_from((None, None, 1, 2)),
    dedupe_window_ms=st.sampled_from((0, 400)),
    retention_ms=st.sampled_from((1_000, 1_700)),
    buckets=st.sampled_from((1, 2, 16)),
    trace=st.sampled_from((0, 0.5, 1)),
    root_details=st.sampled_from((True, True, False)),
    end_on=st.sampled_from(EndOn),
    grace_ms=st.sampled_from(GRACES),
)


class ModelAndRedis(RuleBasedStateMachine):
    """Drives both with the same requests and the same time, and compares all that can be seen."""

    url: str
    text: str

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[list[Operation], str | None]] = []

    @initialize(
        configuration=configurations,
        max_early=st.sampled_from((1, 2, 3, 1_000_000)),
        early_max_bytes=st.sampled_from((1_000, 2_000, 4_000, 67_108_864)),
    )
    def begin(self, configuration: TopologyConfig, max_early: int, early_max_bytes: int) -> None:
        """Bound the bytes of early roots where nothing is traced: the model does not know what a trace takes."""
        bounds = {"max_early": max_early} | ({} if configuration.trace else {"early_max_bytes": early_max_bytes})
        self.redis = DrivenStore(self.url, configuration, window_ms=WINDOW_MS, text=self.text, **bounds)
        self.model = ModelAcker(configuration, WINDOW_MS, START_MS, **bounds)

    @rule(request=requests, key=keys)
    def send(self, request: list[Operation], key: str | None) -> None:
        self.sent.append((request, key))
        self._send(request, key)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        self._send(*data.draw(st.sampled_from(self.sent[-6:])))

    @rule(ms=st.sampled_from((1, 50, 199, 200, 201, 300, 600, 1_000, 1_500, 3_000, 40_000)))
    def let_time_pass(self, ms: int) -> None:
        self.model.now_ms += ms
        self.redis.advance(ms)

    @rule(is_full=st.booleans())
    def fill(self, is_full: bool) -> None:  # noqa: FBT001 - Hypothesis passes by name
        self.model.is_full = is_full
        self.redis.fill(is_full=is_full)

    @rule()
    def tick(self) -> None:
        self.model.tick()
        self.redis.tick()

    @rule(
        message_timeout_ms=st.sampled_from((200, 500)),
        progress_timeout_ms=st.sampled_from((None, 150)),
        max_spout_pending=st.sampled_from((None, 1, 3)),
    )
    def another_replica_changes_the_topology(self, **changes: Any) -> None:
        self.model.configuration = replace(self.model.configuration, **changes)
        self.redis.configure(self.model.configuration)

    @invariant()
    def all_that_is_seen_is_equal(self) -> None:
        seen = self.redis.seen(ROOTS)
        assert [_read(root) for root in seen.roots] == [_seen(self.model.state(root_id)) for root_id in ROOTS]
        assert _by_count(seen.mailbox) == _by_count(self.model.mailbox)
        assert {name: count for name, count in seen.pending.items() if count} == {
            name: count for name in SPOUTS if (count := self.model.pending(name))
        }
        assert seen.early == self.model.early()
        assert self.model.configuration.trace or seen.early_bytes == self.model.early_bytes()
        assert sum(seen.unread.values()) == len(self.model.mailbox)
        assert +Counter(seen.totals) == +self.model.counts

    def teardown(self) -> None:
        if hasattr(self, "redis"):
            self.redis.close()

    def _send(self, request: list[Operation], key: str | None) -> None:
        assert self.redis.apply(request, key) == self.model.apply(request, key)


def _seen(state: State) -> tuple[object, ...]:
    if state is None:
        return ("N",)
    if isinstance(state, Finished):
        return ("F", state.outcome)
    return _tree(state)


def _tree(tree: Tree) -> tuple[object, ...]:
    name = "P" if tree.spout_task else "E"
    fields = (tree.spout_task, tree.message_id) if tree.spout_task else (None, None)
    return (name, tree.ack_val, tree.outstanding, tree.started_ms, tree.due_ms, *fields)


def _read(root: RootView) -> tuple[object, ...]:
    if root.is_finished:
        return (root.state.value, root.outcome) if root.outcome else ("N",)
    fields = (root.spout_task, root.message_id)
    return (root.state.value, root.ack_val, root.outstanding, root.started_ms, root.due_ms, *fields)


def _by_count(mailbox: list[CompletionRecord]) -> Counter[CompletionRecord]:
    return Counter(mailbox)


def compare(url: str, *, examples: int, text: str, phases: Sequence[Phase] = tuple(Phase)) -> None:
    """Run the comparison with this text of the library."""
    machine = type("Machine", (ModelAndRedis,), {"url": url, "text": text})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


@pytest.mark.timeout(600)
def test_no_sequence_tells_them_apart(driven_url: str) -> None:
    compare(driven_url, examples=int(os.environ.get("EXAMPLES", "60")), text=library.source())
