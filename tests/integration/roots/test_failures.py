"""The list of failed and timed-out roots: newest first, capped, for a day, in the step in which they end."""

import itertools
from collections.abc import Sequence

import pytest
from acker_protocol.ids import format_id
from acker_service.components import Components
from acker_service.roots.failures import FailureFilter, FailureReader, first_positions
from acker_service.topologies import config

from tests.support.caller import Caller, Document, ack, fail, init
from tests.support.redis_side import at, find
from tests.support.trips import command_counts
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

R, E = 0xA1, 0xE1
DAY_MS = 86_400_000
CHUNKS = 9
"""Parts in which a shard keeps its list (lua/failures.lua)."""
Failed = tuple[int, str]


async def page(call: Caller, **query: object) -> Document:
    answer = await call.http.get(f"/v1/topologies/{call.topology}/failures", params=query)
    return dict(answer.json())


async def listed(call: Caller, **query: object) -> list[Failed]:
    """Return all failures, page by page: root and outcome."""
    found: list[Failed] = []
    after: dict[str, object] = {}
    while True:
        read = await page(call, **query, **after)
        found += [(int(failure["root_id"], 16), failure["outcome"]) for failure in read["failures"]]
        if read["cursor"] is None:
            return found
        after = {"after": read["cursor"]}


async def time_out(parts: Components, call: Caller, roots: Sequence[int], **fields: object) -> None:
    """Let roots time out."""
    await call.states(*[init(root, E, message_timeout_ms=100, **fields) for root in roots])
    topology = await parts.registry.get(call.topology)
    ended = 0

    async def is_over() -> bool:
        nonlocal ended
        ended += await parts.expiry.expire(topology)
        return ended == len(roots)

    await eventually(is_over)


@pytest.fixture
async def single(call: Caller) -> Caller:
    """A topology of one shard."""
    caller = Caller(call.http, "single")
    await caller.put(ackers=1)
    return caller


async def test_a_root_that_failed_is_listed_with_all_that_is_known_of_it(call: Caller) -> None:
    await call.post(init(R, E, message_id="42"))
    await call.post(fail(R, reason="no such product", component="price"))
    (done,) = (await call.completions())["completions"]
    wanted = {"reason": "no such product", "component": "price", "at_ms": done["at_ms"]}
    failure = {"root_id": format_id(R), "message_id": "42", "spout_task": "orders", "outcome": "failed"} | wanted
    assert await page(call) == {"failures": [failure], "cursor": None, "scanned": 1}
    assert await call.root(R) == {"root_id": format_id(R), "state": "finished", "outcome": "failed"} | wanted


async def test_a_root_that_ended_when_all_had_ended_is_listed_with_how_many_failed(call: Caller) -> None:
    failed = [fail(R, edge_id=format_id(edge), reason=f"no {edge}", component="load") for edge in (1, 4)]
    await call.states(init(R, 1, 2, 4, end_on="all_ended"), *failed, ack(R, 2))
    [shown] = (await page(call))["failures"]
    assert (shown["failures"], shown["reason"], shown["component"]) == (2, "no 1", "load")
    root = await call.root(R)
    assert (root["outcome"], root["failures"], root["reason"]) == ("failed", 2, "no 1")


async def test_a_root_without_message_id_reason_and_component_is_listed_with_nulls(call: Caller) -> None:
    await call.states(init(R, E), fail(R))
    (failure,) = (await page(call))["failures"]
    assert [failure[name] for name in ("message_id", "reason", "component")] == [None] * 3


@pytest.mark.parametrize("fields", [{}, {"progress_timeout_ms": 100}, {"message_id": "m" * 100}])
async def test_a_root_that_timed_out_is_listed(call: Caller, parts: Components, fields: Document) -> None:
    await time_out(parts, call, [R], **fields)
    (failure,) = (await page(call))["failures"]
    assert (failure["root_id"], failure["outcome"], failure["reason"]) == (format_id(R), "timed_out", None)
    assert failure["message_id"] == fields.get("message_id")
    assert (await call.root(R))["at_ms"] == failure["at_ms"]


@pytest.mark.parametrize(
    ("root_details", "components", "named"),
    [
        (True, ["price"], "price"),
        (True, ["price", "pack"], "pack"),
        (True, ["price", None], None),
        (True, [], None),
        (False, ["price"], None),
    ],
)
async def test_a_timeout_names_the_component_that_acked_last(
    call: Caller, parts: Components, *, root_details: bool, components: list[str | None], named: str | None
) -> None:
    await call.put(root_details=root_details)
    acks = [ack(R, E + number, E + number + 1, component=it) for number, it in enumerate(components)]
    await call.states(init(R, E, message_timeout_ms=100), *acks)
    topology = await parts.registry.get(call.topology)

    async def is_over() -> bool:
        return await parts.expiry.expire(topology) == 1

    await eventually(is_over)
    (failure,) = (await page(call))["failures"]
    assert failure["component"] == (await call.root(R))["component"] == named
    (done,) = (await call.completions())["completions"]
    assert done["component"] is None
    assert done["last_component"] == named
    assert done["outstanding"] == (1 if root_details else None)
    assert (done["last_ack_at_ms"] is None) == (not root_details or not components)


async def test_a_fail_by_hand_and_an_early_fail_are_listed_with_their_reasons(call: Caller) -> None:
    await call.post(init(1, E))
    await call.force_fail(1, reason="stuck")
    await call.post(fail(2, reason="before its init", component="price"))
    assert [failure["reason"] for failure in (await page(call))["failures"]] == ["forced: stuck"]
    await call.post(init(2, E))
    early = (await page(call))["failures"][0]
    assert (early["reason"], early["component"]) == ("before its init", "price")


async def test_a_root_that_was_acked_is_not_listed_and_shows_nulls(call: Caller) -> None:
    await call.states(init(R, E), ack(R, E))
    assert await page(call) == {"failures": [], "cursor": None, "scanned": 0}
    root = await call.root(R)
    assert [root[name] for name in ("outcome", "reason", "component", "at_ms")] == ["acked", None, None, None]


async def test_a_repeated_fail_is_listed_once(call: Caller) -> None:
    for _ in range(2):
        await call.states(init(R, E), fail(R, reason="once"), key="k")
    await call.post(fail(R, reason="twice"))
    assert await listed(call) == [(R, "failed")]


async def test_a_root_id_that_is_used_again_shows_its_newest_failure(call: Caller, parts: Components) -> None:
    await call.states(init(R, E), fail(R, reason="first"))
    topology = await parts.registry.get("default")
    layout = topology.layout
    bucket = layout.bucket_of(R).to_bytes(4, "big").decode(errors="surrogateescape")
    key = f"{topology.shards[layout.shard_of(R)]}:{topology.incarnation}:r{bucket}"
    await at(parts, "HDEL", key.encode(errors="surrogateescape"), R.to_bytes(8, "big"))
    await call.states(init(R, E), fail(R, reason="second"))
    assert (await call.root(R))["reason"] == "second"


@pytest.mark.parametrize("field", ["reason", "component", "message_id"])
async def test_an_id_within_a_text_is_no_root(single: Caller, field: str) -> None:
    text = "abcdefgh"
    root = int.from_bytes(text.encode(), "big")
    await single.states(init(root, E), fail(root, reason="its own"))
    texts = {"reason": "another's", field: text}
    message_id = texts.pop("message_id", None)
    await single.states(init(R, E, message_id=message_id), fail(R, **texts))
    assert (await single.root(root))["reason"] == "its own"
    assert (await single.root(R))["reason"] == texts["reason"]


async def test_pages_list_every_failure_once_newest_first(call: Caller) -> None:
    await call.put(ackers=4)
    for first in range(1, 201, 10):
        await call.states(*[op for root in range(first, first + 10) for op in (init(root, E), fail(root))])
    whole = (await page(call, limit=1_000))["failures"]
    times = [failure["at_ms"] for failure in whole]
    assert times == sorted(times, reverse=True)
    assert sorted(await listed(call, limit=7)) == [(root, "failed") for root in range(1, 201)]
    assert await listed(call, limit=7) == await listed(call, limit=1_000)


async def test_failures_that_are_written_between_two_pages_do_not_move_the_next_page(call: Caller) -> None:
    await call.states(*[op for root in range(1, 21) for op in (init(root, E), fail(root))])
    first = await page(call, limit=5)
    await call.states(*[op for root in range(21, 41) for op in (init(root, E), fail(root))])
    second = await page(call, limit=1_000, after=first["cursor"])
    roots = [int(failure["root_id"], 16) for failure in (*first["failures"], *second["failures"])]
    assert sorted(roots) == list(range(1, 21))


async def test_filters_leave_out_all_others(call: Caller, parts: Components) -> None:
    await call.states(init(1, E), fail(1, component="price"), init(2, E, spout_task="late"), fail(2, component="count"))
    await time_out(parts, call, [3], spout_task="late")
    assert await listed(call, outcome="timed_out") == [(3, "timed_out")]
    assert sorted(await listed(call, outcome="failed", limit=1)) == [(1, "failed"), (2, "failed")]
    assert await listed(call, component="price") == [(1, "failed")]
    assert sorted(await listed(call, spout_task="late")) == [(2, "failed"), (3, "timed_out")]
    assert await listed(call, spout_task="unknown") == []
    assert await listed(call, spout_task="late", component="price") == []


@pytest.mark.parametrize("query", [{"outcome": "acked"}, {"limit": 0}, {"after": "!"}, {"since_ms": 1}])
async def test_what_is_no_filter_is_refused(call: Caller, query: Document) -> None:
    assert (await page(call, **query))["code"] == "invalid"


async def test_the_cursor_of_pending_roots_is_refused(call: Caller) -> None:
    await call.states(*[init(root, E) for root in range(1, 9)])
    other = (await call.roots(limit=1))["cursor"]
    assert "another list" in (await page(call, after=other))["detail"]


@pytest.fixture
async def small(call: Caller, monkeypatch: pytest.MonkeyPatch) -> Caller:
    """A topology of two shards that lists forty failures."""
    monkeypatch.setattr(config, "MAX_FAILURES", 40)
    caller = Caller(call.http, "small")
    await caller.put(ackers=2)
    return caller


@pytest.mark.parametrize("at_once", [1, 7, 20, 200], ids=lambda number: f"{number} at once")
async def test_the_list_keeps_the_newest_failures_of_each_shard(small: Caller, parts: Components, at_once: int) -> None:
    for first in range(1, 201, at_once):
        ops = [op for root in range(first, min(first + at_once, 201)) for op in (init(root, E), fail(root))]
        assert {*(await small.states(*ops))} == {"pending", "failed"}
    topology = await parts.registry.get("small")
    by_shard: list[list[int]] = [[], []]
    for root, _ in await listed(small, limit=3):
        by_shard[topology.layout.shard_of(root)].append(root)
    assert [len(roots) for roots in by_shard] == [20, 20]
    if at_once == 1:
        every = [[root for root in range(1, 201) if topology.layout.shard_of(root) == shard] for shard in (0, 1)]
        assert [roots[::-1] for roots in by_shard] == [roots[-20:] for roots in every]
    for root, _ in await listed(small):
        assert (await small.root(root))["at_ms"] is not None


async def test_a_failure_that_left_the_list_shows_only_its_outcome(small: Caller) -> None:
    for root in range(1, 201):
        await small.states(init(root, E), fail(root, reason="full"))
    kept = {root for root, _ in await listed(small)}
    assert (await small.root(min(kept)))["reason"] == "full"
    gone = await small.root(1)
    assert 1 not in kept
    assert (gone["outcome"], gone["reason"], gone["at_ms"]) == ("failed", None, None)


async def test_one_call_looks_for_a_failure_in_a_part_of_the_list_at_most(small: Caller, parts: Components) -> None:
    """So others need not wait until all of a long list is looked through."""
    for root in range(1, 201):
        await small.states(init(root, E), fail(root))
    before = await command_counts(parts)
    assert (await small.root(1))["at_ms"] is None
    after = await command_counts(parts)
    calls, parts_read = (after.get(command, 0) - before.get(command, 0) for command in ("fcall", "get"))
    assert CHUNKS - 1 <= parts_read <= calls


async def test_a_wave_of_timeouts_is_listed_as_far_as_the_list_goes(small: Caller, parts: Components) -> None:
    await small.states(init(999, E), fail(999))
    await time_out(parts, small, range(1, 301))
    found = await listed(small)
    assert len(found) == 40
    assert {outcome for _, outcome in found} == {"timed_out"}


@pytest.mark.parametrize("wave", [200, 201, 202])
async def test_a_wave_leaves_nothing_of_what_it_replaces(small: Caller, wave: int) -> None:
    for first in range(1, 101, 10):
        await small.states(*[op for root in range(first, first + 10) for op in (init(root, E), fail(root))])
    await small.states(*[op for root in range(1001, 1001 + wave) for op in (init(root, E), fail(root))])
    found = [root for root, _ in await listed(small)]
    assert len({*found}) == len(found) == 40
    assert min(found) > 1000
    assert {(await small.root(root))["at_ms"] for root in range(1, 101)} == {None}


async def test_failures_beyond_the_list_are_not_written(small: Caller, parts: Components) -> None:
    before = await command_counts(parts)
    await small.states(*[op for root in range(1, 201) for op in (init(root, E), fail(root))])
    after = await command_counts(parts)
    assert len(await listed(small)) == 40
    written = [after.get(command, 0) - before.get(command, 0) for command in ("set", "append")]
    assert sum(written) <= 2 * CHUNKS


async def test_the_list_takes_few_keys_which_end_a_day_after_the_last_write(small: Caller, parts: Components) -> None:
    for root in range(1, 101):
        await small.states(init(root, E), fail(root))
    found = await find(parts, "*small*:failures*")
    assert 9 <= len(found) <= 18
    for key in found:
        assert DAY_MS - 60_000 < await at(parts, "PTTL", key) <= DAY_MS


async def test_a_list_that_ended_leaves_an_empty_one_and_begins_again(call: Caller, parts: Components) -> None:
    await call.states(*[op for root in range(1, 9) for op in (init(root, E), fail(root))])
    for key in await find(parts, "*:failures*"):
        await at(parts, "DEL", key)
    assert await page(call) == {"failures": [], "cursor": None, "scanned": 0}
    await call.states(init(9, E), fail(9))
    assert await listed(call) == [(9, "failed")]
    assert (await call.root(9))["at_ms"] is not None
    topology = await parts.registry.get(call.topology)
    size = -(-topology.config.max_failures // (CHUNKS - 1))
    counts = f"{topology.shards[topology.layout.shard_of(9)]}:{topology.incarnation}:counts"
    assert int(await at(parts, "HGET", counts, "listed")) == size + 1, "it goes on in the middle of a chunk"


async def test_nothing_is_looked_for_behind_a_part_of_the_list_that_has_ended(small: Caller, parts: Components) -> None:
    for root in range(1, 201):
        await small.states(init(root, E), fail(root))
    for key in await find(parts, "*small*:failures*"):
        await at(parts, "DEL", key)
    before = await command_counts(parts)
    assert (await small.root(1))["at_ms"] is None
    after = await command_counts(parts)
    read = after.get("get", 0) - before.get("get", 0)
    assert 1 <= read <= 2  # one of them for the root


async def test_a_topology_that_is_deleted_takes_its_failures_along(small: Caller, parts: Components) -> None:
    await small.states(*[op for root in range(1, 101) for op in (init(root, E), fail(root, component="price"))])
    cursor = (await page(small, limit=1))["cursor"]
    await small.http.delete("/v1/topologies/small", params={"force": True, "discard": True})
    assert await find(parts, "*small*:fail*") == []
    await small.put(ackers=2)
    assert await page(small, after=cursor) == {"failures": [], "cursor": None, "scanned": 0}


async def test_a_root_of_a_spout_task_that_is_gone_is_listed_without_it(call: Caller) -> None:
    await call.states(init(R, E), fail(R))
    await call.http.delete("/v1/topologies/default/spouts/orders", params={"discard": True})
    (failure,) = (await page(call))["failures"]
    assert (failure["root_id"], failure["spout_task"]) == (format_id(R), None)


async def counted(parts: Components) -> dict[str, int]:
    """Return what the one shard of a topology counts of its failures."""
    (key,) = await find(parts, "*single*:failed")
    return {name.decode(): int(value) for name, value in (await at(parts, "HGETALL", key)).items()}


async def test_failures_of_one_request_are_counted_by_their_own_components(single: Caller, parts: Components) -> None:
    names = ["price", "pack", "price"]
    await single.states(*[op for n, name in enumerate(names, 1) for op in (init(n, E), fail(n, component=name))])
    found = await counted(parts)
    assert (found["Fprice"], found["Fpack"]) == (2, 1)


async def test_components_beyond_the_first_fifty_are_counted_together(single: Caller, parts: Components) -> None:
    for root in range(1, 61):
        await single.states(init(root, E), fail(root, component=f"bolt-{root}"))
    await single.states(init(61, E), fail(61, component="bolt-1"))
    found = await counted(parts)
    named = {name: times for name, times in found.items() if name.startswith("Fbolt")}
    assert named == {f"Fbolt-{number}": 2 if number == 1 else 1 for number in range(1, 51)}
    assert found["Fother"] == 10


async def test_a_component_is_admitted_once_for_both_outcomes(single: Caller, parts: Components) -> None:
    await single.states(init(1, E), fail(1, component="price"))
    await single.states(init(2, E ^ R, message_timeout_ms=100), ack(2, E, component="price"))
    topology = await parts.registry.get(single.topology)

    async def is_over() -> bool:
        return await parts.expiry.expire(topology) == 1

    await eventually(is_over)
    found = await counted(parts)
    assert (found["Fprice"], found["Tprice"], found["n"]) == (1, 1, 1)


@pytest.fixture
async def several(call: Caller) -> Caller:
    """Failures of three reasons."""
    for n, (reason, component) in enumerate([("card declined: 51", "charge"), ("no stock", "reserve"), (None, "card")]):
        await call.states(init(R + n, E, message_id=f"order-{n}"), fail(R + n, reason=reason, component=component))
    return call


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"reason": "declined"}, [0]),
        ({"reason": "card"}, [0]),
        ({"text": "card"}, [2, 0]),
        ({"text": "order-1"}, [1]),
        ({"text": "o"}, [2, 1, 0]),
        ({"text": "o", "component": "reserve"}, [1]),
        ({"reason": "Declined"}, []),
    ],
)
async def test_failures_are_found_by_their_reason_and_by_a_text(
    several: Caller, query: Document, found: list[int]
) -> None:
    assert [int(one["root_id"], 16) - R for one in (await page(several, **query))["failures"]] == found


async def test_failures_are_found_by_their_time_both_ends_included(several: Caller) -> None:
    times = [one["at_ms"] for one in (await page(several))["failures"]]
    newest, oldest = times[0], times[-1]
    assert len((await page(several, from_ms=oldest, to_ms=newest))["failures"]) == len(times)
    assert (await page(several, from_ms=newest + 1))["failures"] == []
    assert (await page(several, to_ms=oldest - 1))["failures"] == []
    assert (await several.http.get(f"/v1/topologies/{several.topology}/failures?from_ms=2&to_ms=1")).status_code == 422


async def test_a_page_of_a_range_looks_no_further_than_its_first_time(several: Caller) -> None:
    newest = (await page(several))["failures"][0]["at_ms"]
    read = await page(several, from_ms=newest + 1)
    assert (read["scanned"], read["cursor"]) == (0, None)


async def test_a_page_that_takes_longer_than_its_time_is_short_and_the_next_goes_on(
    several: Caller, parts: Components
) -> None:
    topology = await parts.registry.get(several.topology)
    hours = itertools.count(step=3_600)
    reader = FailureReader(parts.shards, parts.spouts, clock=lambda: float(next(hours)))
    wanted, positions, seen = FailureFilter(reason="declined"), first_positions(topology), []
    while positions:
        read = await reader.page(topology, positions, wanted, limit=100)
        assert read.scanned <= 1
        positions = read.positions
        seen += [failure.root_id for failure in read.failures]
    assert seen == [R]
