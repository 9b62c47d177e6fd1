"""A tick ends all that is overdue in several shards, two at a time, and each root once."""

import asyncio
from typing import Any

import pytest
from acker_protocol.errors import StoreUnavailable
from acker_service.components import Components
from acker_service.redis.calls import ShardCall
from acker_service.roots import expiry
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
    await wide.states(*[init(root, 9, message_timeout_ms=100) for root in range(1, 60)])
    await overdue(parts, wide, 60)
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
