"""A tick ends all that is overdue in several shards, two at a time, and each root once."""

import asyncio
from typing import Any

import pytest
from acker_protocol.errors import StoreUnavailable
from acker_service.components import Components
from acker_service.redis.calls import ShardCall
from acker_service.redis.functions.expiry import Ticked
from acker_service.roots import expiry
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.topology import Topology

from tests.support.caller import Caller, init
from tests.support.overdue import overdue

pytestmark = pytest.mark.anyio


@pytest.fixture
def under_way(parts: Components, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calls of the tick that are under way while one begins, that one included."""
    call, counts, running = parts.shards.call, list[int](), 0

    async def counted(topology: Topology, shard: int, asked: ShardCall[Any]) -> Any:
        nonlocal running
        if asked.function != "acker_tick_v1":
            return await call(topology, shard, asked)
        running += 1
        counts.append(running)
        try:
            await asyncio.sleep(0)
            return await call(topology, shard, asked)
        finally:
            running -= 1

    monkeypatch.setattr(parts.shards, "call", counted)
    return counts


@pytest.fixture
async def many(parts: Components, call: Caller, monkeypatch: pytest.MonkeyPatch) -> Topology:
    """A topology of five shards in each of which twelve roots are overdue; a call ends four."""
    monkeypatch.setattr(expiry, "RECORDS", 8)
    wide = Caller(call.http, "wide")
    await wide.put(ackers=5)
    await wide.states(*[init(root, 9, message_timeout_ms=100) for root in range(1, 61)])
    await overdue(parts, call, 1)  # of another topology: it began after them
    return await parts.registry.get("wide")


async def test_shards_are_ticked_two_at_a_time_and_by_turns(
    parts: Components, many: Topology, under_way: list[int]
) -> None:
    """No shard waits until another is done, and other clients wait for two calls at most."""
    asked: list[str] = []
    execute = parts.redis.execute

    async def noted(call: Any) -> Any:
        asked.append(call.key)
        return await execute(call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts.redis, "execute", noted)
        assert await parts.expiry.expire_shards(many, range(5)) == 60
    assert max(under_way) == 2
    assert set(asked[:5]) == set(many.shards), "each shard once before any is called again"
    assert max(asked.count(key) for key in many.shards) >= 3


async def test_one_call_at_a_time_ends_the_same(parts: Components, many: Topology, under_way: list[int]) -> None:
    parts.expiry.calls_at_once = 1
    assert await parts.expiry.expire_shards(many, range(5)) == 60
    assert max(under_way) == 1


@pytest.fixture
def one_by_one(parts: Components, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are made one after the other; each reads few records, and takes as long as a shard may be left alone."""
    monkeypatch.setattr(parts.expiry, "calls_at_once", 1)
    monkeypatch.setattr(expiry, "RECORDS", 8)
    monkeypatch.setattr(expiry, "NOTED_EVERY_S", 0.0)


async def busy(parts: Components, call: Caller, first: int, second: int, *, grace_ms: int, buckets: int) -> Topology:
    """A topology of two shards, with so many overdue roots in the first one and in the second one."""
    made = TopologyConfig(ackers=2, buckets=buckets, grace_ms=grace_ms)
    topology = await parts.registry.create_or_update("busy", lambda _: made)
    caller, roots = Caller(call.http, "busy"), [*range(2, 2 * first + 2, 2), *range(1, 2 * second, 2)]
    await caller.states(*[init(root, 9, message_timeout_ms=100) for root in roots])
    await overdue(parts, call, 1)  # of another topology: it began after them
    return topology


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize(("roots", "buckets", "function"), [(100, 64, "acker_tick_v1"), (2_500, 1, "acker_walk_v1")])
@pytest.mark.parametrize("grace_ms", [0, 1_000])
async def test_a_shard_with_grace_is_ticked_while_another_has_more(
    parts: Components,
    call: Caller,
    monkeypatch: pytest.MonkeyPatch,
    roots: int,
    buckets: int,
    function: str,
    grace_ms: int,
) -> None:
    """Else a backlog would leave a gap in the other, though no worker was away."""
    topology = await busy(parts, call, roots, 0, grace_ms=grace_ms, buckets=buckets)
    apply, asked = parts.shards.call, list[tuple[int, str]]()

    async def noted(topology: Topology, shard: int, call: ShardCall[Any]) -> Any:
        asked.append((shard, call.function))
        return await apply(topology, shard, call)

    monkeypatch.setattr(parts.shards, "call", noted)
    assert await parts.expiry.expire_shards(topology, [0]) == roots
    steps = asked.count((0, function))
    begin, end = asked.index((0, function)), len(asked) - asked[::-1].index((0, function))
    meanwhile = asked[begin:end].count((1, "acker_tick_v1"))
    assert steps > 2
    assert meanwhile >= steps // 3 if grace_ms else meanwhile == 0


async def test_a_run_begins_with_a_tick_of_each_shard_with_grace(
    parts: Components, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not known how long the shards without anything due were left alone."""
    monkeypatch.setattr(parts.expiry, "calls_at_once", 1)
    topology = await busy(parts, call, 1, 0, grace_ms=1_000, buckets=64)
    apply, ticked = parts.shards.call, list[int]()

    async def noted(topology: Topology, shard: int, call: ShardCall[Any]) -> Any:
        ticked.append(shard)
        return await apply(topology, shard, call)

    monkeypatch.setattr(parts.shards, "call", noted)
    assert await parts.expiry.expire_shards(topology, [0]) == 1
    assert ticked == [0, 1]


@pytest.mark.usefixtures("one_by_one")
async def test_a_shard_that_is_found_to_have_more_meanwhile_is_ticked_again(
    parts: Components, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its roots fell due just after it had been ticked."""
    topology = await busy(parts, call, 30, 300, grace_ms=1_000, buckets=64)
    apply, ticked_before_them = parts.shards.call, list[int]()

    async def too_early(topology: Topology, shard: int, call: ShardCall[Any]) -> Any:
        if shard == 1 and not ticked_before_them:
            ticked_before_them.append(shard)
            return topology, Ticked(ended=0, more=False, overfull_buckets=[])
        return await apply(topology, shard, call)

    monkeypatch.setattr(parts.shards, "call", too_early)
    assert await parts.expiry.expire_shards(topology, [1, 0]) == 330


async def test_two_workers_end_each_root_once(parts: Components, call: Caller, many: Topology) -> None:
    other = Components(parts.redis.url, window_ms=600_000)
    seen = await other.registry.get("wide")
    ended = await asyncio.gather(
        parts.expiry.expire_shards(many, range(5)), other.expiry.expire_shards(seen, range(4, -1, -1))
    )
    await other.close()
    assert sum(ended) == 60
    outcomes = await Caller(call.http, "wide").outcomes(limit=1_000)
    assert sorted(outcomes) == [(root, "timed_out") for root in range(1, 61)]


async def test_a_shard_that_does_not_answer_keeps_no_other_from_its_tick(
    parts: Components, many: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = parts.shards.call

    async def fails(topology: Topology, shard: int, asked: ShardCall[Any]) -> Any:
        if shard == 0:
            raise StoreUnavailable("a server is away")
        return await call(topology, shard, asked)

    monkeypatch.setattr(parts.shards, "call", fails)
    with pytest.raises(StoreUnavailable):
        await parts.expiry.expire_shards(many, range(5))
    monkeypatch.undo()
    assert await parts.expiry.expire_shards(many, range(1, 5)) == 0, "the others were ticked"
    assert await parts.expiry.expire_shards(many, [0]) > 0
