"""Every order of a small tree of which tuples are dropped: each edge is counted once, and nothing is told early.

The tree is that of `tests.model.test_all_ended_orders`. Every message comes twice, each delivery is acked or dropped;
all of it reaches the acker in any order, before the init too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from acker_protocol.operations import Ack, CompletionRecord, Init, Operation, OperationState, Outcome
from acker_protocol.states import Finished, State
from acker_protocol.tree import apply_operation

from tests.model.test_all_ended_orders import CHILDREN, NOW_MS, ROOT, WINDOW, A

INIT = Init(root_id=ROOT, spout_task="s", ack_val=A, outstanding=1)


@dataclass(frozen=True)
class World:
    """What the acker has, what is still to come, whether the first ack of each edge was a drop, and what was told."""

    root: State = None
    deliveries: tuple[int, ...] = (2, 2, 2)
    inits: int = 1
    first: frozenset[tuple[int, bool]] = frozenset()
    told: tuple[CompletionRecord, ...] = ()


def ack_of(edge: int, *, dropped: bool) -> Ack:
    """The ack of an edge, with its children."""
    value = edge
    for child in CHILDREN[edge]:
        value ^= child
    return Ack(root_id=ROOT, ack_val=value, outstanding=len(CHILDREN[edge]) - 1, edge_id=edge, dropped=dropped)


def applied(world: World, operation: Operation) -> tuple[World, OperationState]:
    done = apply_operation(world.root, operation, now_ms=NOW_MS, rules=WINDOW)
    told = (*world.told, done.completion) if done.completion else world.told
    return replace(world, root=done.state, told=told), done.operation_state


def delivered(world: World, place: int, *, dropped: bool) -> World:
    """One delivery of a message is processed."""
    edge, left = [*CHILDREN][place], list(world.deliveries)
    left[place] -= 1
    after, answer = applied(world, ack_of(edge, dropped=dropped))
    counts = answer not in (OperationState.FINISHED, OperationState.DUPLICATE)
    first = world.first | {(edge, dropped)} if counts else world.first
    return replace(after, deliveries=tuple(left), first=first)


def steps(world: World) -> Iterator[World]:
    """Yield all that may happen next."""
    for place, left in enumerate(world.deliveries):
        if left:
            yield delivered(world, place, dropped=False)
            yield delivered(world, place, dropped=True)
    if world.inits:
        yield replace(applied(world, INIT)[0], inits=0)


def reachable() -> Iterator[World]:
    """Yield every world that some order leads to."""
    seen, left = {World()}, [World()]
    while left:
        world = left.pop()
        yield world
        for after in steps(world):
            if after not in seen:
                seen.add(after)
                left.append(after)


def test_every_order_is_acked_once_all_have_ended_and_counts_each_dropped_edge_once() -> None:
    worlds = 0
    for world in reachable():
        worlds += 1
        assert isinstance(world.root, Finished) == bool(world.told)
        assert len(world.first) == len({edge for edge, _ in world.first}), "counted twice"
        has_all = not world.inits and {edge for edge, _ in world.first} == {*CHILDREN}
        assert len(world.told) == has_all, "told early, twice or never"
        for completion in world.told:
            assert completion.outcome is Outcome.ACKED
            assert completion.dropped == sum(dropped for _, dropped in world.first)
    assert worlds > 200
