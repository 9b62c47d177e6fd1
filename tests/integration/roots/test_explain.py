"""Traces of roots and the trees that they explain: which edge is missing, and within which bounds."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from acker_client import AsyncAcker
from acker_protocol import routes
from acker_protocol.ids import format_id
from acker_protocol.tracing import is_sampled
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.redis.functions.traces import EntryKind, TraceLimits, read_trace
from acker_service.settings import Settings

from tests.support.caller import Caller, Document, ack, compact_ack, compact_init, fail, init, reset_timeout
from tests.support.redis_side import at, everywhere, find, forget_outcomes
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

R = 0xA1
BY_HAND = 0xA10000
"""An id that is traced before its init."""
MAX_BYTES = 20_000
TTL_MS = 600_000
STEP, ROOT_COST = 256, 500
KINDS = ("*:trace:*", "*:cut:*", "*:traces", "*:traced", "*:acked")


async def tree(call: Caller, root: int = R) -> Document:
    """Explain a root, or give the problem."""
    answer = await call.http.get(f"{routes.root(call.topology, format_id(root))}/tree")
    return dict(answer.json())


async def edges(call: Caller, root: int = R) -> dict[int, tuple[int | None, str | None, str]]:
    """Explain a root; give parent, component and state of each edge."""
    found = (await tree(call, root))["edges"]
    return {
        int(one["edge_id"], 16): (one["parent"] and int(one["parent"], 16), one["component"], one["state"])
        for one in found
    }


async def kept(parts: Components) -> list[str]:
    """Return all keys of traces."""
    return [key for pattern in KINDS for key in await find(parts, pattern)]


async def test_a_traced_root_shows_each_edge_with_its_maker_and_its_state(call: Caller) -> None:
    await call.post(init(R, 1, 2, message_id="42", trace=True))
    await call.post(ack(R, 1, 3, 4, component="split"))
    await call.post(ack(R, 3, component="count"))
    shown = await tree(call)
    assert all(edge.pop("since_at_ms") >= edge.pop("sent_at_ms") > 0 for edge in shown["edges"])
    assert shown == {
        "root_id": format_id(R),
        "state": "pending",
        "outcome": None,
        "traced": True,
        "spout_task": "orders",
        "message_id": "42",
        "last_component": "count",
        "outstanding": 2,
        "ended_at_ms": None,
        "edges": [
            {"edge_id": format_id(1), "parent": None, "component": "orders", "state": "acked", "ended_by": "split"},
            {"edge_id": format_id(2), "parent": None, "component": "orders", "state": "open", "ended_by": None},
            {
                "edge_id": format_id(3),
                "parent": format_id(1),
                "component": "split",
                "state": "acked",
                "ended_by": "count",
            },
            {"edge_id": format_id(4), "parent": format_id(1), "component": "split", "state": "open", "ended_by": None},
        ],
        "truncated": False,
    }


async def test_a_root_that_has_ended_tells_when(call: Caller) -> None:
    await call.post(init(R, 1, trace=True))
    await call.post(fail(R, reason="no stock"))
    assert (await tree(call))["ended_at_ms"] == (await call.root(R))["at_ms"]


async def test_a_root_that_is_not_traced_shows_what_is_known_and_writes_no_key(call: Caller, parts: Components) -> None:
    await call.post(init(R, 1, 2))
    await call.post(ack(R, 1, 3, 4, component="split"))
    shown = await tree(call)
    assert (shown["traced"], shown["edges"], shown["truncated"]) == (False, [], False)
    assert (shown["last_component"], shown["outstanding"]) == ("split", 3)
    await call.states(*(op for root in range(1, 200) for op in (init(root, 9), ack(root, 9, 8), fail(root))))
    assert await kept(parts) == []


async def test_a_root_that_nobody_knows_has_no_tree(call: Caller) -> None:
    assert (await tree(call))["code"] == "unknown_root"


async def test_a_traced_root_without_edges_is_acked_at_once_and_has_a_tree_without_edges(call: Caller) -> None:
    await call.post(init(R, trace=True))
    shown = await tree(call)
    assert (shown["state"], shown["outcome"], shown["traced"], shown["edges"]) == ("finished", "acked", True, [])
    assert not shown["truncated"]


async def test_edges_that_were_open_when_the_root_failed_are_failed(call: Caller) -> None:
    await call.post(init(R, 1, 2, trace=True))
    await call.post(ack(R, 1))
    await call.post(fail(R, reason="no such product", component="price"))
    assert await edges(call) == {1: (None, "orders", "acked"), 2: (None, "orders", "failed")}
    assert (await tree(call))["outcome"] == "failed"


async def test_an_edge_that_failed_is_failed_while_others_are_open(call: Caller) -> None:
    failed = fail(R, edge_id=format_id(1), children=[format_id(3)], reason="no", component="split")
    await call.states(init(R, 1, 2, trace=True, end_on="all_ended"), failed)
    assert await edges(call) == {1: (None, "orders", "failed"), 2: (None, "orders", "open"), 3: (1, "split", "open")}
    shown = await tree(call)
    assert (shown["truncated"], shown["last_component"], shown["outstanding"]) == (False, "split", 2)
    assert await call.states(ack(R, 2), ack(R, 3)) == ["pending", "failed"]
    assert [state for *_, state in (await edges(call)).values()] == ["failed", "acked", "acked"]


async def test_edges_of_a_root_that_timed_out_are_open(call: Caller, parts: Components) -> None:
    await call.post(init(R, 1, trace=True, message_timeout_ms=100))
    topology = await parts.registry.get("default")
    await eventually(lambda: parts.expiry.expire(topology))
    shown = await tree(call)
    assert (shown["outcome"], shown["edges"][0]["state"]) == ("timed_out", "open")


async def test_a_root_whose_spout_task_was_deleted_has_none(call: Caller) -> None:
    await call.states(init(R, 1, trace=True), ack(R, 1))
    assert (await tree(call))["spout_task"] == "orders"
    deleted = await call.http.delete(f"/v1/topologies/{call.topology}/spouts/orders?discard=true")
    assert deleted.status_code == 204, deleted.text
    assert (await tree(call))["spout_task"] is None


async def test_a_trace_stays_when_the_outcome_is_forgotten(call: Caller, parts: Components) -> None:
    await call.post(init(R, 1, trace=True))
    await call.post(ack(R, 1))
    await forget_outcomes(parts)
    assert (await call.root(R)).get("code") == "unknown_root"
    shown = await tree(call)
    assert (shown["state"], shown["outcome"], shown["traced"]) == ("finished", "acked", True)


@pytest.mark.parametrize("dedupe_window_ms", [0, 600_000])
async def test_an_ack_that_comes_again_is_shown_as_it_counts(call: Caller, dedupe_window_ms: int) -> None:
    await call.put(dedupe_window_ms=dedupe_window_ms)
    await call.post(init(R, 1, 2, trace=True))
    await call.post(ack(R, 1))
    await call.post(ack(R, 1))
    state = "acked" if dedupe_window_ms else "open"
    assert await edges(call) == {1: (None, "orders", state), 2: (None, "orders", "open")}


async def test_a_request_that_is_sent_again_is_noted_once(call: Caller) -> None:
    await call.post(init(R, 1, 2, trace=True), key="a")
    await call.post(ack(R, 1), key="b")
    await call.post(ack(R, 1), key="b")
    assert await edges(call) == {1: (None, "orders", "acked"), 2: (None, "orders", "open")}


async def entries(parts: Components, root: int) -> list[tuple[EntryKind, int]]:
    """Return what the trace of a root has: the kinds of its entries, and what they XORed in."""
    topology = await parts.registry.get("default")
    layout = topology.layout
    read = read_trace(settings=topology.settings, bucket=layout.bucket_of(root), root_id=root)
    _, reply = await parts.shards.call(topology, layout.shard_of(root), read)
    return [(entry.kind, entry.ack_val) for entry in reply.entries]


async def test_a_fail_that_only_marked_an_early_root_is_no_end_of_its_edge(call: Caller, parts: Components) -> None:
    await call.put(dedupe_window_ms=600_000)
    failed = fail(BY_HAND, edge_id=format_id(1), reason="no", component="split")
    states = await call.states(ack(BY_HAND, 1, 3), failed, init(BY_HAND, 1, 2, trace=True, end_on="all_ended"))
    assert states == ["early", "early", "pending"]
    assert await entries(parts, BY_HAND) == [(EntryKind.ACK, 1 ^ 3), (EntryKind.FAIL, 0), (EntryKind.INIT, 1 ^ 2)]
    shown = await tree(call, BY_HAND)
    assert (shown["truncated"], shown["outstanding"]) == (False, 2)
    assert await edges(call, BY_HAND) == {
        1: (None, "orders", "acked"),
        2: (None, "orders", "open"),
        3: (1, None, "open"),
    }


async def test_a_fail_that_is_refused_is_noted_once_as_it_marked_an_early_root(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no room to remember its edge, which stays open."""
    await call.put(dedupe_window_ms=600_000)
    await call.post(ack(BY_HAND, 1, 3))
    monkeypatch.setattr(parts.backpressure, "_divide", lambda *_, **__: None)
    monkeypatch.setattr(parts.backpressure, "remembered_max_bytes", 0)
    failed = fail(BY_HAND, edge_id=format_id(3), reason="no", component="split")
    assert await call.states(failed, failed) == ["store_full"] * 2
    monkeypatch.undo()
    await call.post(init(BY_HAND, 1, trace=True, end_on="all_ended"))
    assert await entries(parts, BY_HAND) == [(EntryKind.ACK, 1 ^ 3), (EntryKind.FAIL, 0), (EntryKind.INIT, 1)]
    assert await edges(call, BY_HAND) == {1: (None, "orders", "acked"), 3: (1, None, "open")}
    assert not (await tree(call, BY_HAND))["truncated"]


async def test_a_trace_that_began_after_acks_says_that_they_are_missing(call: Caller) -> None:
    await call.post(ack(R, 1, 3))
    await call.post(init(R, 1, 2, trace=True))
    shown = await tree(call)
    assert (shown["traced"], shown["truncated"]) == (True, True)


async def test_an_id_that_ends_with_four_zeros_is_traced_from_its_first_ack_on(call: Caller) -> None:
    root = 0xA10000
    await call.post(ack(root, 1, 3, 4, component="split"))
    await call.post(init(root, 1, 2, trace=True))
    assert not (await tree(call, root))["truncated"]
    assert (await edges(call, root))[4] == (1, "split", "open")


async def test_the_trace_of_an_early_root_goes_if_its_init_does_not_ask_for_it(call: Caller, parts: Components) -> None:
    root = 0xA10000
    await call.post(ack(root, 1))
    await call.post(init(root, 1, 2))
    assert not (await tree(call, root))["traced"]
    assert [key for key in await kept(parts) if ":trace:" in key] == []


async def test_a_share_of_the_roots_is_traced_by_their_ids_alone(call: Caller) -> None:
    await call.put(trace=0.25)
    roots = range(1, 201)
    await call.states(*(init(root, 9) for root in roots))
    traced = {root for root in roots if (await tree(call, root))["traced"]}
    assert traced == {root for root in roots if is_sampled(root, 0.25)}
    assert 20 < len(traced) < 80


async def test_a_sampled_root_is_traced_from_an_early_ack_on(call: Caller) -> None:
    await call.put(trace=1)
    await call.post(ack(R, 1, 3, 4, component="split"))
    await call.post(init(R, 1))
    assert (await edges(call))[3] == (1, "split", "open")
    assert not (await tree(call))["truncated"]


async def test_a_single_ack_is_known_again_when_the_share_has_changed(call: Caller) -> None:
    await call.put(trace=1)
    await call.post(init(R, 1, 2))
    one = {"root_id": ack(R, 1)["root_id"], "edge_id": ack(R, 1)["edge_id"]}
    for trace in (1, 0):
        await call.put(trace=trace)
        answer = await call.http.post(f"/v1/topologies/{call.topology}/ack", json=one, headers={"Idempotency-Key": "k"})
        assert answer.json()["state"] == "pending"
    assert (await tree(call))["outstanding"] == 1


async def test_the_missing_edge_of_an_operation_without_names_is_found_by_the_xor(call: Caller) -> None:
    await call.post(compact_init(R, 1 ^ 2 ^ 4, outstanding=3, trace=True))
    await call.post(ack(R, 1))
    await call.post(ack(R, 4))
    assert await edges(call) == {
        1: (None, "orders", "acked"), 2: (None, "orders", "open"), 4: (None, "orders", "acked"),
    }  # fmt: skip
    assert not (await tree(call))["truncated"]


async def test_an_ack_without_edge_id_that_cannot_be_told_apart_truncates_the_tree(call: Caller) -> None:
    await call.post(init(R, 1, 2, 4, trace=True))
    await call.post(compact_ack(R, 1 ^ 2, outstanding=-2))
    assert (await tree(call))["truncated"]


async def test_a_new_root_under_the_id_of_a_traced_one_does_not_show_its_tree(call: Caller, parts: Components) -> None:
    await call.post(init(R, 1, trace=True))
    await call.post(ack(R, 1))
    await forget_outcomes(parts)
    await call.post(init(R, 2))
    assert not (await tree(call))["traced"]


async def test_a_traced_root_under_the_id_of_an_earlier_one_shows_its_own_tree(call: Caller, parts: Components) -> None:
    await call.post(init(R, 1, trace=True))
    await call.post(ack(R, 1))
    await forget_outcomes(parts)
    await call.post(compact_init(R, 2, outstanding=1, trace=True))
    assert await edges(call) == {2: (None, "orders", "open")}


async def test_a_deleted_topology_leaves_no_trace(api: httpx.AsyncClient, parts: Components) -> None:
    call = Caller(api, topology="orders")
    await call.put(trace=1, ackers=2)
    await call.states(*(init(root, 9) for root in range(1, 50)))
    assert await kept(parts)
    assert (await api.delete("/v1/topologies/orders?force=true&discard=true")).status_code == 204
    assert await kept(parts) == []


async def test_an_early_root_that_is_dropped_leaves_no_trace(call: Caller, parts: Components) -> None:
    await call.put(trace=1, message_timeout_ms=100)
    await call.post(ack(R, 1))
    topology = await parts.registry.get("default")

    async def is_dropped() -> bool:
        await parts.expiry.expire(topology)
        return [key for key in await kept(parts) if ":trace:" in key] == []

    assert [key for key in await kept(parts) if ":trace:" in key]
    await eventually(is_dropped)


@pytest.fixture
async def narrow(parts: Components, stopping: asyncio.Event, valkey_url: str) -> AsyncIterator[Caller]:
    """Speaks to a topology of one shard, of a service that keeps 20,000 bytes of traces."""
    other = Components(valkey_url, window_ms=600_000, trace_limits=TraceLimits(max_bytes=MAX_BYTES, ttl_ms=TTL_MS))
    app = make_app(other, Settings(), stopping)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://narrow.localhost") as client:
        call = Caller(client, topology="narrow")
        await call.put(trace=1, ackers=1)
        yield call
    await other.close()


async def total(parts: Components) -> tuple[int, int]:
    """Return the bytes that all traces take as they are counted, and as the keys of traces say."""
    (traced,) = await find(parts, "*:traced")
    traces = await find(parts, "*:trace:*") + await find(parts, "*:cut:*")
    steps = [-(await at(parts, "STRLEN", key) // -STEP) for key in traces]
    return int(await at(parts, "HGET", traced, "")), sum(count * STEP * 2 + ROOT_COST for count in steps)


async def test_a_flood_of_traced_roots_stays_within_the_bound(narrow: Caller, parts: Components) -> None:
    for first in range(1, 1_000, 100):
        await narrow.states(*(init(root, 9, 8) for root in range(first, first + 100)))
    counted, taken = await total(parts)
    assert counted == taken
    assert MAX_BYTES * 0.9 < counted <= MAX_BYTES
    assert len(await find(parts, "*:trace:*")) < 40
    assert await edges(narrow, 1) == {9: (None, "orders", "open"), 8: (None, "orders", "open")}
    assert not (await tree(narrow, 999))["traced"]


async def test_the_traces_of_acked_roots_make_space_for_others(narrow: Caller) -> None:
    await narrow.post(init(1, 9, 8))
    for first in range(2, 1_000, 100):
        roots = range(first, first + 100)
        await narrow.states(*(init(root, 9) for root in roots), *(ack(root, 9) for root in roots))
    await narrow.post(init(1_000_001, 9))
    assert (await tree(narrow, 1_000_001))["traced"]
    assert await edges(narrow, 1) == {9: (None, "orders", "open"), 8: (None, "orders", "open")}


async def test_a_trace_that_finds_no_space_for_more_says_so(narrow: Caller) -> None:
    assert await narrow.state(init(R, *range(1, 1_001))) == "pending"
    await narrow.states(*(ack(R, edge, edge + 10_000) for edge in range(1, 500)))
    shown = await tree(narrow)
    assert (shown["traced"], shown["truncated"], shown["outstanding"]) == (True, True, 1_000)


async def test_the_trace_of_one_root_is_bounded(call: Caller, parts: Components) -> None:
    assert await call.state(init(R, *range(1, 1_001), trace=True)) == "pending"
    for step in range(3):
        first = 1 + 1_000 * step
        acks = [ack(R, edge, edge + 1_000, component="c" * 128) for edge in range(first, first + 1_000)]
        assert set(await call.states(*acks)) == {"pending"}
    (key,) = await find(parts, "*:cut:*")
    assert 262_144 * 0.99 < await at(parts, "STRLEN", key) <= 262_144
    assert (await tree(call))["truncated"]


async def test_entries_behind_missing_ones_are_not_added(narrow: Caller, parts: Components) -> None:
    """The long entry has no space, a short one behind it would have."""
    await narrow.states(init(R, 1))
    await narrow.states(*(init(root, 9) for root in range(1_000, 1_100)))
    last = 1
    while not (await tree(narrow))["truncated"]:
        await narrow.states(ack(R, last, last + 1, component="c" * 100))
        last += 1
    (key,) = [key for key in await kept(parts) if key.encode(errors="surrogateescape").endswith(bytes([R]))]
    before, taken = await edges(narrow), await at(parts, "STRLEN", key)
    await narrow.states(ack(R, last, last + 1))
    assert (await edges(narrow), await at(parts, "STRLEN", key)) == (before, taken)
    assert len(before) < last
    counted, taken = await total(parts)
    assert counted == taken


async def test_the_trace_of_a_root_that_is_acked_makes_space_in_the_same_call(narrow: Caller) -> None:
    await narrow.states(*(init(root, 9) for root in range(1_000, 1_100)))
    await narrow.states(init(R, 9), ack(1_000, 9), init(R + 1, 9))
    assert [(await tree(narrow, root))["traced"] for root in (R, R + 1, 1_000)] == [False, True, False]


async def test_a_trace_that_begins_anew_is_counted_once(narrow: Caller, parts: Components) -> None:
    await narrow.states(init(R, *range(1, 101)), fail(R))
    await forget_outcomes(parts)
    await narrow.states(init(R, 2))
    counted, taken = await total(parts)
    assert counted == taken == 2 * STEP + ROOT_COST


async def test_a_trace_grows_in_steps_as_it_is_counted(narrow: Caller, parts: Components) -> None:
    await narrow.state(init(R, 1))
    for edge in range(1, 101):
        assert await narrow.state(ack(R, edge, edge + 1)) == "pending"
        counted, taken = await total(parts)
        assert counted == taken
    assert counted > STEP * 4


async def test_a_cut_trace_keeps_its_time_to_live(narrow: Caller, parts: Components) -> None:
    await narrow.state(init(R, *range(1, 1_001)))
    await narrow.states(*(ack(R, edge, edge + 10_000) for edge in range(1, 500)))
    (key,) = await find(parts, "*:cut:*")
    assert await at(parts, "PTTL", key) > TTL_MS
    await narrow.state(fail(R))
    assert TTL_MS / 2 < await at(parts, "PTTL", key) <= TTL_MS


async def test_a_trace_that_grew_gives_its_space_back(narrow: Caller, parts: Components) -> None:
    await narrow.state(init(R, 1))
    for edge in range(1, 101):
        await narrow.state(ack(R, edge, edge + 1))
    await narrow.state(ack(R, 101))
    for root in range(1, 20):
        await narrow.state(init(root, 9))
    assert not (await tree(narrow))["traced"]
    counted, taken = await total(parts)
    assert counted == taken


async def test_a_root_without_space_does_not_show_the_tree_of_an_earlier_one(narrow: Caller, parts: Components) -> None:
    await narrow.states(init(R, 1), fail(R))
    await narrow.states(*(init(root, 9) for root in range(1_000, 1_100)))
    await forget_outcomes(parts)
    assert await narrow.states(init(R, 2), fail(R)) == ["pending", "failed"]
    assert not (await tree(narrow))["traced"]


async def test_a_full_store_keeps_no_more_of_traces(narrow: Caller, parts: Components) -> None:
    await narrow.states(init(R, 9, 8), init(1, 9))
    before = await edges(narrow)
    await everywhere(parts, "CONFIG", "SET", "maxmemory", 1_000_000)
    try:
        assert await narrow.states(ack(R, 9, 7), ack(1, 9)) == ["pending", "acked"]
        shown = await tree(narrow)
    finally:
        await everywhere(parts, "CONFIG", "SET", "maxmemory", 0)
    assert (shown["traced"], shown["truncated"]) == (True, True)
    await narrow.states(ack(R, 8, 6))
    assert await edges(narrow) == before
    assert sorted(key.rsplit(":", 2)[-2] for key in await find(parts, "*:cut:*")) == ["cut", "cut"]


async def test_all_that_is_kept_of_traces_expires(narrow: Caller, parts: Components) -> None:
    """A trace stays for its time from the deadline of its root on, or from its end."""
    timeout_ms = 40_000
    await narrow.states(init(1, 9, message_timeout_ms=timeout_ms), init(2, 9), ack(2, 9))
    left = {key: await at(parts, "PTTL", key) for key in await kept(parts)}
    pending, ended = (next(key for key in left if f":trace:\0\0\0\0\0\0\0{chr(root)}" in key) for root in (1, 2))
    lists = {key for key in left if ":trace:" not in key}
    assert {key.rsplit(":", 1)[-1] for key in lists} == {"traces", "traced", "acked"}
    assert len(left) == 5
    assert TTL_MS < left[pending] <= TTL_MS + timeout_ms
    assert TTL_MS / 2 < left[ended] <= TTL_MS
    for key in lists:
        assert left[ended if key.endswith("acked") else pending] <= left[key] + 1_000, key
        assert left[key] <= (TTL_MS + timeout_ms) * 1.25, key


async def test_a_trace_stays_as_long_as_its_root_may_be_pending(narrow: Caller, parts: Components) -> None:
    timeout_ms = 4 * TTL_MS
    await narrow.put(trace=1, ackers=1, message_timeout_ms=timeout_ms)

    async def left() -> int:
        """Return how long the one trace stays, and see that the lists of traces stay as long."""
        (trace,) = await find(parts, "*:trace:*")
        of_lists = [
            await at(parts, "PTTL", key) for kind in ("*:traces", "*:traced") for key in await find(parts, kind)
        ]
        of_trace = int(await at(parts, "PTTL", trace))
        assert min(of_lists) > of_trace - 1_000
        return of_trace

    early = 0xA10000
    await narrow.post(ack(early, 9))
    for key in await find(parts, "*:trace:*"):
        await at(parts, "PEXPIRE", key, 1_000)
    await narrow.post(init(early, 9, 8))
    assert timeout_ms < await left() <= timeout_ms + TTL_MS
    for key in await find(parts, "*:trace:*"):
        await at(parts, "PEXPIRE", key, 1_000)
    await narrow.post(reset_timeout(early))
    assert timeout_ms < await left() <= timeout_ms + TTL_MS
    await narrow.post(ack(early, 8))
    assert TTL_MS / 2 < await left() <= TTL_MS


async def test_a_trace_that_has_expired_shows_no_edges(narrow: Caller, parts: Components) -> None:
    await narrow.post(init(R, 9))
    for key in await kept(parts):
        await at(parts, "PEXPIRE", key, 0)
    shown = await tree(narrow)
    assert (shown["state"], shown["traced"], shown["edges"]) == ("pending", False, [])
    await narrow.post(ack(R, 9, 8))
    assert await kept(parts) == []


async def test_traces_whose_time_has_passed_give_their_space_back(narrow: Caller, parts: Components) -> None:
    await narrow.states(*(init(root, 9) for root in range(1, 100)))
    await narrow.post(init(1_000, 9))
    assert not (await tree(narrow, 1_000))["traced"]
    taken = len(await find(parts, "*:trace:*"))
    (traces,) = await find(parts, "*:traces")
    for root_id in await at(parts, "ZRANGE", traces, 0, -1):
        await at(parts, "ZADD", traces, 0, root_id)
    for key in await find(parts, "*:trace:*"):
        await at(parts, "PEXPIRE", key, 0)
    for root in range(1_001, 1_001 + taken):
        await narrow.post(init(root, 9))
        assert (await tree(narrow, root))["traced"]
    counted, now_taken = await total(parts)
    assert counted == now_taken
    await narrow.post(init(2_000, 9))
    assert not (await tree(narrow, 2_000))["traced"]


async def test_a_trace_that_began_long_ago_stays_until_its_time_has_passed(narrow: Caller, parts: Components) -> None:
    await narrow.post(init(R, 9))
    (traces,) = await find(parts, "*:traces")
    for root_id in await at(parts, "ZRANGE", traces, 0, -1):
        await at(parts, "ZADD", traces, 0, root_id)
    await narrow.post(ack(R, 9, 8))
    await narrow.states(*(init(root, 9) for root in range(1_000, 1_100)))
    assert await edges(narrow) == {9: (None, "orders", "acked"), 8: (9, None, "open")}
    assert await at(parts, "ZCOUNT", traces, "-inf", 0) == 0


@pytest.mark.parametrize("linger", [0, 0.005], ids=["at once", "buffered"])
@pytest.mark.parametrize("trace", [True, False], ids=["by hand", "by share"])
async def test_the_one_missing_edge_of_a_thousand_is_found_behind_joins(
    call: Caller, *, linger: float, trace: bool
) -> None:
    """Each of 250 tuples is split in two, which are joined again: a child of both has an edge of each."""
    await call.put(trace=0 if trace else 1)
    transport = call.http._transport
    async with AsyncAcker("http://127.0.0.1", transport=transport, linger=linger) as acker:
        spout = acker.spout("orders")
        async with spout.emit(message_id="42", trace=trace) as root:
            starts = [root.headers() for _ in range(250)]
        lost = 0
        for number, start in enumerate(starts):
            async with acker.receive(start, component="split") as tup:
                halves = [acker.receive(tup.headers(), component="half") for _ in range(2)]
            joined = acker.anchor(*halves)
            for half in halves:
                await acker.ack(half)
            kept_anchors = joined.anchors
            if number == 123:
                lost, kept_anchors = joined.anchors[0].edge_id, joined.anchors[1:]
            await acker.ack(acker.receive(replace(joined, anchors=kept_anchors).headers(), component="join"))
        await acker.flush()
    shown = await tree(call, int(root.root_id, 16))
    assert not shown["truncated"]
    assert len(shown["edges"]) == 250 * 5
    (missing,) = [edge for edge in shown["edges"] if edge["state"] != "acked"]
    assert (missing["edge_id"], missing["component"], missing["state"]) == (format_id(lost), "half", "open")
