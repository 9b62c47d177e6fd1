"""Every order of a small tree whose root ends when all have ended: never early, never twice, never lost, counted once.

The tree is a → b, c. Every message comes three times, each delivery acks or fails, the init is sent twice; all of it
reaches the acker in any order, before the init too. At any moment the deadline may pass, or an operator may give up.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from acker_protocol.operations import Ack, CompletionRecord, EndOn, Fail, Init, Operation, OperationState, Outcome
from acker_protocol.states import Finished, State, TopologyRules, Tree
from acker_protocol.tree import apply_operation, expire

ROOT = 0xA1
A, B, C = 0xB1, 0xB2, 0xB4
CHILDREN = {A: (B, C), B: (), C: ()}
WINDOW = TopologyRules(message_timeout_ms=1_000, dedupe_window_ms=1_000_000, retention_ms=1_000_000)
WITHOUT_WINDOW = replace(WINDOW, dedupe_window_ms=0)
INIT = Init(root_id=ROOT, spout_task="s", ack_val=A, outstanding=1, end_on=EndOn.ALL_ENDED)
NOW_MS = 10_000


@dataclass(frozen=True)
class World:
    """What the acker has, what is still to come, and what came.

    ``first`` is by edge whether its first operation failed, ``ended`` how often each edge ended, ``told`` the
    completions.
    """

    root: State = None
    deliveries: tuple[int, ...] = (3, 3, 3)
    inits: int = 2
    first: frozenset[tuple[int, bool]] = frozenset()
    ended: tuple[int, ...] = (0, 0, 0)
    has_given_up: bool = False
    told: tuple[CompletionRecord, ...] = ()


def operation_of(edge: int, *, fails: bool) -> Operation:
    """The ack or the fail of an edge, with its children."""
    value = edge
    for child in CHILDREN[edge]:
        value ^= child
    kind = Fail if fails else Ack
    return kind(root_id=ROOT, ack_val=value, outstanding=len(CHILDREN[edge]) - 1, edge_id=edge)


def applied(world: World, operation: Operation, rules: TopologyRules) -> tuple[World, OperationState]:
    done = apply_operation(world.root, operation, now_ms=NOW_MS, rules=rules)
    told = (*world.told, done.completion) if done.completion else world.told
    return replace(world, root=done.state, told=told), done.operation_state


def delivered(world: World, place: int, *, fails: bool, rules: TopologyRules) -> World:
    """One delivery of a message is processed."""
    edge = [*CHILDREN][place]
    left, ended = list(world.deliveries), list(world.ended)
    left[place] -= 1
    after, answer = applied(world, operation_of(edge, fails=fails), rules)
    counts = answer not in (OperationState.FINISHED, OperationState.DUPLICATE)
    ended[place] += counts
    known = {known for known, _ in world.first}
    first = world.first | {(edge, fails)} if counts and edge not in known else world.first
    return replace(after, deliveries=tuple(left), ended=tuple(ended), first=first)


def steps(world: World, rules: TopologyRules) -> Iterator[World]:
    """Yield all that may happen next."""
    for place, left in enumerate(world.deliveries):
        if left:
            yield delivered(world, place, fails=False, rules=rules)
            yield delivered(world, place, fails=True, rules=rules)
    if world.inits:
        yield replace(applied(world, INIT, rules)[0], inits=world.inits - 1)


def interrupted(world: World, rules: TopologyRules) -> Iterator[World]:
    """Yield what ends a pending root at any moment: its deadline, or a plain fail."""
    if isinstance(world.root, Tree) and world.root.spout_task is not None:
        root, completion = expire(world.root, now_ms=NOW_MS + 1_001, rules=rules)
        assert completion is not None
        yield replace(world, root=root, told=(*world.told, completion))
        yield replace(applied(world, Fail(root_id=ROOT), rules)[0], has_given_up=True)


def failed_edges(world: World) -> int:
    return sum(fails for _, fails in world.first)


def check(world: World) -> None:
    """Hold a world to the promises of a topology with a dedupe window."""
    assert len(world.told) <= 1, "told twice"
    assert isinstance(world.root, Finished) == bool(world.told), "an end and its completion go together"
    for completion in world.told:
        assert completion.failures == failed_edges(world), "counted otherwise"
        if completion.outcome is Outcome.TIMED_OUT or world.has_given_up:
            continue
        assert {edge for edge, _ in world.first} == {A, B, C}, "told early"
        assert completion.outcome is (Outcome.FAILED if failed_edges(world) else Outcome.ACKED)


def reachable(rules: TopologyRules) -> Iterator[World]:
    """Yield every world that some order leads to."""
    seen, left = {World()}, [World()]
    while left:
        world = left.pop()
        yield world
        for after in steps(world, rules):
            if after not in seen:
                seen.add(after)
                left.append(after)


def test_no_order_tells_early_twice_or_otherwise_than_the_first_operation_of_each_edge() -> None:
    worlds = 0
    for world in reachable(WINDOW):
        worlds += 1
        check(world)
        for after in interrupted(world, WINDOW):
            check(after)
    assert worlds > 1_000


def test_every_order_ends_once_all_messages_and_the_init_have_come() -> None:
    for world in reachable(WINDOW):
        if world.inits < 2 and all(left < 3 for left in world.deliveries):
            assert world.told, "lost"


def test_without_a_window_what_comes_twice_may_time_out_and_is_never_told_early() -> None:
    for world in reachable(WITHOUT_WINDOW):
        assert len(world.told) <= 1
        for completion in world.told:
            assert all(ended % 2 for ended in world.ended), "told early"
            assert completion.failures is not None
            assert completion.failures >= failed_edges(world)


@pytest.mark.parametrize("end_on", [EndOn.FIRST_FAIL, None])
def test_a_root_that_ends_at_its_first_fail_has_failed_after_any_of_them(end_on: EndOn | None) -> None:
    first_fail = replace(INIT, end_on=end_on)
    for world in reachable(WINDOW):
        if isinstance(world.root, Tree) and world.root.end_on is None and world.first:
            done = apply_operation(world.root, first_fail, now_ms=NOW_MS, rules=WINDOW)
            has_failed = world.root.failure is not None
            assert (done.outcome is Outcome.FAILED) == has_failed
            assert has_failed >= (failed_edges(world) > 0)
