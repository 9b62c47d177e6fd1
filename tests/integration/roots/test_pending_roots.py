"""Listing pending roots: about nearest deadline first, page by page, while others come and go."""

import itertools
import math
from collections.abc import Iterable

import pytest
from acker_service.components import Components
from acker_service.redis.functions.roots import RootFilter
from acker_service.roots import pending
from acker_service.roots.pending import RECORDS, PendingRoots, first_positions
from acker_service.topologies.config import TopologyConfig

from tests.support.caller import Caller, Document, ack, fail, init
from tests.support.redis_side import ask

pytestmark = pytest.mark.anyio

E = 0xE1
VALUES = 10
"""The values of a root in a reply of the library."""


@pytest.fixture(autouse=True)
def _pages_end_at_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page take as long as it needs: how soon it ends is not what these tests are about."""
    monkeypatch.setattr(pending, "PAGE_S", math.inf)


def ids(page: Document) -> list[int]:
    return [int(root["root_id"], 16) for root in page["roots"]]


async def emit(call: Caller, roots: Iterable[int], **fields: object) -> None:
    states = await call.states(*(init(root, E, **fields) for root in roots))
    assert set(states) == {"pending"}


async def small_topology(parts: Components, call: Caller, *, ackers: int, buckets: int) -> Caller:
    """Make a topology of few small hashes."""
    await parts.registry.create_or_update("small", lambda _: TopologyConfig(ackers=ackers, buckets=buckets))
    return Caller(call.http, "small")


async def pages(call: Caller, **query: object) -> list[list[int]]:
    """Read the list to its end."""
    found, cursor = list[list[int]](), {}
    while True:
        page = await call.roots(**query, **cursor)
        found.append(ids(page))
        if page["cursor"] is None:
            return found
        assert len(found) < 1_000, "the list has to end"
        cursor = {"cursor": page["cursor"]}


async def test_a_root_is_listed_as_it_is_read(call: Caller) -> None:
    await call.post(init(1, E, 0xE2, message_id="42"))
    await call.post(ack(1, E))
    page = await call.roots()
    root = await call.root(1)
    assert page["cursor"] is None
    assert [shown | {"age_ms": 0} for shown in page["roots"]] == [root | {"age_ms": 0}]
    assert (root["spout_task"], root["message_id"], root["outstanding"]) == ("orders", "42", 1)


async def test_only_pending_roots_are_listed(call: Caller) -> None:
    await call.states(init(1, E), init(2, E), ack(2, E), init(3, E), fail(3), ack(4, E), fail(5))
    assert ids(await call.roots()) == [1]


async def test_nothing_is_pending_in_an_empty_topology(call: Caller) -> None:
    assert await call.roots() == {"roots": [], "cursor": None, "scanned": 0}


async def test_a_long_message_id_is_shown(call: Caller) -> None:
    await call.post(init(1, E, message_id="m" * 1_024))
    assert [root["message_id"] for root in (await call.roots())["roots"]] == ["m" * 1_024]


async def test_the_nearest_deadlines_come_first_whatever_the_shard(call: Caller) -> None:
    for root in range(1, 41):
        await call.post(init(root, E, message_timeout_ms=60_000 + (root * 7 % 41) * 10_000))
    nearest = sorted(range(1, 41), key=lambda root: root * 7 % 41)
    assert [root for page in await pages(call, limit=5) for root in page] == nearest


@pytest.mark.parametrize("limit", [1, 7, 64, 10_000])
async def test_page_by_page_every_root_is_listed_once(parts: Components, call: Caller, limit: int) -> None:
    call = await small_topology(parts, call, ackers=3, buckets=8)
    await emit(call, range(1, 301))
    read = await pages(call, limit=limit)
    assert sorted(root for page in read for root in page) == list(range(1, 301))
    assert all(len(page) <= limit for page in read)


async def test_many_small_hashes_of_one_deadline_are_listed_once(parts: Components, call: Caller) -> None:
    call = await small_topology(parts, call, ackers=1, buckets=1_024)
    await emit(call, range(1, 901))
    assert len({root["deadline_at_ms"] for root in (await call.roots(limit=900))["roots"]}) == 1
    assert sorted(root for page in await pages(call, limit=100) for root in page) == list(range(1, 901))


async def test_a_call_walks_through_more_hashes_than_it_reads_at_once(parts: Components, call: Caller) -> None:
    call = await small_topology(parts, call, ackers=1, buckets=1_024)
    await emit(call, range(1, 901))
    assert sorted(ids(await call.roots(limit=1_000))) == list(range(1, 901))


async def test_roots_that_stay_are_all_listed_while_others_come_and_go(parts: Components, call: Caller) -> None:
    call = await small_topology(parts, call, ackers=2, buckets=4)
    await emit(call, range(1, 401))
    found, cursor, step = set[int](), dict[str, str](), 0
    while True:
        page = await call.roots(limit=20, **cursor)
        found |= set(ids(page))
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
        await call.states(*(ack(root, E) for root in range(1 + step * 5, 6 + step * 5)))
        await emit(call, range(1_000 + step * 5, 1_005 + step * 5), message_timeout_ms=60_000 + step)
        step += 1
        assert step < 200, "the list has to end"
    assert set(range(1 + step * 5, 401)) <= found


async def test_an_overfull_hash_is_listed_piece_by_piece(parts: Components, call: Caller) -> None:
    call = await small_topology(parts, call, ackers=1, buckets=1)
    await emit(call, range(1, 3_501))
    topology = await parts.registry.get("small")
    start = (topology.settings, 0, 0, 0, 1, RECORDS, 0, 0, "", "")
    _, _, _, _, _, *pieces = await ask(parts, topology, 0, "acker_list_roots_v3", *start)
    assert sum(len(shown) // VALUES for shown in pieces[3::4]) < 1_500
    assert set().union(*await pages(call, limit=100)) == set(range(1, 3_501))


async def test_a_call_looks_at_a_bounded_number_of_records(parts: Components, call: Caller) -> None:
    call = await small_topology(parts, call, ackers=1, buckets=64)
    await emit(call, range(1, 6_001))
    topology = await parts.registry.get("small")
    start = (topology.settings, 0, 0, 0, 10_000, RECORDS, 0, 0, "", "")
    _, _, _, _, _, *pieces = await ask(parts, topology, 0, "acker_list_roots_v3", *start)
    assert RECORDS / 2 <= sum(len(shown) // VALUES for shown in pieces[3::4]) <= RECORDS + 100
    assert await pages(call, older_than_ms=2**52) == [[]]
    assert len(ids(await call.roots(limit=10_000))) == 6_000


async def test_a_page_that_takes_too_long_ends_and_the_next_goes_on(
    parts: Components, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = await small_topology(parts, call, ackers=1, buckets=64)
    await emit(call, range(1, 6_001))
    topology = await parts.registry.get("small")
    monkeypatch.setattr(pending, "PAGE_S", 1.0)
    listing = PendingRoots(parts.shards, parts.spouts, clock=itertools.count(step=0.9).__next__)
    positions, listed = first_positions(topology), list[int]()
    while positions:
        page = await listing.page(topology, positions, RootFilter(), limit=10_000)
        assert len(page.roots) <= RECORDS + 100
        listed += [root.root_id for root in page.roots]
        positions = page.positions
    assert sorted(listed) == list(range(1, 6_001))


async def test_a_call_looks_no_further_when_there_are_enough(parts: Components, call: Caller) -> None:
    call = await small_topology(parts, call, ackers=1, buckets=64)
    await emit(call, range(1, 65))
    topology = await parts.registry.get("small")
    start = (topology.settings, 0, 0, 0, 10, RECORDS, 0, 0, "", "")
    _, _, _, _, _, *pieces = await ask(parts, topology, 0, "acker_list_roots_v3", *start)
    assert sum(len(shown) // VALUES for shown in pieces[3::4]) == 10


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "!!!!", "é"])
async def test_a_cursor_that_was_not_given_here_is_refused_or_the_beginning(call: Caller, cursor: str) -> None:
    assert (await call.roots(cursor=cursor))["code"] == "invalid"


async def test_a_cursor_of_a_topology_that_has_gone_is_the_beginning(parts: Components, call: Caller) -> None:
    call = await small_topology(parts, call, ackers=1, buckets=4)
    await emit(call, range(1, 11))
    cursor = (await call.roots(limit=5))["cursor"]
    assert len(ids(await call.roots(cursor=cursor))) == 5
    await call.http.delete("/v1/topologies/small", params={"force": True, "discard": True})
    await small_topology(parts, call, ackers=1, buckets=4)
    await emit(call, range(1, 4))
    assert ids(await call.roots(cursor=cursor)) == [1, 2, 3]


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 10_001}, {"older_than_ms": -1}])
async def test_what_a_list_may_be_asked_for_is_bounded(call: Caller, query: dict[str, int]) -> None:
    assert (await call.roots(**query))["code"] == "invalid"


async def test_an_unknown_topology_has_no_list(call: Caller) -> None:
    assert (await Caller(call.http, "nowhere").roots())["code"] == "unknown_topology"


async def test_roots_are_found_by_a_text_of_their_message_id_or_last_component(call: Caller) -> None:
    await call.post(init(1, E, 0xE2, message_id="order-42"))
    await call.post(init(2, E, 0xE2, message_id="order-[4"))
    await call.post(init(3, E, 0xE2))
    await call.post(ack(3, E, component="reserve-4"))
    assert set(ids(await call.roots(text="order"))) == {1, 2}
    assert set(ids(await call.roots(text="-4"))) == {1, 3}
    assert ids(await call.roots(text="[4")) == [2]
    assert ids(await call.roots(text="4", message_id="order-42")) == [1]
    assert ids(await call.roots(text="Order")) == []
