"""What each order does: the table of semantics.md, a row a test, over HTTP, by single calls and in one batch."""

from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import pytest
from acker_service.components import Components

from tests.support.caller import Caller, ack, compact_ack, compact_init, fail, init, reset_timeout

pytestmark = pytest.mark.anyio

R, S = 0xA1, 0xB2
E, F, G, H = 0xE1, 0xE2, 0xE4, 0xE8


@dataclass(frozen=True)
class Row:
    """Operations in an order, the words that answer them, and the completions that come of them."""

    ops: list[dict[str, Any]]
    states: str
    outcomes: list[tuple[int, str]] = field(default_factory=list)
    topology: dict[str, int] = field(default_factory=dict)


ROWS = {
    "a root without edges is acked at once": Row([init(R)], "acked", [(R, "acked")]),
    "some acks may come early": Row(
        [ack(R, E, G), init(R, E, F), ack(R, F), ack(R, G)], "early pending pending acked", [(R, "acked")]
    ),
    "all acks may come early": Row([ack(R, E, G), ack(R, G), init(R, E)], "early early acked", [(R, "acked")]),
    "early acks that cancel to zero end nothing": Row(
        [compact_ack(R, E), compact_ack(R, E), init(R, F), ack(R, F)], "early early pending acked", [(R, "acked")]
    ),
    "an early fail fails the root at its init": Row([fail(R), init(R, E)], "early failed", [(R, "failed")]),
    "an early fail is not lost when all acks come early": Row(
        [fail(R), ack(R, E), init(R, E)], "early early failed", [(R, "failed")]
    ),
    "a second init is a duplicate and never XORed": Row(
        [init(R, E), init(R, E), ack(R, E)], "pending duplicate acked", [(R, "acked")]
    ),
    "a second init is a duplicate whatever its values": Row(
        [init(R, E), init(R, F, G), ack(R, E)], "pending duplicate acked", [(R, "acked")]
    ),
    "an init by another spout task is a conflict and changes nothing": Row(
        [init(R, E), init(R, E, spout_task="others"), ack(R, E)], "pending conflict acked", [(R, "acked")]
    ),
    "an init with another message id is a conflict and changes nothing": Row(
        [init(R, E, message_id="1"), init(R, E, message_id="2"), ack(R, E)], "pending conflict acked", [(R, "acked")]
    ),
    "an init without the message id is a conflict": Row(
        [init(R, E, message_id="1"), init(R, E), ack(R, E)], "pending conflict acked", [(R, "acked")]
    ),
    "an init of a finished root is finished": Row([init(R), init(R, E)], "acked finished", [(R, "acked")]),
    "an ack after the end is finished": Row(
        [init(R, E), ack(R, E), ack(R, E), ack(R, F)], "pending acked finished finished", [(R, "acked")]
    ),
    "with dedupe the same edge acked again is a duplicate, then finished": Row(
        [init(R, E, F), ack(R, E, G), ack(R, E, G), ack(R, F), ack(R, G), ack(R, E, G)],
        "pending pending duplicate pending acked finished",
        [(R, "acked")],
        {"dedupe_window_ms": 60_000},
    ),
    "with dedupe the same edge acked again early is a duplicate too": Row(
        [ack(R, E), ack(R, E), init(R, E)], "early duplicate acked", [(R, "acked")], {"dedupe_window_ms": 60_000}
    ),
    "with dedupe a compact ack that names its edge is applied once": Row(
        [
            init(R, E, F),
            compact_ack(R, E, edge_id="00000000000000e1"),
            compact_ack(R, E, edge_id="00000000000000e1"),
            ack(R, F),
        ],
        "pending pending duplicate acked",
        [(R, "acked")],
        {"dedupe_window_ms": 60_000},
    ),
    "with dedupe an ack without an edge is applied": Row(
        [init(R, E, F), compact_ack(R, E, outstanding=-1), compact_ack(R, F, outstanding=-1)],
        "pending pending acked",
        [(R, "acked")],
        {"dedupe_window_ms": 60_000},
    ),
    "with dedupe the same edge of another root is not a duplicate": Row(
        [init(R, E), init(S, E), ack(R, E), ack(S, E)],
        "pending pending acked acked",
        [(R, "acked"), (S, "acked")],
        {"dedupe_window_ms": 60_000},
    ),
    "after a fail the rest is finished": Row(
        [init(R, E), fail(R), ack(R, E), fail(R), init(R, E)],
        "pending failed finished finished finished",
        [(R, "failed")],
    ),
    "a fail after the end is finished": Row([init(R, E), ack(R, E), fail(R)], "pending acked finished", [(R, "acked")]),
    "a fail before the last ack wins": Row(
        [init(R, E), fail(R), ack(R, E)], "pending failed finished", [(R, "failed")]
    ),
    "a timeout is reset in flight only": Row(
        [reset_timeout(R), init(R, E), reset_timeout(R), ack(R, E), reset_timeout(R)],
        "unknown pending pending acked finished",
        [(R, "acked")],
    ),
    "a timeout is not reset early": Row(
        [ack(R, E), reset_timeout(R), init(R, E)], "early unknown acked", [(R, "acked")]
    ),
    "a compact ack of zero has no effect": Row(
        [compact_ack(R, 0), init(R, E), compact_ack(R, 0), ack(R, E), compact_ack(R, 0)],
        "early pending pending acked finished",
        [(R, "acked")],
    ),
    "a zero with edges outstanding stays pending": Row(
        [compact_init(R, E, outstanding=2), compact_ack(R, E, outstanding=-1), compact_ack(R, F, outstanding=-1)],
        "pending pending pending",
    ),
    "a zero completes where what is outstanding is unknown": Row(
        [compact_init(R, E), ack(R, E)], "pending acked", [(R, "acked")]
    ),
    "without ackers an init is acked and all else finished": Row(
        [ack(R, E), fail(R), reset_timeout(R), init(R, E), init(R, E), ack(R, E), fail(S), init(S)],
        "finished finished finished acked finished finished finished acked",
        [(R, "acked"), (S, "acked")],
        {"ackers": 0},
    ),
    "a tuple anchored to two roots is acked in both": Row(
        [init(R, E), init(S, F), ack(R, E, G), ack(S, F, H), ack(R, G), ack(S, H)],
        "pending pending pending pending acked acked",
        [(R, "acked"), (S, "acked")],
    ),
    "a tuple anchored to two roots fails both": Row(
        [init(R, E), init(S, F), fail(R), fail(S)],
        "pending pending failed failed",
        [(R, "failed"), (S, "failed")],
    ),
    "the same tuple used twice as an anchor gives two edges": Row(
        [init(R, E, F), ack(R, E, G), ack(R, F, H), ack(R, G), ack(R, H)],
        "pending pending pending pending acked",
        [(R, "acked")],
    ),
}


@pytest.fixture
async def fresh(call: Caller) -> Caller:
    return Caller(call.http, "fresh")


async def assert_told(call: Caller, parts: Components, expected: list[tuple[int, str]]) -> None:
    """Exactly these completions are there, and time adds none."""
    await parts.expiry.expire(await parts.registry.get(call.topology))
    assert sorted(await call.outcomes()) == sorted(expected)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
async def test_what_each_order_does_by_single_calls(fresh: Caller, parts: Components, row: Row) -> None:
    await fresh.put(**row.topology)
    assert [await fresh.state(op) for op in row.ops] == row.states.split()
    await assert_told(fresh, parts, row.outcomes)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
async def test_what_each_order_does_in_one_batch(fresh: Caller, parts: Components, row: Row) -> None:
    await fresh.put(**row.topology)
    assert await fresh.states(*row.ops) == row.states.split()
    await assert_told(fresh, parts, row.outcomes)


@pytest.mark.parametrize("order", list(permutations([ack(R, E, G, H), ack(R, F), ack(R, G), ack(R, H)])))
async def test_acks_in_any_order_end_the_root_at_the_last(
    call: Caller, parts: Components, order: tuple[Any, ...]
) -> None:
    assert await call.states(init(R, E, F), *order) == ["pending"] * 4 + ["acked"]
    await assert_told(call, parts, [(R, "acked")])


@pytest.mark.parametrize("place", range(4))
async def test_an_init_may_come_at_any_place_among_its_acks(call: Caller, parts: Components, place: int) -> None:
    ops = [ack(R, E, G), ack(R, F), ack(R, G)]
    ops.insert(place, init(R, E, F))
    assert [await call.state(op) for op in ops] == ["early"] * place + ["pending"] * (3 - place) + ["acked"]
    await assert_told(call, parts, [(R, "acked")])
