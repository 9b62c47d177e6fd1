"""What a shard remembers of requests; spout tasks are registered when needed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Set
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from acker_protocol.routes import IDEMPOTENCY_REPLAYED
from acker_service.app import make_app
from acker_service.components import Components, TopologyLimits
from acker_service.settings import Settings
from acker_service.topologies.spouts import UNREGISTERED
from acker_service.topologies.topology import Topology

from tests.support.caller import Caller, Document, ack, fail, init, reset_timeout
from tests.support.redis_side import at, find, flush, forget_outcomes

pytestmark = pytest.mark.anyio

E, F = 0xE1, 0xE2
REFUSED = "max_spout_pending"


@pytest.fixture
async def capped(call: Caller) -> Caller:
    """A topology of one shard that lets a spout task have one pending root."""
    one = Caller(call.http, "capped")
    await one.put(ackers=1, max_spout_pending=1)
    return one


@pytest.fixture
def set_full(parts: Components, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Says that the store is full, or that it is not."""

    async def unchecked(_: object) -> None:
        pass

    def set_full(full: bool) -> None:  # noqa: FBT001
        parts.backpressure.is_store_full = full

    monkeypatch.setattr(parts.backpressure, "_check_memory", unchecked)
    return set_full


async def replayed(call: Caller, op: Document, *, key: str) -> bool:
    return (await call.post(op, key=key)).headers.get(IDEMPOTENCY_REPLAYED) == "true"


async def test_in_a_full_store_only_a_request_that_changed_something_is_remembered(
    call: Caller, set_full: Callable[[bool], None]
) -> None:
    await call.post(init(4, E, F))
    set_full(True)
    states = await asyncio.gather(call.state(ack(4, E), key="ack"), call.state(reset_timeout(8), key="reset"))
    assert states == ["pending", "unknown"]
    set_full(False)
    assert [await replayed(call, op, key=key) for op, key in ((ack(4, E), "ack"), (reset_timeout(8), "reset"))] == [
        True,
        False,
    ]


async def test_a_batch_in_a_full_store_that_changed_something_remembers_what_was_refused(
    call: Caller, parts: Components, set_full: Callable[[bool], None]
) -> None:
    await call.states(init(4, E), init(8, spout_task="orders"))
    set_full(True)
    ops = (ack(4, E), init(12, E), init(16))
    assert await call.states(*ops, key="k") == ["acked", "store_full", "store_full"]
    set_full(False)
    await forget_outcomes(parts)
    assert await call.states(*ops, key="k") == ["duplicate", REFUSED, REFUSED]
    assert (await call.root(12))["code"] == "unknown_root"


async def test_what_was_refused_is_forgotten_with_the_request(capped: Caller, parts: Components) -> None:
    await capped.states(init(4, E), init(8, E), key="k")
    [bits] = await find(parts, "acker:{capped/0}:*:n[01]:*")
    [hashes] = await find(parts, "acker:{capped/0}:*:s[01]:*")
    assert bits.replace(":n", ":s") == hashes
    assert await at(parts, "PEXPIRETIME", bits) == await at(parts, "PEXPIRETIME", hashes) > 0


async def test_without_a_refusal_only_a_hash_is_remembered(capped: Caller, parts: Components) -> None:
    await capped.states(init(4, E), ack(8, E), key="k")
    assert not await find(parts, "acker:{capped/0}:*:n[01]:*")


@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 17, 8_003])
async def test_each_of_many_is_known_by_itself(capped: Caller, parts: Components, count: int) -> None:
    """The first and the last are applied, all between are refused; or one of one."""
    ops = [init(1, E), *(init(root, E) for root in range(2, count)), init(count)][:count]
    first = await capped.states(*ops, key="k")
    assert first == (["pending", *[REFUSED] * (count - 2), "acked"] if count > 1 else ["pending"])
    await capped.post(ack(1, E))
    await forget_outcomes(parts)
    assert await capped.states(*ops, key="k") == ["duplicate" if state != REFUSED else REFUSED for state in first]


async def test_a_batch_of_one_operation_that_was_refused_is_remembered(capped: Caller) -> None:
    """It was answered 200: its caller sends the init in a new request. A refused single init may come again."""
    await capped.post(init(4, E))
    assert await capped.states(init(8, E), key="k") == [REFUSED]
    assert await capped.state(init(8, E), key="k") == REFUSED
    await capped.post(ack(4, E))
    assert await capped.states(init(8, E), key="k") == [REFUSED]
    assert await capped.state(init(8, E), key="k") == "pending"


# Spout tasks are registered when a shard needs them.


@pytest.fixture
def looked_too_early(parts: Components, monkeypatch: pytest.MonkeyPatch) -> list[Set[str]]:
    """The first look for spout tasks of a request finds none: another replica registers them right after it."""
    monkeypatch.setattr(parts.spouts, "cached_index", lambda *_: None)
    looked: list[Set[str]] = []
    find = parts.spouts.find

    async def find_late(topology: Topology, names: Set[str]) -> Mapping[str, int]:
        looked.append(names)
        return await find(topology, names) if len(looked) > 1 else dict.fromkeys(names, UNREGISTERED)

    monkeypatch.setattr(parts.spouts, "find", find_late)
    return looked


@pytest.mark.parametrize(("key", "state"), [(None, "duplicate"), ("k", "pending")])
async def test_an_init_that_is_sent_twice_at_once_to_a_new_spout_task_is_no_conflict(
    call: Caller, looked_too_early: list[Any], key: str | None, state: str
) -> None:
    """The second one looks for the spout task before the first one has registered it, and is applied after it."""
    looked_too_early.append("nothing")
    assert await call.state(init(4, E), key=key) == "pending"
    looked_too_early.clear()
    assert await call.state(init(4, E), key=key) == state
    assert len(looked_too_early) == 2, "it looked again"


async def test_an_init_of_a_root_that_another_spout_task_has_registers_none(call: Caller) -> None:
    await call.post(init(4, E))
    assert await call.state(init(4, E, spout_task="others")) == "conflict"
    assert (await call.spout("others"))["code"] == "unknown_spout"
    assert await call.states(init(4, E, spout_task="others"), init(5, E, spout_task="others")) == [
        "conflict",
        "pending",
    ]
    assert (await call.spout("others"))["pending"] == 1


async def test_a_question_for_spout_tasks_applies_nothing(call: Caller) -> None:
    """An ack beside the init of a new spout task would undo itself, if the shards applied it when they are asked."""
    await call.post(init(4, E, F))
    await call.post(init(8))
    assert (await call.http.delete("/v1/topologies/default/spouts/orders", params={"discard": True})).is_success
    assert await call.states(ack(4, E), init(8)) == ["pending", "finished"]
    assert (await call.root(4))["outstanding"] == 1
    assert await call.states(ack(4, F), init(12, E)) == ["acked", "pending"]


async def test_in_a_full_store_no_spout_task_is_registered(call: Caller, set_full: Callable[[bool], None]) -> None:
    set_full(True)
    assert await call.states(init(4, E), init(5, E, spout_task="others")) == ["store_full"] * 2
    assert {(await call.spout(name))["code"] for name in ("orders", "others")} == {"unknown_spout"}
    set_full(False)
    assert await call.states(init(4, E), init(5, E, spout_task="others")) == ["pending"] * 2


async def test_inits_of_a_new_spout_task_are_refused_when_there_is_no_memory_for_it(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the server that keeps the configuration is full, and the one of the shard is not."""
    await call.post(init(4, E, F))

    async def ensure(_: Topology, names: Set[str]) -> Mapping[str, int]:
        return dict.fromkeys(names, UNREGISTERED)

    monkeypatch.setattr(parts.spouts, "ensure", ensure)
    assert await call.states(ack(4, E), init(8, E, spout_task="others")) == ["pending", "store_full"]


@pytest.mark.parametrize("cap", [None, 20])
async def test_spout_tasks_that_are_new_are_registered_once_for_all_shards(call: Caller, cap: int | None) -> None:
    await call.put(max_spout_pending=cap)
    ops = [init(root, E, spout_task=f"reader-{root % 3}") for root in range(1, 41)]
    assert await call.states(*ops, key="k") == ["pending"] * 40
    assert [(await call.spout(f"reader-{number}"))["pending"] for number in range(3)] == [13, 14, 13]
    assert (await call.batch(*ops, key="k")).headers[IDEMPOTENCY_REPLAYED] == "true"


async def test_a_root_that_is_forgotten_between_the_question_and_the_init_gets_its_spout_task(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shards say that no spout task is needed, for the root is finished; then its outcome is forgotten."""
    await call.post(init(4))
    assert (await call.http.delete("/v1/topologies/default/spouts/orders", params={"discard": True})).is_success
    asked: list[object] = []
    apply_parts = parts.applier.batcher.apply

    async def forgetting(*args: Any) -> Any:
        replies = await apply_parts(*args)
        asked.append(replies)
        if len(asked) == 1:
            await forget_outcomes(parts)
        return replies

    monkeypatch.setattr(parts.applier.batcher, "apply", forgetting)
    assert await call.state(init(4, E)) == "pending"
    assert len(asked) == 4, "it asked, applied nothing, asked again, and applied it"
    assert (await call.spout())["pending"] == 1


SHARDS = 3
SET_BYTES = 224
"""What a set takes with its first edge or request (lua/remembered.lua)."""


@pytest.fixture
async def small(valkey_url: str) -> AsyncIterator[Components]:
    """A service that remembers little: about three edges of each shard, each in a set of its own."""
    parts = Components(valkey_url, window_ms=600_000, limits=TopologyLimits(remembered_max_bytes=SHARDS * 600))
    await flush(parts)
    await parts.open()
    yield parts
    await parts.close()


@pytest.fixture
async def smalls(small: Components) -> AsyncIterator[tuple[Caller, Caller]]:
    """Two topologies of it."""
    app = make_app(small, Settings(), asyncio.Event())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        callers = Caller(http, "small"), Caller(http, "other")
        for caller in callers:
            await caller.put(ackers=SHARDS, dedupe_window_ms=60_000)
        yield callers


async def test_each_shard_remembers_up_to_its_part(smalls: tuple[Caller, Caller]) -> None:
    """And another topology has its own part."""
    call, other = smalls
    roots = range(1, 31)
    await call.states(*(init(root, E, F) for root in roots))
    states = await call.states(*(ack(root, E) for root in roots))
    assert states == ["pending"] * 9 + ["store_full"] * 21
    assert await call.states(*(ack(root, E) for root in roots)) == ["duplicate"] * 9 + ["store_full"] * 21
    assert await call.states(*(init(root, E) for root in (31, 32, 33))) == ["store_full"] * 3
    assert await other.states(*(init(root, E) for root in roots[:3]), *(ack(root, E) for root in roots[:3])) == [
        *["pending"] * 3,
        *["acked"] * 3,
    ]


async def test_what_a_topology_remembers_is_shown_beside_its_bound(smalls: tuple[Caller, Caller]) -> None:
    """As if each shard remembered as much as the fullest: all edges of a root lie in one, here in two sets."""
    call, other = smalls
    await call.states(init(1, E, F, 9), init(2, E, F), ack(1, E), ack(1, F), ack(2, E))
    await other.states(*(reset_timeout(root) for root in range(1, 3)), key="k")
    shown = (await call.http.get("/metrics")).text
    assert f'acker_remembered_bytes{{topology="small"}} {SHARDS * 2 * SET_BYTES}.0' in shown
    assert f'acker_remembered_bytes{{topology="other"}} {SHARDS * SET_BYTES}.0' in shown
    assert f'acker_limit{{limit="remembered_bytes"}} {SHARDS * 600}.0' in shown
    assert (await call.show())["remembered_bytes"] == SHARDS * 2 * SET_BYTES
    assert (await call.http.get("/v1/status")).json()["store"]["remembered_max_bytes"] == SHARDS * 600


async def test_each_shard_remembers_up_to_its_part_of_what_it_may_in_a_full_store(
    smalls: tuple[Caller, Caller], small: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, _ = smalls
    roots = range(1, 31)
    await call.states(*(init(root, E, F) for root in roots))
    monkeypatch.setattr(small.backpressure, "is_store_full", True)
    monkeypatch.setattr(small.backpressure, "remembered_max_bytes_if_full", SHARDS * 400)
    monkeypatch.setattr(small.backpressure, "refresh", AsyncMock())
    assert await call.states(*(ack(root, E) for root in roots)) == ["pending"] * 30
    assert await call.states(*(ack(root, E) for root in roots)) == ["duplicate"] * 6 + ["pending"] * 24


@pytest.mark.parametrize("key", [None, "k"], ids=["without a key", "with a key"])
async def test_an_operation_beyond_what_may_be_remembered_is_a_problem_that_may_be_retried(
    smalls: tuple[Caller, Caller], key: str | None
) -> None:
    call, _ = smalls
    roots = range(1, 31)
    await call.states(*(init(root, E, F) for root in roots))
    await call.states(*(ack(root, E) for root in roots))
    for op in (ack(12, E), init(99, E), *((reset_timeout(12), fail(12)) if key else ())):
        answer = await call.post(op, key=key)
        assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (503, "store_full", True)
        assert "has remembered" in answer.json()["detail"]
        assert int(answer.headers["Retry-After"]) >= 1
    assert (await call.root(12))["acks"] == 0
