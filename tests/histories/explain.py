"""Decides whether one order of the events on a root explains all that clients were answered and told.

The search is that of Wing and Gong (Testing and verifying concurrent objects, 1993) with the memo of Lowe (Testing for
linearizability, 2017): of the events that are left, one may come next if none of the others was answered before it was
sent. Each step is one of the shipped state machine, `acker_protocol.tree`; what a repeated request is answered is that
of `acker_protocol.idempotency`. Windows and the retention have to be longer than the history: here time stands still,
but for a timeout, which comes when its completion says that it came.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from acker_protocol.idempotency import replay_operation
from acker_protocol.operations import REFUSED, CompletionRecord, OperationState, Outcome
from acker_protocol.states import Finished, State, TopologyRules, Tree
from acker_protocol.tree import apply_operation, expire
from acker_protocol.wire.completions import encode_completion

from tests.histories.roots import Event, RootHistory

NEVER = float("inf")
CLOCK_MS = 20.0
"""How far the clock of the store may be from that of the clients."""

OF_THE_STORE = frozenset({OperationState.STORE_FULL, OperationState.MAILBOX_FULL})
"""Refusals by what the store has room for, which no history knows: they are taken as they come."""

OF_THE_CLOCK = frozenset({"id", "at_ms", "complete_latency_ms", "last_ack_at_ms"})
"""What a completion tells of times, and its id, which depends on one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A thing that may come next: an event, or the timeout of the root where ``event`` is None.

    ``is_needed`` where it was answered or told; one that is not needed may have had no effect at all.
    """

    event: Event | None
    from_ms: float
    until_ms: float
    is_needed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """How far an order has come: the root, the requests it knows, with the indexes of refused operations, its end."""

    root: State = None
    known: frozenset[tuple[int, tuple[int, ...]]] = frozenset()
    has_ended: bool = False


@dataclass(slots=True, kw_only=True)
class Explanation:
    """Whether a root's history has an order that explains it, one such order, and how many points were looked at.

    Where there is none, ``order`` is the longest that was found.
    """

    is_explained: bool
    order: list[Step] = field(default_factory=list)
    points: int = 0


def explain(history: RootHistory, rules: TopologyRules, clock_ms: float = CLOCK_MS) -> Explanation:
    """Search for an order of a root's events that explains its history.

    The clock of the store may be ``clock_ms`` from that of the clients.
    """
    return _Search(history, rules, clock_ms).run()


class _Search:
    def __init__(self, history: RootHistory, rules: TopologyRules, clock_ms: float) -> None:
        self._rules = rules
        self._clock_ms = clock_ms
        self._completion = next(iter(history.completions.values()), None)
        self._steps = sorted(_steps(history.events, self._completion, clock_ms), key=lambda step: step.until_ms)
        self._needed = sum(1 << at for at, step in enumerate(self._steps) if step.is_needed)
        self._seen: set[tuple[int, Point]] = set()
        self._best: list[Step] = []

    def run(self) -> Explanation:
        order: list[Step] = []
        waiting = [self._next(0, Point())]
        if self._is_done(0, Point()):
            return Explanation(is_explained=True)
        while waiting:
            found = next(waiting[-1], None)
            if found is None:
                waiting.pop()
                if order:
                    order.pop()
                continue
            done, step, point = found
            order.append(step)
            if len(order) > len(self._best):
                self._best = [*order]
            if self._is_done(done, point):
                return Explanation(is_explained=True, order=order, points=len(self._seen))
            waiting.append(self._next(done, point))
        return Explanation(is_explained=False, order=self._best, points=len(self._seen))

    def _is_done(self, done: int, point: Point) -> bool:
        return done & self._needed == self._needed and (point.has_ended or self._completion is None)

    def _next(self, done: int, point: Point) -> Iterator[tuple[int, Step, Point]]:
        left = [(at, step) for at, step in enumerate(self._steps) if not done >> at & 1]
        first_answer = min((step.until_ms for _, step in left if step.is_needed), default=NEVER)
        for at, step in left:
            if step.from_ms > first_answer:
                continue
            for after in self._take(step, point):
                if after == point and not step.is_needed:
                    continue  # without an effect it may as well never have arrived
                mark = (done | 1 << at, after)
                if mark not in self._seen:
                    self._seen.add(mark)
                    yield *mark[:1], step, after

    def _take(self, step: Step, point: Point) -> Iterator[Point]:
        """Return where a step may lead, if it explains what was answered."""
        if step.event is None:
            yield from self._time_out(point)
        elif (known := dict(point.known).get(step.event.request)) is not None:
            if self._fits_replay(step.event, point.root, known):
                yield point
        elif step.event.replayed is not True:
            yield from self._apply(step, step.event, point)

    def _time_out(self, point: Point) -> Iterator[Point]:
        if isinstance(point.root, Tree) and point.root.spout_task is not None:
            after, completion = expire(point.root, now_ms=point.root.due_ms + 1, rules=self._rules)
            if completion is not None and self._is_told(completion):
                yield replace(point, root=after, has_ended=True)

    def _fits_replay(self, event: Event, root: State, refused: tuple[int, ...]) -> bool:
        return event.replayed is not False and all(
            _fits(replay_operation(root, operation, refused=at in refused), state)
            for at, (operation, state) in enumerate(zip(event.operations, event.states, strict=False))
        )

    def _apply(self, step: Step, event: Event, point: Point) -> Iterator[Point]:
        root, has_ended, refused = point.root, point.has_ended, list[int]()
        for at, operation in enumerate(event.operations):
            answered = event.states[at] if event.states else None
            if answered in OF_THE_STORE and not isinstance(root, Finished):
                refused.append(at)
                continue
            done = apply_operation(root, operation, now_ms=0, rules=self._rules)
            if event.states and not _fits(done.operation_state, answered):
                return
            if done.operation_state in REFUSED:
                refused.append(at)
            if done.completion is not None:
                if not self._may_end(step, done.completion):
                    return
                has_ended = True
            root = done.state
        after = replace(point, root=root, has_ended=has_ended)
        if not event.has_key or refused:  # a single operation that is refused is not remembered, one of a batch is
            yield after
        if event.has_key:
            yield replace(after, known=point.known | {(event.request, tuple(refused))})

    def _may_end(self, step: Step, record: CompletionRecord) -> bool:
        """Whether a step may end the root so, by the completion that was told."""
        return self._completion is None or (self._is_told(record) and self._is_in_time(step))

    def _is_told(self, record: CompletionRecord) -> bool:
        """Whether a completion is the one that was told, but for its times."""
        return self._completion is not None and _timeless(encode_completion(record, incarnation="")) == _timeless(
            self._completion
        )

    def _is_in_time(self, step: Step) -> bool:
        assert self._completion is not None
        return step.from_ms - self._clock_ms <= self._completion["at_ms"] + 1 and (
            self._completion["at_ms"] <= step.until_ms + self._clock_ms
        )


def _steps(events: Sequence[Event], completion: dict[str, Any] | None, clock_ms: float) -> Iterator[Step]:
    """Return what may come next at some time; of all attempts without an answer of a request one stands for all."""
    unknown: dict[int, Event] = {}
    for event in events:
        if event.answered_ms is not None:
            yield Step(event=event, from_ms=event.sent_ms, until_ms=event.answered_ms, is_needed=True)
        elif event.request not in unknown or event.sent_ms < unknown[event.request].sent_ms:
            unknown[event.request] = event
    for event in unknown.values():
        yield Step(event=event, from_ms=event.sent_ms, until_ms=NEVER, is_needed=False)
    if completion is not None and completion["outcome"] == Outcome.TIMED_OUT:
        at_ms = completion["at_ms"]
        yield Step(event=None, from_ms=at_ms - clock_ms, until_ms=at_ms + 1 + clock_ms, is_needed=True)


def _fits(computed: OperationState, answered: OperationState | None) -> bool:
    return computed not in REFUSED if answered is None else computed is answered


def _timeless(completion: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in completion.items() if name not in OF_THE_CLOCK}
