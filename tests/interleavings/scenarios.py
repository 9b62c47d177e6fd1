"""The scenarios that are tried: of Acker as it is, and of known mistakes, each of which has to be found."""

from dataclasses import replace

from acker_protocol.operations import Ack, EndOn

from tests.interleavings.scenario import (
    OTHER_ROOT,
    ROOT,
    RULES,
    A,
    Call,
    Design,
    Program,
    Scenario,
    acked,
    bolt,
    edge,
    failing,
    sends,
    spout,
)

B, C = edge(A, "b"), edge(A, "c")
D_OF_B, D_OF_C = edge(B, "d"), edge(C, "d")
ALL_ENDED = replace(RULES, end_on=EndOn.ALL_ENDED)
NO_WINDOW = replace(RULES, dedupe_window_ms=0)


def _scenario(name: str, *programs: Program, work: str, **fields: object) -> Scenario:
    return replace(
        Scenario(name=name, programs=(spout(), *programs), work=frozenset(work)),
        **fields,  # type: ignore[arg-type]
    )


CHAIN = _scenario("a → b", bolt("a", A, b=B), bolt("b", B), work="ab")
FAN = _scenario("a → b, c", bolt("a", A, b=B, c=C), bolt("b", B), bolt("c", C), work="abc")
JOIN = _scenario(
    "a → b, c → d",
    bolt("a", A, b=B, c=C),
    Program(
        name="join of b and c",
        takes=("b", "c"),
        steps=(*sends("d"), Call(operations=(acked(B, D_OF_B), acked(C, D_OF_C)), does="b")),
    ),
    Program(name="d", takes=("d",), steps=(Call(operations=(acked(D_OF_B), acked(D_OF_C)), does="d"),)),
    work="abd",
)
FAILS = _scenario(
    "a → b, each of which may fail",
    *(bolt("a", A, b=B), failing("a", A, b=B), bolt("b", B), failing("b", B)),
    work="ab",
)
ALL = replace(FAILS, name="a → b, each of which may fail, and all have to end", rules=ALL_ENDED)
OTHER_EDGE = 0xB9
OTHER_SPOUT = Program(
    name="the other root",
    steps=(
        *spout(OTHER_ROOT, OTHER_EDGE, tries=2).steps,
        Call(operations=(Ack(root_id=OTHER_ROOT, ack_val=OTHER_EDGE, outstanding=-1, edge_id=OTHER_EDGE),)),
    ),
    runs=1,
)
SLOT = Scenario(
    name="a, while another root may hold the only slot",
    programs=(spout(tries=2), OTHER_SPOUT, bolt("a", A)),
    work=frozenset("a"),
    slots=1,
)
READERS = replace(CHAIN, name="a → b, with two readers", readers=2)
DELIVERED = replace(CHAIN, name="a → b, delivered by two replicas", workers=2)
BESIDE = Scenario(
    name="a, beside another root, delivered by two replicas",
    programs=(spout(), OTHER_SPOUT, bolt("a", A)),
    work=frozenset("a"),
    workers=2,
)

SOUND = (CHAIN, FAN, JOIN, FAILS, ALL, SLOT, READERS, DELIVERED, BESIDE)
"""Acker as it is: nothing may be found."""


# Known mistakes -------------------------------------------------------------------------------------------------------


def _random(own: int, run: int) -> Program:
    """A bolt whose child gets another edge in each of its runs."""
    child = edge(A, f"b of run {run}")
    call = Call(operations=(acked(own, child),), does="a")
    return Program(name=f"a, run {run}", takes=("a",), steps=(*sends(f"b of run {run}"), call), runs=1)


def _random_child(run: int) -> Program:
    own = edge(A, f"b of run {run}")
    return Program(
        name=f"b of run {run}", takes=(f"b of run {run}",), steps=(Call(operations=(acked(own),), does="b"),)
    )


def _ordered(*children: str) -> Program:
    """A bolt whose children get their edges by their order, and which sends them in this order."""
    edges = [edge(A, str(place)) for place in range(len(children))]
    call = Call(operations=(acked(A, *edges),), does="a")
    messages = [f"{child} as {place}" for place, child in enumerate(children)]
    return Program(name=f"a, which sends {' and '.join(children)}", takes=("a",), steps=(*sends(*messages), call))


def _ordered_child(name: str, place: int) -> Program:
    call = Call(operations=(acked(edge(A, str(place))),), does=name)
    return Program(name=f"{name} as {place}", takes=(f"{name} as {place}",), steps=(call,))


def _compact(name: str, own: int, **children: int) -> Program:
    """A bolt whose acks name no edge."""
    program = bolt(name, own, **children)
    ack = replace(acked(own, *children.values()), edge_id=None)
    return replace(program, steps=(*program.steps[:-1], Call(operations=(ack,), does=name)))


SPLIT = _scenario(
    "an ack in two requests, of the edge and of its children",
    Program(
        name="a",
        takes=("a",),
        steps=(
            *sends("b"),
            Call(operations=(Ack(root_id=ROOT, ack_val=A),), does="a"),
            Call(operations=(Ack(root_id=ROOT, ack_val=B),)),
        ),
    ),
    bolt("b", B),
    work="ab",
)
TOLD_APART = replace(CHAIN, name="a completion that is told in a second step", design=Design(tells_at_once=False))
RELEASED_FIRST = replace(
    CHAIN, name="a completion that is released before it is handled", design=Design(handles_first=False)
)
RANDOM = _scenario(
    "random edges of children, without a dedupe window",
    *(_random(A, run) for run in range(2)),
    *(_random_child(run) for run in range(2)),
    work="ab",
    rules=NO_WINDOW,
)
COMPACT = _scenario(
    "acks that name no edge, in requests without keys",
    _compact("a", A, b=B),
    _compact("b", B),
    work="ab",
    design=Design(remembers_requests=False),
)
REPLACED = _scenario(
    "a task that is replaced by another one, and acked",
    Program(name="a is replaced", takes=("a",), steps=(*sends("a again"), Call(operations=(acked(A),)))),
    Program(name="a again", takes=("a again",), steps=(Call(operations=(acked(A),), does="a"),)),
    work="a",
)
SLOT_SEEN_BEFORE = replace(
    SLOT, name="a free slot that is looked for in a step of its own", design=Design(takes_slots_at_once=False)
)
ORDERED = _scenario(
    "edges of children by their order alone",
    _ordered("b", "c"),
    _ordered("c", "b"),
    *(_ordered_child(name, place) for name in "bc" for place in range(2)),
    work="abc",
)

APPLIED_APART = replace(
    FAN,
    name="two replicas that read a root in one step and write it in another",
    design=Design(applies_at_once=False),
    faults=0,
)
SETTLED_UNSEEN = replace(
    BESIDE,
    name="a delivery worker that settles all that is in the mailbox",
    design=Design(settles_what_it_posted=False),
    faults=0,
)

MISTAKES = (
    *(SPLIT, TOLD_APART, RELEASED_FIRST, RANDOM, COMPACT, REPLACED, SLOT_SEEN_BEFORE, ORDERED),
    *(APPLIED_APART, SETTLED_UNSEEN),
)
"""Each breaks a promise, which has to be found."""
