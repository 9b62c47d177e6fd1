"""What is said of a root, from its trace and its record."""

from dataclasses import replace

from acker_protocol.operations import Outcome
from acker_service.redis.functions.roots import RootReply, RootState
from acker_service.redis.functions.traces import EntryKind, TraceEntry, TraceReply
from acker_service.roots.explaining import explain

INIT = TraceEntry(kind=EntryKind.INIT, at_ms=1, ack_val=3, outstanding=2, names=(1, 2), text="42")
FINISHED = RootReply(now_ms=9, state=RootState.UNKNOWN)


def reply(*entries: TraceEntry, cut: bool = False) -> TraceReply:
    return TraceReply(entries=list(entries), is_cut=cut, root=FINISHED)


def test_a_root_that_is_forgotten_is_explained_by_its_trace() -> None:
    acks = [replace(INIT, kind=EntryKind.ACK, names=(), edge_id=e, ack_val=e, outstanding=-1) for e in (1, 2)]
    end = TraceEntry(kind=EntryKind.END, at_ms=5, outcome=Outcome.ACKED)
    shown = explain(reply(INIT, replace(acks[0], component="a"), acks[1], end), 7, "orders")
    assert (shown.state, shown.outcome, shown.outstanding) == (RootState.FINISHED, Outcome.ACKED, 0)
    assert (shown.message_id, shown.last_component, shown.spout_task) == ("42", "a", "orders")
    assert not shown.truncated


def test_a_trace_that_is_cut_is_truncated() -> None:
    assert explain(reply(INIT, cut=True), 7, None).truncated


def test_a_root_without_a_trace_is_not_truncated() -> None:
    shown = explain(reply(), 7, None)
    assert (shown.state, shown.traced, shown.truncated, shown.edges) == (RootState.UNKNOWN, False, False, [])
