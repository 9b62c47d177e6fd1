"""The acker of a scenario: the shipped state machine, with requests, slots and a mailbox.

All of its states are numbered as they are met, and every step from one to another is computed once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from acker_protocol.idempotency import replay_operation
from acker_protocol.operations import REFUSED, CompletionRecord, Fail, Init, Operation, OperationState, Outcome
from acker_protocol.states import Finished, State, Tree
from acker_protocol.tree import apply_operation, expire

from tests.interleavings.scenario import OTHER_ROOT, ROOT, Scenario

NOW_MS = (0, 2_000, 200_000)
"""The time before the deadline of a root, after it, and after the retention of its outcome."""

NO_EFFECT = (OperationState.DUPLICATE, OperationState.FINISHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """All that the acker keeps.

    ``requests`` are those that are remembered, with whether they were refused. ``owed`` are completions that are not in
    the mailbox yet, ``told`` how many there were of the root. ``first`` is of each edge that ended whether it failed.
    """

    root: State = None
    other: State = None
    requests: frozenset[tuple[int, bool]] = frozenset()
    mailbox: tuple[CompletionRecord, ...] = ()
    owed: tuple[CompletionRecord, ...] = ()
    completions: tuple[CompletionRecord, ...] = ()
    first: frozenset[tuple[int, bool]] = frozenset()

    @property
    def pending(self) -> int:
        """How many roots are pending."""
        return sum(isinstance(root, Tree) and root.spout_task is not None for root in (self.root, self.other))


@dataclass(slots=True, kw_only=True)
class Acker:
    """The numbered states of the acker of a scenario, and the steps between them."""

    scenario: Scenario
    stores: list[Store] = field(default_factory=lambda: [Store()])
    _numbers: dict[Store, int] = field(default_factory=lambda: {Store(): 0})
    _steps: dict[tuple[object, ...], tuple[int, bool]] = field(default_factory=dict)

    def serve(
        self, number: int, request: int, operations: tuple[Operation, ...], phase: int, *, limited: bool = True
    ) -> tuple[int, bool]:
        """Serve a request; return the store after it, and whether it was admitted."""
        step = (number, request, phase, limited)
        if step not in self._steps:
            after, admitted = self._serve(self.stores[number], request, operations, NOW_MS[phase], limited=limited)
            self._steps[step] = (self._number(after), admitted)
        return self._steps[step]

    def has_slot(self, number: int) -> bool:
        """Whether one more root may be pending."""
        slots = self.scenario.slots
        return slots is None or self.stores[number].pending < slots

    def tick(self, number: int, phase: int) -> int:
        """End the root if it is overdue; return the store after it."""

        def ticked(store: Store) -> Store:
            root, completion = expire(store.root, now_ms=NOW_MS[phase], rules=self.scenario.rules)
            # A root that is dropped begins anew.
            return self._completed(replace(store, root=root, first=store.first if root else frozenset()), completion)

        return self._step(number, ("tick", phase), ticked)

    def tell(self, number: int) -> int:
        """Put what is owed into the mailbox; return the store after it."""
        return self._step(
            number, ("tell",), lambda store: replace(store, mailbox=(*store.mailbox, *store.owed), owed=())
        )

    def forget_owed(self, number: int) -> int:
        """Lose what is owed, as a service that dies does; return the store after it."""
        return self._step(number, ("forget",), lambda store: replace(store, owed=()))

    def unread(self, number: int) -> int:
        """Return whose completions are in the mailbox: 1 for the root's, 2 for the other root's, 3 for both."""
        return sum({1 << (done.root_id == OTHER_ROOT) for done in self.stores[number].mailbox})

    def release(self, number: int, whose: int) -> int:
        """Remove completions of these roots from the mailbox; return the store after it."""

        def released(store: Store) -> Store:
            left = (done for done in store.mailbox if not whose >> (done.root_id == OTHER_ROOT) & 1)
            return replace(store, mailbox=tuple(left))

        return self._step(number, ("release", whose), released)

    def _step(self, number: int, name: tuple[object, ...], change: Callable[[Store], Store]) -> int:
        step = (number, *name)
        if step not in self._steps:
            self._steps[step] = (self._number(change(self.stores[number])), True)
        return self._steps[step][0]

    def _number(self, store: Store) -> int:
        number = self._numbers.setdefault(store, len(self.stores))
        if number == len(self.stores):
            self.stores.append(store)
        return number

    def _serve(
        self, store: Store, request: int, operations: tuple[Operation, ...], now_ms: int, *, limited: bool
    ) -> tuple[Store, bool]:
        remembers = self.scenario.design.remembers_requests
        known = dict(store.requests).get(request) if remembers else None
        if known is not None:
            answers = [replay_operation(self._root(store, each), each, refused=known) for each in operations]
            return store, not any(answer in REFUSED for answer in answers)
        is_refused = False
        for operation in operations:
            store, answer = self._apply(store, operation, now_ms, limited=limited)
            is_refused |= answer in REFUSED
        requests = store.requests | {(request, is_refused)} if remembers else store.requests
        return replace(store, requests=requests), not is_refused

    def _apply(self, store: Store, operation: Operation, now_ms: int, *, limited: bool) -> tuple[Store, OperationState]:
        slots = self.scenario.slots if limited else None
        done = apply_operation(
            self._root(store, operation),
            operation,
            now_ms=now_ms,
            rules=self.scenario.rules,
            free_slots=None if slots is None else slots - store.pending,
        )
        if operation.root_id == OTHER_ROOT:
            store = replace(store, other=done.state)
            if done.completion is not None and self.scenario.workers:
                store = replace(store, mailbox=(*store.mailbox, done.completion))
            return store, done.operation_state
        store = replace(store, root=done.state, first=self._first(store, operation, done.operation_state))
        return self._completed(store, done.completion), done.operation_state

    def _first(self, store: Store, operation: Operation, answer: OperationState) -> frozenset[tuple[int, bool]]:
        """Return how each edge ended first, where that decides something."""
        edge = None if isinstance(operation, Init) else getattr(operation, "edge_id", None)
        if not self.scenario.ends_on_all or edge is None or answer in NO_EFFECT:
            return store.first
        known = {edge for edge, _ in store.first}
        return store.first if edge in known else store.first | {(edge, isinstance(operation, Fail))}

    def _completed(self, store: Store, completion: CompletionRecord | None) -> Store:
        if completion is None:
            return store
        store = replace(store, completions=(*store.completions, completion))
        if self.scenario.design.tells_at_once:
            return replace(store, mailbox=(*store.mailbox, completion))
        return replace(store, owed=(*store.owed, completion))

    @staticmethod
    def _root(store: Store, operation: Operation) -> State:
        return store.root if operation.root_id == ROOT else store.other


def has_ended(store: Store) -> bool:
    """Whether the outcome of the root is remembered."""
    return isinstance(store.root, Finished)


def miscounted(store: Store) -> bool:
    """Whether a completion tells another number of failures than there were first fails of edges."""
    failures = sum(fails for _, fails in store.first)
    return any(
        each.failures not in (None, failures) for each in store.completions if each.outcome is not Outcome.TIMED_OUT
    )
