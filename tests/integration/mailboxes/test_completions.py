"""Completions: how a spout task reads and releases them."""

import httpx
import pytest
from acker_service.components import Components
from acker_service.mailboxes.paging import PAGE_BYTES
from acker_service.topologies.cursors import Cursor, Position, SpoutList, completion_list, decode_cursor

from tests.support.caller import Caller, ack, fail, init
from tests.support.redis_side import ask, at, flush

pytestmark = pytest.mark.anyio

MANY = range(4, 44, 4)
"""Ten roots of one shard."""


@pytest.fixture
async def ten(call: Caller) -> Caller:
    """One batch ended ten roots of one shard: they lie in one entry of the mailbox."""
    await call.states(*[init(root) for root in MANY])
    return call


def acked(roots: object) -> list[tuple[int, str]]:
    return [(root, "acked") for root in roots]  # type: ignore[attr-defined]


async def orders(parts: Components) -> SpoutList:
    """The list of the completions that these tests read."""
    topology = await parts.registry.get("default")
    return completion_list(topology, await parts.spouts.get(topology, "orders"))


async def read_on(call: Caller, *, limit: int, cursor: str | None = None) -> tuple[list[list[int]], str]:
    """Read to the end, ``limit`` at a time, and return the roots of each reading, and the last cursor."""
    pieces: list[list[int]] = []
    while True:
        read = await call.completions(limit=limit, **({} if cursor is None else {"after": cursor}))
        cursor = str(read["cursor"])
        if not read["completions"]:
            return pieces, cursor
        pieces.append([int(done["root_id"], 16) for done in read["completions"]])
        assert len(pieces) < 1_000, "reading on has to end"


async def test_reading_changes_nothing(ten: Caller) -> None:
    first, second = await ten.completions(), await ten.completions()
    assert first == second
    assert len({done["id"] for done in first["completions"]}) == 10


async def test_a_cursor_leads_on_from_where_reading_ended(ten: Caller) -> None:
    cursor = (await ten.completions())["cursor"]
    assert await ten.outcomes(after=cursor) == []
    await ten.states(init(48), init(52, 9), fail(52))
    assert await ten.outcomes(after=cursor) == [(48, "acked"), (52, "failed")]


async def test_what_lies_between_two_cursors_can_be_read_again_whatever_came_meanwhile(call: Caller) -> None:
    wide = Caller(call.http, "wide")
    await wide.put(ackers=4)
    await wide.states(*[init(root) for root in range(1, 21)])
    start = (await wide.completions(limit=5))["cursor"]
    page = await wide.completions(after=start, limit=6)
    await wide.states(*[init(root) for root in range(21, 61)])
    again, cursor = [], start
    while (read := await wide.completions(after=cursor, until=page["cursor"], limit=2, wait_ms=60_000))["completions"]:
        again += read["completions"]
        cursor = read["cursor"]
    assert sorted(again, key=str) == sorted(page["completions"], key=str)
    assert cursor == page["cursor"]


async def test_nothing_lies_before_the_cursor_of_an_empty_mailbox(call: Caller) -> None:
    await call.states(init(1, 9))
    cursor = (await call.completions())["cursor"]
    await call.states(init(2))
    assert await call.outcomes(until=cursor) == []
    assert await call.outcomes() == acked([2])


async def test_a_reading_without_news_gives_the_same_cursor(ten: Caller) -> None:
    cursor = (await ten.completions())["cursor"]
    assert (await ten.completions(after=cursor))["cursor"] == cursor


@pytest.mark.parametrize("limit", [1, 3, 9, 10, 11])
async def test_a_limit_holds_inside_a_batchs_entry_too(ten: Caller, limit: int) -> None:
    await ten.states(*[init(root) for root in range(44, 64, 4)])
    pieces, _ = await read_on(ten, limit=limit)
    assert [root for piece in pieces for root in piece] == list(range(4, 64, 4))
    assert [len(piece) for piece in pieces[:-1]] == [limit] * (len(pieces) - 1)


async def test_within_a_shard_the_oldest_comes_first(call: Caller) -> None:
    roots = [4 * place for place in (7, 3, 9, 1, 8, 2)]
    await call.states(*[init(root, 9) for root in sorted(roots)])
    for root in roots:
        await call.post(ack(root, 9))
    assert await call.outcomes() == acked(roots)


async def test_a_limit_is_shared_fairly_among_many_shards(call: Caller) -> None:
    wide = Caller(call.http, "wide")
    await wide.put(ackers=8)
    await wide.states(*[init(root) for root in range(1, 81)])
    shards = sorted(root % 8 for root, _ in await wide.outcomes(limit=16))
    assert shards == sorted([*range(8)] * 2)
    pieces, _ = await read_on(wide, limit=13)
    assert sorted(root for piece in pieces for root in piece) == list(range(1, 81))


async def test_a_full_shard_does_not_keep_the_completion_of_another_waiting(ten: Caller) -> None:
    await ten.post(init(1))
    assert (1, "acked") in await ten.outcomes(limit=2)


async def test_reading_without_a_cursor_begins_at_the_oldest_not_released(ten: Caller) -> None:
    read = await ten.completions(limit=3)
    assert await ten.release(read["cursor"]) == 3
    assert await ten.outcomes() == acked(MANY[3:])
    assert await ten.outcomes(limit=2) == acked(MANY[3:5])
    assert (await ten.spout())["unread"] == 7


async def test_releasing_twice_changes_nothing(ten: Caller) -> None:
    read = await ten.completions(limit=3)
    assert [await ten.release(read["cursor"]) for _ in range(3)] == [3, 0, 0]
    assert await ten.outcomes() == acked(MANY[3:])


async def test_releasing_an_older_cursor_changes_nothing(ten: Caller) -> None:
    older, newer = [(await ten.completions(limit=limit))["cursor"] for limit in (3, 6)]
    assert [await ten.release(cursor) for cursor in (newer, older)] == [6, 0]
    assert await ten.outcomes() == acked(MANY[6:])


async def test_an_entry_can_be_released_piece_by_piece(ten: Caller) -> None:
    cursors = [(await ten.completions(limit=limit))["cursor"] for limit in (3, 4, 10)]
    assert [await ten.release(cursor) for cursor in cursors] == [3, 1, 6]
    assert await ten.outcomes() == []
    assert (await ten.spout())["unread"] == 0


async def test_a_cursor_from_before_a_release_leads_on_behind_what_was_released(ten: Caller) -> None:
    early, late = [(await ten.completions(limit=limit))["cursor"] for limit in (2, 5)]
    await ten.release(late)
    assert await ten.outcomes(after=early) == acked(MANY[5:])
    assert await ten.outcomes(after=late) == acked(MANY[5:])


async def test_what_comes_after_the_cursor_is_not_released(ten: Caller) -> None:
    cursor = (await ten.completions())["cursor"]
    await ten.post(init(48))
    assert await ten.release(cursor) == 10
    assert await ten.outcomes() == [(48, "acked")]


async def test_many_entries_are_released_at_once(call: Caller) -> None:
    for root in range(1, 301):
        await call.post(init(root * 4))
    read = await call.completions(limit=299)
    assert await call.release(read["cursor"]) == 299
    assert await call.outcomes() == [(1_200, "acked")]


async def test_the_cursor_of_a_mailbox_that_is_gone_counts_as_its_beginning(ten: Caller, parts: Components) -> None:
    cursor = (await ten.completions())["cursor"]
    await flush(parts)
    await ten.states(*[init(root) for root in (4, 8)])
    assert await ten.release(cursor) == 0
    assert await ten.outcomes(after=cursor) == acked([4, 8])


async def test_a_cursor_ahead_of_the_mailbox_counts_as_its_beginning(ten: Caller, parts: Components) -> None:
    """A failover may lose the newest entries; their cursor must not hide what comes after."""
    far = Position(ms=2**42, seq=0, offset=1)
    ahead = Cursor(of=await orders(parts), positions={0: far}).encode()
    assert await ten.release(ahead) == 0
    assert await ten.outcomes(after=ahead) == acked(MANY)


async def test_a_cursor_ahead_within_the_newest_millisecond_counts_as_the_beginning(
    ten: Caller, parts: Components
) -> None:
    of = await orders(parts)
    newest = decode_cursor((await ten.completions())["cursor"], of).positions[0]
    next_one = Position(ms=newest.ms, seq=newest.seq + 1, offset=1)
    ahead = Cursor(of=of, positions={0: next_one}).encode()
    assert await ten.release(ahead) == 0
    assert await ten.outcomes(after=ahead) == acked(MANY)


async def test_a_reading_takes_no_more_entries_than_it_needs(call: Caller, parts: Components) -> None:
    for root in (4, 8, 12):
        await call.post(init(root))
    topology = await parts.registry.get("default")
    _, *entries = await ask(parts, topology, 0, "acker_read_v2", 0, "", 0, 2, PAGE_BYTES)
    assert len(entries[::3]) == 2


async def test_a_reading_is_bounded_in_bytes(ten: Caller, parts: Components) -> None:
    topology = await parts.registry.get("default")
    mailbox = f"{topology.shards[0]}:{topology.incarnation}:m0"
    await at(parts, "DEL", mailbox)
    for _ in range(6):
        await at(parts, "XADD", mailbox, "*", "n", 1, "c", bytes(2**20))
    more, *entries = await ask(parts, topology, 0, "acker_read_v2", 0, "", 0, 10_000, PAGE_BYTES)
    assert (more, len(entries[::3])) == (1, 4)


async def test_the_cursor_of_another_topology_counts_as_the_beginning(ten: Caller) -> None:
    other = Caller(ten.http, "other")
    await other.put(ackers=128)
    await other.states(*[init(root) for root in range(1, 200)])
    foreign = (await other.completions())["cursor"]
    await ten.post(init(44))
    assert await ten.release(foreign) == 0
    assert await ten.outcomes(after=foreign) == acked([*MANY, 44])


async def test_a_cursor_that_names_a_shard_too_many_is_read_as_far_as_it_goes(ten: Caller, parts: Components) -> None:
    forged = Cursor(of=await orders(parts), positions={255: Position(ms=1, seq=1, offset=1)}).encode()
    assert await ten.release(forged) == 0
    assert await ten.outcomes(after=forged) == acked(MANY)


async def test_a_completions_id_is_the_same_at_every_reading_and_another_in_another_topology(call: Caller) -> None:
    other = Caller(call.http, "other")
    await other.put()
    for caller in (call, other):
        await caller.post(init(4))
    first, again, elsewhere = [(await caller.completions())["completions"][0] for caller in (call, call, other)]
    assert first == again
    assert first["id"] != elsewhere["id"]


async def test_ten_thousand_completions_are_read_in_one_call(api: httpx.AsyncClient, call: Caller) -> None:
    await call.states(*[init(root) for root in range(1, 10_001)])
    assert len(await call.outcomes(limit=10_000)) == 10_000
    assert len(await call.outcomes()) == 1_000
