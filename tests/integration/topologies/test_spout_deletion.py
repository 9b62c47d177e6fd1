"""What topologies and spout tasks leave behind when they go, and what marks them while they do."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from acker_protocol.errors import StoreUnavailable
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.redis import keys
from acker_service.redis.calls import Call
from acker_service.settings import Settings
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.topology import Deletion, Topology

from tests.support.caller import Caller, ack, fail, init
from tests.support.redis_side import ask, at, find

pytestmark = pytest.mark.anyio

E, F = 0xE1, 0xE2
OF_A_SHARD = (
    "failed",
    *(f"failures{n}" for n in range(9)),
    "sweep",
    "pending",
    "unread",
    "heads",
    "tips",
    "counts",
    "gone",
    "used",
)
OF_A_BUCKET = ("r", "x")
OF_A_SET = ("s0:", "s1:", "n0:", "n1:")
OF_A_SPOUT_TASK = ("m", "retry", "tries", "d")


@pytest.fixture
async def orders(parts: Components, call: Caller) -> Caller:
    """A topology of one shard."""
    await parts.registry.create_or_update("orders", lambda _: TopologyConfig(ackers=1))
    return Caller(call.http, "orders")


@pytest.fixture
async def other(valkey_url: str) -> AsyncIterator[Caller]:
    """The same topology by another replica, with caches of its own."""
    replica = Components(valkey_url, window_ms=600_000)
    app = make_app(replica, Settings(), asyncio.Event())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://other.localhost") as client:
        yield Caller(client, "orders")
    await replica.close()


async def found(parts: Components) -> Topology:
    return await parts.registry.refresh("orders")


async def base(parts: Components) -> str:
    """What the keys of the shard begin with."""
    topology = await found(parts)
    return f"{topology.shards[0]}:{topology.incarnation}:"


async def field(parts: Components, name: str, index: int) -> bytes | None:
    """What the shard keeps of a spout task."""
    kept: bytes | None = await at(parts, "HGET", await base(parts) + name, index)
    return kept


async def index_of(parts: Components, spout_task: str) -> int:
    return (await parts.spouts.read_all(await found(parts)))[spout_task].index


async def delete(call: Caller, *, of: str = "", **query: object) -> httpx.Response:
    return await call.http.delete(f"/v1/topologies/orders{of}", params=query)


def raw(bucket: int) -> str:
    """Write a bucket as keys do, as `find` reads them."""
    return bucket.to_bytes(4, "big").decode(errors="surrogateescape")


async def plant_all(orders: Caller, parts: Components) -> list[str]:
    """Make all keys that a shard may have, with the lowest and the highest number, and return those of acked edges."""
    await orders.states(init(1, E), init(2, E, spout_task="z"))
    begin, topology = await base(parts), await found(parts)
    last = topology.config.buckets - 1
    planted = ["slices", *(f"{name}{raw(n)}" for name in OF_A_BUCKET for n in (0, last))]
    planted += [f"{name}{n}" for name in OF_A_SET for n in (0, topology.seen_sets - 1)]
    planted += [f"{name}{n}" for name in OF_A_SPOUT_TASK for n in (0, await index_of(parts, "z"))]
    edges = [f"p{part}:{raw(n)}{half}" for part in (0, 1) for n in (0, last) for half in (0, 1)]
    for name in (*planted, *edges, *OF_A_SHARD):
        await at(parts, "DEL", begin + name)
        await at(parts, "HSET", begin + name, 0, 0)
    await at(parts, "SET", begin + "early", 1)
    await at(parts, "SET", begin + "remembered", bytes(58))
    assert await at(parts, "EXISTS", begin + "due")
    return [begin + name for name in edges]


async def left(parts: Components) -> set[str]:
    return {key for key in await find(parts, "acker:*") if "orders" in key}


async def test_a_topology_that_goes_leaves_nothing_of_all_that_a_shard_keeps(orders: Caller, parts: Components) -> None:
    await orders.put(dedupe_window_ms=60_000)
    await plant_all(orders, parts)
    assert (await delete(orders, force=True, discard=True)).status_code == 204
    assert await left(parts) == {keys.shard("orders", 0)}


async def test_a_removal_that_dies_half_way_leaves_nothing_when_it_is_gone_on_with(
    orders: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    await orders.put(dedupe_window_ms=60_000)
    await plant_all(orders, parts)
    marked = await parts.registry.set_deletion(await found(parts), Deletion.DELETING)
    execute, sweeps = parts.redis.execute, 0

    async def dies(call: Call[Any]) -> Any:
        nonlocal sweeps
        is_sweep = call.name == "acker_sweep_v2"
        sweeps += is_sweep
        if is_sweep and sweeps == 2:
            raise StoreUnavailable("died")
        return await execute(call)

    monkeypatch.setattr("acker_service.topologies.deletion.DELETION_TIMEOUT_MS", -1)
    monkeypatch.setattr(parts.redis, "execute", dies)
    with pytest.raises(StoreUnavailable, match="died"):
        await parts.topology_deleter.resume(marked)
    assert len(await left(parts)) > 2
    await parts.topology_deleter.resume(await found(parts))
    assert await left(parts) == {keys.shard("orders", 0)}


async def test_a_shard_in_which_nothing_was_written_is_not_swept(
    orders: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, execute = list[str](), parts.redis.execute

    async def noted(call: Call[Any]) -> Any:
        called.append(call.name)
        return await execute(call)

    monkeypatch.setattr(parts.redis, "execute", noted)
    assert (await delete(orders)).status_code == 204
    assert "acker_bury_v1" in called
    assert "acker_sweep_v2" not in called
    assert await left(parts) == {keys.shard("orders", 0)}


async def test_without_a_dedupe_window_there_are_no_edges_to_look_for(orders: Caller, parts: Components) -> None:
    """Those that were remembered before the window was taken away expire."""
    edges = await plant_all(orders, parts)
    assert (await delete(orders, force=True, discard=True)).status_code == 204
    assert await left(parts) == {keys.shard("orders", 0), *edges}


async def test_a_topology_that_has_gone_is_not_listed(orders: Caller, parts: Components) -> None:
    assert "orders" in await parts.registry.names()
    await delete(orders)
    assert "orders" not in await parts.registry.names()


async def test_a_forced_deletion_drops_and_counts_what_is_early(orders: Caller, parts: Components) -> None:
    await orders.states(ack(1, E), fail(2, reason="early"))
    topology = await found(parts)
    assert await ask(parts, topology, 0, "acker_fail_all_v1", topology.settings, 2_000) == [0]
    assert (await orders.show())["counts"]["dropped"] == 2
    assert [(await orders.root(root))["code"] for root in (1, 2)] == ["unknown_root"] * 2
    assert not await at(parts, "EXISTS", await base(parts) + "x" + raw(2))


async def test_a_forced_deletion_takes_a_piece_a_call(orders: Caller, parts: Components) -> None:
    await orders.states(*(init(root, E) for root in (1, 2, 3)))
    topology, replies = await found(parts), list[list[int]]()
    for _ in range(3):
        replies.append(await ask(parts, topology, 0, "acker_fail_all_v1", topology.settings, 1))
    assert replies == [[1], [1], [0]]
    assert (await orders.show())["counts"]["failed"] == 3


async def test_a_replica_with_a_warm_cache_meets_a_mark(orders: Caller, other: Caller, parts: Components) -> None:
    assert await other.state(init(1, E)) == "pending"
    await parts.registry.set_deletion(await found(parts), Deletion.DRAINING)
    assert await other.state(init(2, E)) == "topology_busy"


@pytest.mark.parametrize("deletion", [Deletion.CHECKING, Deletion.DELETING])
async def test_a_removal_at_work_is_not_taken_over(orders: Caller, parts: Components, deletion: Deletion) -> None:
    await parts.registry.set_deletion(await found(parts), deletion)
    await parts.topology_deleter.resume(await found(parts))
    assert (await found(parts)).deletion is deletion


async def test_a_busy_spout_task_goes_on(orders: Caller) -> None:
    await orders.post(init(1, E))
    assert (await delete(orders, of="/spouts/orders")).json()["code"] == "spout_busy"
    assert await orders.state(init(2, E)) == "pending"


async def test_an_index_is_never_used_again(orders: Caller, parts: Components) -> None:
    for name in ("a", "b"):
        await orders.put_spout(name)
    await delete(orders, of="/spouts/a")
    await orders.put_spout("c")
    await orders.put_spout("a")
    assert [await index_of(parts, name) for name in ("b", "c", "a")] == [1, 2, 3]


async def test_a_spout_task_that_changes_keeps_its_index(orders: Caller, parts: Components) -> None:
    for name in ("a", "b"):
        await orders.put_spout(name)
    before = (await parts.spouts.read_all(await found(parts)))["a"]
    await orders.put_spout("a", ephemeral=True)
    after = (await parts.spouts.read_all(await found(parts)))["a"]
    assert (before.ephemeral, after.ephemeral) == (False, True)
    assert (after.index, after.created_ms) == (before.index, before.created_ms)


async def test_a_spout_task_that_goes_leaves_nothing_but_that_its_index_is_gone(
    orders: Caller, parts: Components
) -> None:
    await orders.states(init(1, E), init(2), init(3), init(4))
    await orders.release((await orders.completions(limit=1))["cursor"])
    kept, index = ("pending", "unread", "heads", "tips", "used"), await index_of(parts, "orders")
    assert all([await field(parts, name, index) for name in kept])
    assert await ask(parts, await found(parts), 0, "acker_remove_spout_v1", index) == [2]
    assert not any([await field(parts, name, index) for name in kept])
    assert not await at(parts, "EXISTS", f"{await base(parts)}m{index}")
    assert await at(parts, "SMEMBERS", await base(parts) + "gone") == {str(index).encode()}


async def test_what_ends_under_a_removed_spout_task_leaves_nothing(orders: Caller, parts: Components) -> None:
    await orders.states(init(1, E), init(2, E))
    index = await index_of(parts, "orders")
    await delete(orders, of="/spouts/orders", discard=True)
    assert await orders.states(ack(1, E), fail(2)) == ["acked", "failed"]
    assert [(await orders.show())["counts"][name] for name in ("acked", "failed")] == [1, 1]
    assert [await field(parts, name, index) for name in ("pending", "unread", "tips")] == [None] * 3
    assert not await at(parts, "EXISTS", f"{await base(parts)}m{index}")
