"""The world of a scenario at one moment, as one number, and all that may happen next.

The number holds the store of the acker, what lies in the queue, how far each run is, copies of requests that are on
their way, what each reader and delivery worker holds, the lease, what was told, which work is done, the time, and the
faults that are left.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from acker_protocol.operations import Init, Operation

from tests.interleavings.acker import NOW_MS, Acker, Store
from tests.interleavings.scenario import Call, Program, Scenario, Send

STEP_BITS, STORE_BITS, COUNT_BITS = 4, 30, 2
_STEP, _STORE, _COUNT = (1 << STEP_BITS) - 1, (1 << STORE_BITS) - 1, (1 << COUNT_BITS) - 1

MOST_MESSAGES = 3
"""Copies of one message that are in the queue at once."""

Next = tuple[str, int]
"""What happens, and the world after it."""


@dataclass(slots=True, kw_only=True)
class Fields:
    """Places within a number, each of some bits."""

    used: int = 0

    def take(self, bits: int) -> int:
        """Return the lowest bit of a new place."""
        self.used += bits
        return self.used - bits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A step: one more copy of a message in the queue."""

    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """A step of a known mistake: it waits for a free slot, which the next step takes unseen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """A step of a known mistake: a replica reads the store, and the next step writes over what is there then."""

    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Called:
    """A step: a request, by its number. ``admitted`` is the step after an answer that admits it; after another it is
    the next one, and without a next one (``waits``) it is asked again. ``copy`` is the place of a late copy, ``loaded``
    that of the store that was read before (None: it is read in this step).
    """

    request: int
    operations: tuple[Operation, ...]
    work: int
    admitted: int
    waits: bool
    limited: bool
    copy: int
    loaded: int | None = None


_Step = _Sent | _Looked | _Loaded | _Called


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run of a program: its place, and that of the run before it."""

    name: str
    place: int
    before: int | None
    takes: tuple[int, ...]
    steps: "tuple[_Step, ...]"
    begun: bool


class Worlds:
    """The worlds of a scenario. `first` is where it begins, `nexts` what may happen then."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.acker = Acker(scenario=scenario)
        self._fields = Fields()
        self._fields.take(STORE_BITS)
        self._queue = {message: self._fields.take(COUNT_BITS) for message in scenario.messages}
        self._work = {work: self._fields.take(1) for work in sorted(scenario.work)}
        self._time, self._told = self._fields.take(2), self._fields.take(2)
        self._readers = [] if scenario.workers else [self._fields.take(2) for _ in range(scenario.readers)]
        self._workers = [(self._fields.take(2), self._fields.take(2)) for _ in range(scenario.workers)]
        self._lease = self._fields.take(2)
        self._requests: dict[int, _Called] = {}
        self._runs = [run for program in scenario.programs for run in self._compile(program)]
        self._copies = [(1 << called.copy, called) for called in self._requests.values()]
        self._faults = self._fields.take(3)
        self.all_work = sum(1 << place for place in self._work.values())
        self.first = sum(1 << run.place for run in self._runs if run.begun)
        self.first += (1 << self._queue[scenario.messages[0]]) + (scenario.faults << self._faults)

    def _compile(self, program: Program) -> Iterator[_Run]:
        """Yield the runs of a program: each fault may bring one more."""
        most = 1 + self.scenario.faults if program.runs is None else program.runs
        before = None
        for _ in range(most):
            place = self._fields.take(STEP_BITS)
            steps = tuple(self._steps(program))
            takes = tuple(self._queue[message] for message in program.takes)
            yield _Run(name=program.name, place=place, before=before, takes=takes, steps=steps, begun=not takes)
            before = place

    def _steps(self, program: Program) -> Iterator[_Step]:
        at = 1
        for step in program.steps:
            if isinstance(step, Send):
                yield _Sent(place=self._queue[step.message])
                at += 1
                continue
            looks = not self.scenario.design.takes_slots_at_once and isinstance(step.operations[0], Init)
            loads = not self.scenario.design.applies_at_once
            after = at + step.tries * (2 if looks or loads else 1)
            for attempt in range(step.tries):
                loaded = self._fields.take(STORE_BITS) if loads else None
                if loaded is not None:
                    yield _Loaded(place=loaded)
                if looks:
                    yield _Looked()
                waits = attempt == step.tries - 1
                yield self._called(step, admitted=after, waits=waits, limited=not looks, loaded=loaded)
            at = after

    def _called(self, call: Call, *, admitted: int, waits: bool, limited: bool, loaded: int | None) -> _Called:
        called = _Called(
            request=len(self._requests),
            operations=call.operations,
            work=1 << self._work[call.does] if call.does else 0,
            admitted=admitted,
            waits=waits,
            limited=limited,
            copy=self._fields.take(1),
            loaded=loaded,
        )
        self._requests[called.request] = called
        return called

    # What may happen --------------------------------------------------------------------------------------------------

    def nexts(self, world: int) -> tuple[list[Next], list[Next]]:
        """Return what may happen by itself, and what may go wrong (as long as faults are left)."""
        expected: list[Next] = []
        faulty: list[Next] = []
        for run in self._runs:
            at = world >> run.place & _STEP
            if at == 0:
                self._begin(world, run, expected, faulty)
            elif at <= len(run.steps):
                self._go_on(world, run, at, expected, faulty)
        self._serve_copies(world, expected)
        self._tell(world, expected, faulty)
        self._read(world, expected, faulty)
        self._deliver(world, expected, faulty)
        self._pass_time(world, expected)
        if not world >> self._faults:
            return expected, []
        fault = 1 << self._faults
        return expected, [(name, after - fault) for name, after in faulty]

    def _begin(self, world: int, run: _Run, expected: list[Next], faulty: list[Next]) -> None:
        if run.before is not None and not world >> run.before & _STEP:
            return
        if not all(world >> place & _COUNT for place in run.takes):
            return
        begun = world + (1 << run.place)
        expected.append((f"{run.name}: delivered", begun - sum(1 << place for place in run.takes)))
        faulty.append((f"{run.name}: delivered, and will be again", begun))

    def _go_on(self, world: int, run: _Run, at: int, expected: list[Next], faulty: list[Next]) -> None:
        step, on = run.steps[at - 1], 1 << run.place
        match step:
            case _Sent():
                if world >> step.place & _COUNT < MOST_MESSAGES:
                    expected.append((f"{run.name}: sends a message", world + on + (1 << step.place)))
            case _Looked():
                if self.acker.has_slot(world & _STORE):
                    expected.append((f"{run.name}: finds a free slot", world + on))
            case _Loaded():
                expected.append(
                    (f"{run.name}: a replica reads the root", world + on + ((world & _STORE) << step.place))
                )
            case _Called():
                after, admitted = self._serve(world | step.work, step)
                if admitted or not step.waits:
                    served = after + ((step.admitted - at if admitted else 1) << run.place)
                    expected.append((f"{run.name}: request {step.request} is answered", served))
                    if not served >> step.copy & 1:
                        name = f"{run.name}: request {step.request} is answered, and a copy of it comes later"
                        faulty.append((name, served | 1 << step.copy))
        self._crash(world, run, at, faulty)

    @staticmethod
    def _crash(world: int, run: _Run, at: int, faulty: list[Next]) -> None:
        """Let a run end in the middle; its messages come again."""
        if run.takes and all(world >> place & _COUNT < MOST_MESSAGES for place in run.takes):
            crashed = world + ((_STEP - at) << run.place)
            faulty.append((f"{run.name}: crashes", crashed + sum(1 << place for place in run.takes)))

    def _serve(self, world: int, called: _Called) -> tuple[int, bool]:
        store = known = world & _STORE
        if called.loaded is not None:
            known = world >> called.loaded & _STORE
            world -= known << called.loaded
        phase = world >> self._time & 3
        after, admitted = self.acker.serve(known, called.request, called.operations, phase, limited=called.limited)
        return world + after - store, admitted

    def _serve_copies(self, world: int, expected: list[Next]) -> None:
        for bit, called in self._copies:
            if world & bit:
                after, _ = self._serve(world - bit, called)
                expected.append((f"the copy of request {called.request} comes", after))

    def _tell(self, world: int, expected: list[Next], faulty: list[Next]) -> None:
        store = world & _STORE
        if self.acker.stores[store].owed:
            expected.append(
                ("the service puts the completion into the mailbox", world + self.acker.tell(store) - store)
            )
            faulty.append(("the service dies", world + self.acker.forget_owed(store) - store))

    def _read(self, world: int, expected: list[Next], faulty: list[Next]) -> None:
        """Let each reader read, handle and release a completion, in the order of its design."""
        store = world & _STORE
        released = world + self.acker.release(store, self.acker.unread(store)) - store
        handles_first = self.scenario.design.handles_first
        for number, place in enumerate(self._readers):
            at, name = world >> place & 3, f"reader {number}"
            if at == 0 and self.acker.stores[store].mailbox:
                after = world if handles_first else released
                expected.append((f"{name} reads a completion", after + (1 << place)))
            elif at == 1:
                handled = world if self._is_told(world) else world + (1 << self._told)
                if handles_first:
                    expected.append((f"{name} handles it", handled + (1 << place)))
                else:
                    expected.append((f"{name} handles it", handled - (1 << place)))
            elif at == 2:
                expected.append((f"{name} releases it", released - (2 << place)))
            if at:
                faulty.append((f"{name} crashes", world - (at << place)))

    def _deliver(self, world: int, expected: list[Next], faulty: list[Next]) -> None:
        """Let each delivery worker take the lease and what is in the mailbox, post it, and settle it."""
        store = world & _STORE
        unread, holder = self.acker.unread(store), world >> self._lease & 3
        for number, (place, held) in enumerate(self._workers, start=1):
            at, whose, name = world >> place & 3, world >> held & 3, f"the worker of replica {number}"
            free = world - (number << self._lease) if holder == number else world
            idle = free - (at << place) - (whose << held)
            if at == 0 and unread and not holder:
                taken = world + (number << self._lease) + (1 << place) + (unread << held)
                expected.append((f"{name} takes the lease and what is in the mailbox", taken))
            elif at == 0 and holder == number:
                expected.append(("the lease of a worker that died lapses", free))
            elif at == 1:
                posted = (world | whose << self._told) + (1 << place)
                expected.append((f"{name} posts it", posted))
                faulty.append((f"{name} posts it, and gets no answer", idle | whose << self._told))
                faulty.append((f"{name} cannot post it", idle))
            elif at == 2:
                settled = whose if self.scenario.design.settles_what_it_posted else unread
                expected.append((f"{name} settles it", idle + self.acker.release(store, settled) - store))
            if at:
                faulty.append((f"{name} dies", world - (at << place) - (whose << held)))
                if holder == number:
                    faulty.append((f"the lease of {name} lapses", free))

    def _pass_time(self, world: int, expected: list[Next]) -> None:
        if not self.scenario.expires:
            return
        store, phase = world & _STORE, world >> self._time & 3
        if phase + 1 < len(NOW_MS):
            expected.append(("time passes", world + (1 << self._time)))
        after = self.acker.tick(store, phase)
        if after != store:
            expected.append(("a tick", world + after - store))

    # What a world is --------------------------------------------------------------------------------------------------

    def store(self, world: int) -> Store:
        """Return what the acker keeps."""
        return self.acker.stores[world & _STORE]

    def is_told(self, world: int) -> bool:
        """Whether a reader handled a completion of the root."""
        return self._is_told(world)

    def is_done(self, world: int) -> bool:
        """Whether all work is done."""
        return world & self.all_work == self.all_work

    def is_other_told(self, world: int) -> bool:
        """Whether a completion of the other root was told, where delivery workers do that."""
        return bool(world >> self._told & 2)

    def _is_told(self, world: int) -> bool:
        return bool(world >> self._told & 1)
