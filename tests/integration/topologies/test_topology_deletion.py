"""Topologies and spout tasks that go, and what was in flight against them."""

import httpx
import pytest
from acker_protocol.errors import StoreUnavailable
from acker_protocol.operations import Ack, Init
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.operations.request import ApplyRequest
from acker_service.redis import functions, keys
from acker_service.settings import Settings
from acker_service.topologies.topology import Deletion

from tests.support.columns import batch_of
from tests.support.redis_side import at, find
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

T = "/v1/topologies/orders"
ROOT, EDGE = "00000000000000a1", "00000000000000b1"
INIT = {"root_id": ROOT, "spout_task": "reader", "edges": [EDGE], "message_id": "42"}
ACK = {"root_id": ROOT, "edge_id": EDGE}


@pytest.fixture
async def topology(api: httpx.AsyncClient) -> str:
    assert (await api.put(T, json={"ackers": 2})).status_code == 201
    return T


@pytest.fixture
async def other(parts: Components, stopping: object, valkey_url: str) -> httpx.AsyncClient:
    """Another replica, with caches of its own."""
    replica = Components(valkey_url, window_ms=600_000)
    app = make_app(replica, Settings(), stopping)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://other.localhost") as client:
        yield client
    await replica.close()


async def keys_of(parts: Components, topology: str) -> list[str]:
    return [key for key in await find(parts, "acker:*") if topology in key]


async def state(client: httpx.AsyncClient, verb: str, operation: dict[str, object]) -> str:
    answer = (await client.post(f"{T}/{verb}", json=operation)).json()
    return str(answer.get("state", answer.get("code")))


async def test_an_idle_topology_goes_and_leaves_only_tombstones(
    api: httpx.AsyncClient, parts: Components, topology: str
) -> None:
    await state(api, "init", INIT)
    await state(api, "ack", ACK)
    cursor = (await api.get(f"{T}/spouts/reader/completions")).json()["cursor"]
    await api.post(f"{T}/spouts/reader/completions/release", json={"cursor": cursor})
    assert (await api.delete(T)).status_code == 204
    assert sorted(await keys_of(parts, "orders")) == ["acker:{orders/0}", "acker:{orders/1}"]
    for key in await keys_of(parts, "orders"):
        assert 0 < await at(parts, "PTTL", key) <= 86_400_000
    assert (await api.get(T)).json()["code"] == "unknown_topology"
    assert (await api.delete(T)).json()["code"] == "unknown_topology"


async def test_a_topology_with_grace_leaves_no_time_of_a_tick(
    api: httpx.AsyncClient, parts: Components, topology: str
) -> None:
    await api.put(T, json={"grace_ms": 1_000})
    await parts.expiry.expire(await parts.registry.refresh("orders"))
    assert len([key for key in await keys_of(parts, "orders") if key.endswith(":ticks")]) == 2
    assert (await api.delete(T)).status_code == 204
    assert sorted(await keys_of(parts, "orders")) == ["acker:{orders/0}", "acker:{orders/1}"]


@pytest.mark.parametrize("left", ["pending", "unread"])
async def test_a_busy_topology_stays_and_goes_on(api: httpx.AsyncClient, topology: str, left: str) -> None:
    await state(api, "init", INIT)
    if left == "unread":
        await state(api, "ack", ACK)
    refused = await api.delete(T)
    assert (refused.status_code, refused.json()["code"]) == (409, "topology_busy")
    assert await state(api, "init", INIT | {"root_id": "00000000000000a2"}) == "pending"


async def test_default_always_exists(api: httpx.AsyncClient) -> None:
    for query in ("", "?force=true", "?force=true&discard=true"):
        assert (await api.delete(f"/v1/topologies/default{query}")).json()["code"] == "topology_busy"


async def test_forced_it_fails_what_is_pending_and_goes_when_that_was_released(
    api: httpx.AsyncClient, parts: Components, topology: str
) -> None:
    await state(api, "init", INIT)
    await state(api, "ack", {"root_id": "00000000000000a9", "edge_id": EDGE})
    assert (await api.delete(f"{T}?force=true")).status_code == 202
    assert await state(api, "init", INIT | {"root_id": "00000000000000a2"}) == "topology_busy"
    batch = {"ops": [{"op": "ack"} | ACK, {"op": "init"} | INIT]}
    assert (await api.post(f"{T}/batch", json=batch)).json()["code"] == "topology_busy"
    assert (await api.put(T, json={})).json()["code"] == "topology_busy"
    assert await state(api, "ack", ACK) == "finished"
    told = (await api.get(f"{T}/spouts/reader/completions")).json()
    assert [(done["outcome"], done["reason"]) for done in told["completions"]] == [("failed", "topology deleted")]
    await parts.topology_deleter.resume(await parts.registry.refresh("orders"))
    assert (await api.get(T)).status_code == 200
    await api.post(f"{T}/spouts/reader/completions/release", json={"cursor": told["cursor"]})
    await parts.topology_deleter.resume(await parts.registry.refresh("orders"))
    assert (await api.get(T)).status_code == 404


async def test_with_discard_it_goes_at_once(api: httpx.AsyncClient, parts: Components, topology: str) -> None:
    await state(api, "init", INIT)
    await state(api, "ack", {"root_id": "00000000000000a9", "edge_id": EDGE})
    assert (await api.delete(f"{T}?force=true&discard=true")).status_code == 204
    assert len(await keys_of(parts, "orders")) == 2


async def test_discard_alone_is_refused(api: httpx.AsyncClient, topology: str) -> None:
    assert (await api.delete(f"{T}?discard=true")).json()["code"] == "invalid"


async def test_a_topology_made_again_is_untouched_by_what_was_in_flight_against_the_old_one(
    api: httpx.AsyncClient, other: httpx.AsyncClient, topology: str
) -> None:
    assert await state(other, "init", INIT) == "pending"
    old = (await other.get(f"{T}/spouts/reader/completions")).json()["cursor"]
    assert (await api.delete(f"{T}?force=true&discard=true")).status_code == 204
    assert (await api.put(T, json={"ackers": 2})).status_code == 201
    assert await state(api, "init", INIT | {"message_id": "43", "spout_task": "writer"}) == "pending"
    assert (await other.get(f"{T}/roots/{ROOT}")).json()["message_id"] == "43"
    release = await other.post(f"{T}/spouts/writer/completions/release", json={"cursor": old})
    assert release.json()["code"] == "invalid"
    assert (await other.get(f"{T}/spouts/reader")).json()["code"] == "unknown_spout"
    assert await state(api, "init", INIT | {"root_id": "00000000000000b2", "spout_task": "reader"}) == "pending"
    release = await other.post(f"{T}/spouts/reader/completions/release", json={"cursor": old})
    assert release.json() == {"released": 0}


async def test_a_replica_with_a_warm_cache_learns_that_a_topology_has_gone(
    api: httpx.AsyncClient, other: httpx.AsyncClient, parts: Components, topology: str
) -> None:
    assert await state(other, "ack", ACK) == "early"
    await api.delete(f"{T}?force=true&discard=true")
    assert await state(other, "init", INIT) == "unknown_topology"
    assert await state(other, "ack", ACK) == "unknown_topology"
    assert len(await keys_of(parts, "orders")) == 2


async def test_a_removal_that_died_before_its_end_is_gone_on_with(
    api: httpx.AsyncClient, parts: Components, topology: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acker_service.topologies.deletion.DELETION_TIMEOUT_MS", -1)
    marked = await parts.registry.set_deletion(await parts.registry.refresh("orders"), Deletion.DELETING)
    await parts.redis.execute(functions.topologies.bury(marked.shards[0], marked.stamp))
    await parts.topology_deleter.resume(await parts.registry.refresh("orders"))
    assert (await api.get(T)).status_code == 404
    assert len(await keys_of(parts, "orders")) == 2


async def test_a_count_that_died_is_forgotten(
    api: httpx.AsyncClient, parts: Components, topology: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acker_service.topologies.deletion.DELETION_TIMEOUT_MS", -1)
    await parts.registry.set_deletion(await parts.registry.refresh("orders"), Deletion.CHECKING)
    await parts.topology_deleter.resume(await parts.registry.refresh("orders"))
    assert await state(api, "init", INIT) == "pending"


async def test_an_incarnation_is_above_the_tombstones_of_the_old_one(
    api: httpx.AsyncClient, parts: Components, topology: str
) -> None:
    await api.delete(T)
    await at(parts, "SET", "acker:{orders/1}", "fffffffffffffffe" + "0000000001x", "PX", 10_000)
    await api.put(T, json={"ackers": 2})
    assert (await parts.registry.refresh("orders")).incarnation == "ffffffffffffffff"
    assert await state(api, "init", INIT) == "pending"


async def test_a_spout_task_stays_while_it_is_busy_and_goes_when_it_is_not(
    api: httpx.AsyncClient, topology: str
) -> None:
    await state(api, "init", INIT)
    assert (await api.delete(f"{T}/spouts/reader")).json()["code"] == "spout_busy"
    await state(api, "ack", ACK)
    assert (await api.delete(f"{T}/spouts/reader")).json()["code"] == "spout_busy"
    cursor = (await api.get(f"{T}/spouts/reader/completions")).json()["cursor"]
    await api.post(f"{T}/spouts/reader/completions/release", json={"cursor": cursor})
    assert (await api.delete(f"{T}/spouts/reader")).status_code == 204
    assert (await api.get(f"{T}/spouts/reader")).json()["code"] == "unknown_spout"
    assert (await api.delete(f"{T}/spouts/reader")).json()["code"] == "unknown_spout"


async def test_what_ends_under_a_removed_spout_task_reaches_nobody_elses_mailbox(
    api: httpx.AsyncClient, other: httpx.AsyncClient, topology: str
) -> None:
    assert await state(other, "init", INIT) == "pending"
    assert (await api.delete(f"{T}/spouts/reader?discard=true")).status_code == 204
    assert await state(api, "init", INIT | {"root_id": "00000000000000a2", "spout_task": "next"}) == "pending"
    assert await state(other, "init", INIT | {"root_id": "00000000000000a3"}) == "pending"
    assert await state(other, "ack", ACK) == "acked"
    for spout in ("next", "reader"):
        assert (await other.get(f"{T}/spouts/{spout}/completions")).json()["completions"] == []
    listed = (await api.get(f"{T}/spouts")).json()["spouts"]
    assert [(one["spout_task"], one["pending"], one["unread"]) for one in listed] == [("next", 1, 0), ("reader", 1, 0)]


async def test_an_ephemeral_spout_task_goes_when_nobody_uses_it(
    api: httpx.AsyncClient, valkey_url: str, topology: str
) -> None:
    idle = Components(valkey_url, window_ms=600_000, spout_idle_ms=1)
    made = await api.put(f"{T}/spouts/mine", json={"ephemeral": True})
    assert (made.status_code, made.json()["ephemeral"]) == (201, True)
    await api.put(f"{T}/spouts/ours", json={})

    async def has_gone() -> bool:
        await idle.spout_deleter.expire_unused(await idle.registry.refresh("orders"))
        return (await api.get(f"{T}/spouts/mine")).status_code == 404

    assert await eventually(has_gone)
    assert (await api.get(f"{T}/spouts/ours")).status_code == 200
    await idle.close()


async def test_an_ephemeral_spout_task_stays_while_roots_of_it_are_pending(
    api: httpx.AsyncClient, valkey_url: str, topology: str
) -> None:
    idle = Components(valkey_url, window_ms=600_000, spout_idle_ms=0)
    await api.put(f"{T}/spouts/reader", json={"ephemeral": True})
    await state(api, "init", INIT)

    async def time_has_passed() -> bool:
        _, used = await idle.shards.call_all(await idle.registry.refresh("orders"), functions.spouts.read_used())
        return any(ms < shard.now_ms for shard in used for ms in shard.used_ms.values())

    await eventually(time_has_passed)
    await idle.spout_deleter.expire_unused(await idle.registry.refresh("orders"))
    assert (await api.get(f"{T}/spouts/reader")).status_code == 200
    await state(api, "ack", ACK)

    async def has_gone() -> bool:
        await idle.spout_deleter.expire_unused(await idle.registry.refresh("orders"))
        return (await api.get(f"{T}/spouts/reader")).status_code == 404

    assert await eventually(has_gone)
    await idle.close()


async def test_completions_are_discarded_by_an_operator(api: httpx.AsyncClient, topology: str) -> None:
    await state(api, "init", INIT)
    await state(api, "ack", ACK)
    assert (await api.post(f"{T}/spouts/reader/completions/discard")).json() == {"discarded": 1}
    assert (await api.get(f"{T}/spouts/reader/completions")).json()["completions"] == []
    assert (await api.get(T)).json()["unread"] == 0


async def test_a_root_whose_spout_task_was_removed_is_shown_without_one(api: httpx.AsyncClient, topology: str) -> None:
    await state(api, "init", INIT)
    assert (await api.delete(f"{T}/spouts/reader?discard=true")).status_code == 204
    shown = (await api.get(f"{T}/roots/{ROOT}")).json()
    assert (shown["state"], shown["spout_task"]) == ("pending", None)
    assert [root["spout_task"] for root in (await api.get(f"{T}/roots")).json()["roots"]] == [None]


async def test_a_repeat_is_known_though_its_spout_task_was_made_again(api: httpx.AsyncClient, topology: str) -> None:
    await state(api, "ack", {"root_id": "00000000000000a7", "edge_id": EDGE})
    ops = [{"op": "init"} | INIT, {"op": "ack", "root_id": "00000000000000a7", "edge_id": "00000000000000b2"}]
    sent = {"json": {"ops": ops}, "headers": {"Idempotency-Key": "k"}}
    await api.post(f"{T}/batch", **sent)
    assert (await api.delete(f"{T}/spouts/reader?discard=true")).status_code == 204
    assert (await api.put(f"{T}/spouts/reader", json={})).status_code == 201
    before = (await api.get(f"{T}/roots/00000000000000a7")).json()["ack_val"]
    again = await api.post(f"{T}/batch", **sent)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (await api.get(f"{T}/roots/00000000000000a7")).json()["ack_val"] == before


async def test_what_is_half_applied_is_never_told_as_not_done(
    parts: Components, topology: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forced deletion that stamps one shard between the two parts of a request."""
    found = await parts.registry.get("orders")
    marked = await parts.registry.set_deletion(found, Deletion.DRAINING)
    await at(parts, "SET", marked.shards[0], found.stamp.text)
    await at(parts, "SET", marked.shards[1], marked.stamp.text)
    messages = [
        Ack(root_id=2, ack_val=5, outstanding=-1),
        Init(root_id=3, spout_task="s", ack_val=5, outstanding=1),
    ]
    await at(parts, "HSET", keys.topology("orders"), "pair", found.stamp.text, "mark", "")
    await parts.registry.refresh("orders")
    await parts.spouts.create_or_update(found, "s")
    mark = f"{Deletion.DRAINING} {marked.deletion_started_ms}"
    await at(parts, "HSET", keys.topology("orders"), "pair", marked.stamp.text, "mark", mark)
    with pytest.raises(StoreUnavailable) as told:
        await parts.applier.apply(found, ApplyRequest(endpoint="batch", operations=batch_of(messages)))
    assert not told.value.retryable
    assert (await parts.roots.read(marked, 2)).ack_val == 5


async def test_a_replica_that_knows_an_old_incarnation_finds_the_spout_tasks_of_the_new_one(
    api: httpx.AsyncClient, other: httpx.AsyncClient, topology: str
) -> None:
    assert (await other.get(f"{T}/spouts/reader")).status_code == 404
    await state(other, "init", INIT)
    await api.delete(f"{T}?force=true&discard=true")
    await api.put(T, json={"ackers": 2})
    await api.put(f"{T}/spouts/late", json={})
    assert (await other.get(f"{T}/spouts/late")).status_code == 200
    assert (await other.get(f"{T}/spouts/late/completions")).json()["completions"] == []
    assert [spout["spout_task"] for spout in (await other.get(f"{T}/spouts")).json()["spouts"]] == ["late"]


@pytest.mark.parametrize("path", ["", "/spouts/reader"])
async def test_what_a_later_release_has_written_is_passed_over(
    api: httpx.AsyncClient, parts: Components, topology: str, path: str
) -> None:
    await api.put(f"{T}/spouts/reader", json={})
    found = await parts.registry.refresh("orders")
    config = await at(parts, "HGET", keys.topology("orders"), "config")
    await at(parts, "HSET", keys.topology("orders"), "config", config.replace(b"{", b'{"later": 1, ', 1))
    where = keys.spouts("orders", found.incarnation)
    spout = await at(parts, "HGET", where, "reader")
    await at(parts, "HSET", where, "reader", spout.replace(b"{", b'{"later": 1, ', 1))
    await parts.registry.refresh("orders")
    assert (await api.get(f"{T}{path}")).status_code == 200
