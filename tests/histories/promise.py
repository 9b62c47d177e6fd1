"""Compares the histories of a run with the promise: what was lost, told early or twice, or is not explained."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acker_protocol.ids import format_id
from acker_protocol.operations import Ack, Fail, Init, OperationState, Outcome, ResetTimeout
from acker_protocol.states import TopologyRules

from tests.histories.explain import CLOCK_MS, explain
from tests.histories.roots import Event, Histories, RootHistory

ADMITTED = frozenset(
    {
        OperationState.PENDING,
        OperationState.ACKED,
        OperationState.FAILED,
        OperationState.FINISHED,
        OperationState.CONFLICT,
    }
)
"""States that no root without an init answers."""

CLAUSES = ("lost", "early", "premature", "twice", "unexplained")
"""What may be broken."""

SHOWN = 20
"""So many roots of each kind are described."""

Span = tuple[float, float]
"""From one time to another, in milliseconds of the wall clock."""


@dataclass(slots=True, kw_only=True)
class Audit:
    """What histories come to. ``lost``, ``early``, ``premature`` (timed out before the deadline), ``twice`` and
    ``unexplained`` are the roots that break the promise.

    ``repeated`` are completions that were told again as they were before, which is allowed. ``latest_ms`` is how long
    after its deadline the latest root timed out, ``latest_in_quiet_ms`` the same of those whose deadline no fault was
    near, None where there was none.
    """

    roots: int = 0
    operations: int = 0
    requests: int = 0
    attempts: int = 0
    unknown: int = 0
    tellings: int = 0
    repeated: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    premature: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    latest_ms: float | None = None
    latest_in_quiet_ms: float | None = None
    timeouts_in_quiet: int = 0
    points: int = 0
    descriptions: list[str] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        """Whether the promise is."""
        return not (self.lost or self.early or self.premature or self.twice or self.unexplained)


def audit(
    histories: Histories,
    rules: Mapping[str, TopologyRules],
    faults: Sequence[Span] = (),
    *,
    clock_ms: float = CLOCK_MS,
) -> Audit:
    """Audit each root of some topologies, whose rules are given by their names; ``faults`` is when there were any.

    The clock of the store may be ``clock_ms`` from that of the clients.
    """
    found = Audit(
        operations=histories.operations,
        requests=histories.requests,
        attempts=histories.attempts,
        unknown=histories.unknown,
    )
    for (topology, _), history in histories.roots.items():
        if topology in rules:
            _audit_root(found, history, rules[topology], faults, clock_ms)
    return found


def _audit_root(
    found: Audit, history: RootHistory, rules: TopologyRules, faults: Sequence[Span], clock_ms: float
) -> None:
    found.roots += 1
    found.tellings += history.tellings
    found.repeated += history.tellings - len(history.completions)
    found.outcomes.update(each["outcome"] for each in history.completions.values())
    explanation = explain(history, rules, clock_ms)
    told = history.completions.values()
    found.points += explanation.points
    broken = {
        "lost": is_lost(history),
        "early": any(is_early(history, completion, clock_ms) for completion in told),
        "premature": any(is_premature(history, completion, rules, clock_ms) for completion in told),
        "twice": len(history.completions) > 1,
        "unexplained": not explanation.is_explained,
    }
    for clause in (clause for clause, is_broken in broken.items() if is_broken):
        roots: list[str] = getattr(found, clause)
        roots.append(f"{history.topology}/{format_id(history.root_id)}")
        if len(roots) <= SHOWN:
            found.descriptions.append(f"{clause}: {describe(history)}")
    for completion in told:
        _measure(found, history, completion, rules, faults)


def is_lost(history: RootHistory) -> bool:
    """Whether an answer says that a root had its init, and nobody was told of its end."""
    return not history.completions and any(
        state in ADMITTED and not isinstance(operation, ResetTimeout)
        for event in history.events
        for operation, state in zip(event.operations, event.states, strict=False)
    )


def is_early(history: RootHistory, completion: dict[str, Any], clock_ms: float) -> bool:
    """Whether a completion tells of an end before the last ack, or a fail, was sent.

    An ack or a fail that was sent may have had its effect, whatever it was answered.
    """
    at_ms = completion["at_ms"] + 1 + clock_ms
    before = [operation for event in history.events if event.sent_ms <= at_ms for operation in event.operations]
    if completion["outcome"] == Outcome.FAILED:
        return not any(isinstance(operation, Fail) for operation in before)
    ended = {each.edge_id for each in before if isinstance(each, Ack | Fail)}
    return completion["outcome"] == Outcome.ACKED and None not in ended and not set(_edges(before)) <= ended


def is_premature(history: RootHistory, completion: dict[str, Any], rules: TopologyRules, clock_ms: float) -> bool:
    """Whether a completion tells of a timeout before the deadline."""
    if completion["outcome"] != Outcome.TIMED_OUT:
        return False
    return bool(completion["at_ms"] + 1 + clock_ms < _earliest_deadline_ms(history, completion, rules))


def _edges(operations: Iterable[object]) -> Iterator[int]:
    """Return the edges that operations name: those of inits, and the children."""
    for operation in operations:
        match operation:
            case Init(edges=tuple() as named) | Ack(children=tuple() as named) | Fail(children=tuple() as named):
                yield from named


def _earliest_deadline_ms(history: RootHistory, completion: dict[str, Any], rules: TopologyRules) -> float:
    """Return the earliest deadline that a root may have had when it timed out."""
    begun = [(event.sent_ms, _timeout_ms(each, rules)) for event, each in _each(history) if isinstance(each, Init)]
    least = min((sent_ms + timeout_ms for sent_ms, timeout_ms in begun), default=0.0)
    timeout_ms = min((timeout_ms for _, timeout_ms in begun), default=0)
    reset = [
        event.sent_ms + timeout_ms
        for event in history.events
        for each, state in zip(event.operations, event.states, strict=False)
        if isinstance(each, ResetTimeout) and state is OperationState.PENDING
        if event.answered_ms is not None and event.answered_ms < completion["at_ms"]
    ]
    return max([least, *reset]) if _is_reset_once(history) else least


def _is_reset_once(history: RootHistory) -> bool:
    """Whether no request that resets was repeated: a repeat is answered with the present state, and resets nothing."""
    resets = [event.request for event, each in _each(history) if isinstance(each, ResetTimeout)]
    return len(resets) == len(set(resets))


def _measure(
    found: Audit, history: RootHistory, completion: dict[str, Any], rules: TopologyRules, faults: Sequence[Span]
) -> None:
    """Measure how late a timeout came, where it is known when its deadline was at the latest."""
    if completion["outcome"] != Outcome.TIMED_OUT:
        return
    moved = [(event, each) for event, each in _each(history) if isinstance(each, Init | ResetTimeout)]
    timeouts = [_timeout_ms(each, rules) for _, each in moved if isinstance(each, Init)]
    answers = [event.answered_ms for event, _ in moved if event.answered_ms is not None]
    if len(answers) < len(moved) or not timeouts:
        return
    deadline_ms = max(answers) + max(timeouts)
    late_ms = round(max(0.0, completion["at_ms"] - deadline_ms), 1)
    found.latest_ms = max(late_ms, found.latest_ms or 0.0)
    if not any(from_ms <= deadline_ms + 1_000 and deadline_ms <= until_ms for from_ms, until_ms in faults):
        found.timeouts_in_quiet += 1
        found.latest_in_quiet_ms = max(late_ms, found.latest_in_quiet_ms or 0.0)


def _each(history: RootHistory) -> Iterator[tuple[Event, object]]:
    return ((event, operation) for event in history.events for operation in event.operations)


def _timeout_ms(operation: object, rules: TopologyRules) -> int:
    given = operation.message_timeout_ms if isinstance(operation, Init) else None
    return given or rules.message_timeout_ms


def describe(history: RootHistory) -> str:
    """Write a root's history in lines, as one reads it."""
    began = min((event.sent_ms for event in history.events), default=0.0)
    lines = [f"root {format_id(history.root_id)} of {history.topology}, times in ms since its first request"]
    for event in sorted(history.events, key=lambda event: event.sent_ms):
        until = "no answer" if event.answered_ms is None else f"{event.answered_ms - began:.1f}"
        states = ", ".join(state or "accepted" for state in event.states)
        replayed = " replayed" if event.replayed else ""
        lines.append(f"  {event.sent_ms - began:.1f} to {until}, request {event.request}: {states}{replayed}")
        lines += [f"    {operation}" for operation in event.operations]
    lines += [f"  at {each['at_ms'] - began:.1f}: {each}" for each in history.completions.values()]
    return "\n".join(lines)
