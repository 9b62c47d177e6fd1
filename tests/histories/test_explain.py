"""Histories that the state machine explains, and histories that it does not: each kind of lie is found."""

from typing import Any

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, OperationState, ResetTimeout
from acker_protocol.states import TopologyRules
from acker_protocol.wire.operations import decode_operation

from tests.histories.explain import explain
from tests.histories.promise import CLAUSES, audit
from tests.histories.roots import Event, Histories, RootHistory

ROOT = 0x7F
RULES = TopologyRules(message_timeout_ms=600_000, dedupe_window_ms=600_000, retention_ms=600_000, root_details=True)
A, B, C = 0xA1, 0xB2, 0xC4
START = 1_000_000.0


def init(*edges: int, **fields: Any) -> Init:
    document = {"root_id": f"{ROOT:016x}", "spout_task": "s", "edges": [f"{edge:016x}" for edge in edges]}
    operation = decode_operation("init", document | {"message_timeout_ms": 5_000} | fields)
    assert isinstance(operation, Init)
    return operation


def ack(edge: int, *children: int, verb: str = "ack", **fields: Any) -> Ack | Fail:
    document = {"root_id": f"{ROOT:016x}", "edge_id": f"{edge:016x}"}
    if children:
        document["children"] = [f"{child:016x}" for child in children]  # type: ignore[assignment]
    operation = decode_operation(verb, document | fields)
    assert isinstance(operation, Ack | Fail)
    return operation


def event(
    request: int, operation: Operation, sent: float, answered: float | None, state: str | None = None, **fields: Any
) -> Event:
    return Event(
        request=request,
        operations=(operation,),
        sent_ms=START + sent,
        answered_ms=None if answered is None else START + answered,
        states=() if answered is None else (OperationState(state) if state else None,),
        **fields,
    )


def completion(outcome: str, at: float, **fields: Any) -> dict[str, Any]:
    document = {
        "id": f"{outcome}-{at}",
        "root_id": f"{ROOT:016x}",
        "outcome": outcome,
        "message_id": None,
        "reason": None,
        "component": None,
        "complete_latency_ms": 1,
        "at_ms": int(START + at),
    }
    where = {"last_component": None, "last_ack_at_ms": None, "outstanding": None}
    return document | (where if outcome == "timed_out" else {}) | fields


def history(*events: Event, told: list[dict[str, Any]]) -> RootHistory:
    found = RootHistory(topology="t", root_id=ROOT, events=[*events])
    for each in told:
        found.tell(each)
    return found


ACKED_AT_30 = completion("acked", 30)
GOOD = {
    "one operation after the other": history(
        event(1, init(A), 0, 10, "pending"), event(2, ack(A), 20, 40, "acked"), told=[ACKED_AT_30]
    ),
    "the answer of the last ack is lost, and its repeat is answered": history(
        event(1, init(A), 0, 10, "pending"),
        event(2, ack(A), 20, None),
        event(2, ack(A), 50, 60, "finished", replayed=True),
        told=[ACKED_AT_30],
    ),
    "an ack that is given up ends the root": history(
        event(1, init(A), 0, 10, "pending"), event(2, ack(A), 20, None), told=[completion("acked", 4_000)]
    ),
    "an ack that is given up never arrives": history(
        event(1, init(A), 0, 10, "pending"),
        event(2, ack(A), 20, None),
        told=[completion("timed_out", 5_020, outstanding=1)],
    ),
    "two acks at once, of which either may be the last": history(
        event(1, init(A, B), 0, 10, "pending"),
        event(2, ack(A), 20, 50, "acked"),
        event(3, ack(B), 21, 51, "pending"),
        told=[ACKED_AT_30],
    ),
    "an early ack": history(event(1, ack(A), 0, 10, "early"), event(2, init(A), 20, 40, "acked"), told=[ACKED_AT_30]),
    "an ack that overtakes its init in the network": history(
        event(1, init(A), 0, 40, "acked"), event(2, ack(A), 1, 39, "early"), told=[ACKED_AT_30]
    ),
    "an edge that is acked again": history(
        event(1, init(A, B), 0, 10, "pending"),
        event(2, ack(A), 11, 12, "pending"),
        event(3, ack(A), 13, 14, "duplicate"),
        event(4, ack(B), 20, 40, "acked"),
        event(5, ack(B), 50, 60, "finished"),
        told=[ACKED_AT_30],
    ),
    "answers that only tell that all was accepted": history(
        event(1, init(A), 0, 10), event(2, ack(A), 20, 40), told=[ACKED_AT_30]
    ),
    "an edge that fails where all have to end": history(
        event(1, init(A, end_on="all_ended"), 0, 10, "pending"),
        event(2, ack(A, B, verb="fail", reason="no"), 11, 12, "pending"),
        event(3, ack(B, dropped=True), 20, 40, "failed"),
        told=[completion("failed", 30, reason="no", failures=1, dropped=1)],
    ),
    "a timeout that is reset": history(
        event(1, init(A), 0, 10, "pending"),
        event(2, ResetTimeout(root_id=ROOT), 4_000, 4_010, "pending"),
        told=[completion("timed_out", 9_050, outstanding=1)],
    ),
    "an init that the store has no room for": history(
        event(1, init(A), 0, 10, "store_full"),
        event(2, init(A), 12, 18, "pending"),
        event(3, ack(A), 20, 40, "acked"),
        told=[ACKED_AT_30],
    ),
    "an init whose effect nobody knows": history(event(1, init(A), 0, None), told=[]),
}

BAD = {
    "early: acked while an edge is open": (
        "early",
        history(event(1, init(A, B), 0, 10, "pending"), event(2, ack(A), 20, 40, "acked"), told=[ACKED_AT_30]),
    ),
    "early: acked before the child that an ack names": (
        "early",
        history(event(1, init(A), 0, 10, "pending"), event(2, ack(A, C), 20, 40, "acked"), told=[ACKED_AT_30]),
    ),
    "early: acked before the last ack was sent": (
        "early",
        history(event(1, init(A), 0, 10, "pending"), event(2, ack(A), 200, 210, "finished"), told=[ACKED_AT_30]),
    ),
    "premature: timed out before the deadline": (
        "premature",
        history(event(1, init(A), 0, 10, "pending"), told=[completion("timed_out", 4_900, outstanding=1)]),
    ),
    "premature: timed out before a deadline that was reset": (
        "premature",
        history(
            event(1, init(A), 0, 10, "pending"),
            event(2, ResetTimeout(root_id=ROOT), 4_000, 4_010, "pending"),
            told=[completion("timed_out", 5_050, outstanding=1)],
        ),
    ),
    "early: failed, and nobody sent a fail": (
        "early",
        history(event(1, init(A), 0, 10, "pending"), told=[completion("failed", 30)]),
    ),
    "lost: an init that was answered": ("lost", history(event(1, init(A), 0, 10, "pending"), told=[])),
    "lost: an ack that ended its root": (
        "lost",
        history(event(1, init(A), 0, None), event(2, ack(A), 20, 40, "acked"), told=[]),
    ),
    "twice: two completions of a root": (
        "twice",
        history(
            event(1, init(A), 0, 10, "pending"),
            event(2, ack(A), 20, 40, "acked"),
            told=[ACKED_AT_30, completion("timed_out", 5_020, outstanding=1)],
        ),
    ),
    "stale: pending after it was acked": (
        "unexplained",
        history(
            event(1, init(A), 0, 10, "pending"),
            event(2, ack(A), 20, 40, "acked"),
            event(3, ack(A), 50, 60, "pending"),
            told=[ACKED_AT_30],
        ),
    ),
    "an answered ack that had no effect": (
        "unexplained",
        history(
            event(1, init(A), 0, 10, "pending"),
            event(2, ack(A), 20, 40, "acked"),
            told=[completion("timed_out", 5_020, outstanding=1)],
        ),
    ),
    "an edge that is acked again and counts again": (
        "unexplained",
        history(
            event(1, init(A, B), 0, 10, "pending"),
            event(2, ack(A), 11, 12, "pending"),
            event(3, ack(A), 13, 14, "pending"),
            told=[completion("timed_out", 5_020, outstanding=0)],
        ),
    ),
    "a repeat under one key that is applied again": (
        "unexplained",
        history(
            event(1, init(A, B), 0, 10, "pending"),
            event(2, ack(A), 11, 12, "pending"),
            event(2, ack(A), 13, 14, "duplicate", replayed=False),
            event(3, ack(B), 20, 40, "acked"),
            told=[ACKED_AT_30],
        ),
    ),
    "a repeat under one key whose answer no order gives": (
        "unexplained",
        history(
            event(1, init(A), 0, 10, "pending"),
            event(2, ack(A), 20, 40, "acked"),
            event(2, ack(A), 50, 60, "pending", replayed=True),
            told=[ACKED_AT_30],
        ),
    ),
    "a completion that tells another count of drops": (
        "unexplained",
        history(
            event(1, init(A), 0, 10, "pending"),
            event(2, ack(A, dropped=True), 20, 40, "acked"),
            told=[completion("acked", 30, dropped=2)],
        ),
    ),
    "a completion at a time at which no operation ended its root": (
        "unexplained",
        history(
            event(1, init(A), 0, 10, "pending"), event(2, ack(A), 20, 40, "acked"), told=[completion("acked", 300)]
        ),
    ),
    "a completion of a root that nobody emitted": ("unexplained", history(told=[ACKED_AT_30])),
}


def audited(root: RootHistory) -> dict[str, int]:
    found = audit(Histories(roots={("t", ROOT): root}), {"t": RULES})
    clauses = {clause: len(getattr(found, clause)) for clause in CLAUSES}
    assert found.is_kept == (not any(clauses.values()))
    return clauses


@pytest.mark.parametrize("name", GOOD)
def test_a_history_that_keeps_the_promise_is_explained(name: str) -> None:
    assert audited(GOOD[name]) == dict.fromkeys(CLAUSES, 0)


@pytest.mark.parametrize("name", BAD)
def test_a_history_that_breaks_the_promise_is_found(name: str) -> None:
    clause, root = BAD[name]
    assert audited(root)[clause] == 1


def test_the_order_that_explains_a_history_is_one_of_its_events() -> None:
    found = explain(GOOD["two acks at once, of which either may be the last"], RULES)
    assert [step.event and step.event.request for step in found.order] == [1, 3, 2]


def test_attempts_without_an_answer_are_many_and_the_search_stays_short() -> None:
    """A client without keys sends each operation again as a request of its own, until one of them is answered."""
    edges = [1 << edge for edge in range(8)]
    attempts = [
        event(10_000 * edge + number, ack(edge), 20 + number, None, has_key=False)
        for edge in edges
        for number in range(8)
    ]
    answered = [event(1_000 + edge, ack(edge), 40, 50, "finished", has_key=False) for edge in edges]
    told = completion("acked", 35)
    root = history(event(1, init(*edges), 0, 10, "pending", has_key=False), *attempts, *answered, told=[told])
    found = explain(root, RULES)
    assert found.is_explained
    assert found.points < 1_000


def test_the_latest_timeout_is_measured_from_the_last_deadline_that_a_root_may_have_had() -> None:
    root = history(event(1, init(A), 0, 10, "pending"), told=[completion("timed_out", 5_240, outstanding=1)])
    histories = Histories(roots={("t", ROOT): root})
    found = audit(histories, {"t": RULES})
    assert (found.latest_ms, found.latest_in_quiet_ms, found.timeouts_in_quiet) == (230, 230, 1)
    found = audit(histories, {"t": RULES}, [(START + 5_900, START + 7_000)])
    assert (found.latest_ms, found.latest_in_quiet_ms, found.timeouts_in_quiet) == (230, None, 0)


@pytest.mark.parametrize(
    "name",
    [
        "premature: timed out before the deadline",
        "a completion at a time at which no operation ended its root",
    ],
)
def test_a_clock_that_was_stepped_explains_what_is_no_further_away(name: str) -> None:
    _, root = BAD[name]
    histories = Histories(roots={("t", ROOT): root})
    assert audit(histories, {"t": RULES}, clock_ms=2_000).is_kept
    assert not audit(histories, {"t": RULES}, clock_ms=50).is_kept
