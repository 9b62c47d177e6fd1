"""Acks and fails of unknown roots: refused beyond the bound on early roots and in a full store, and not remembered."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from acker_protocol import routes
from acker_protocol.operations import Ack, Fail, Init, Operation
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.app import make_app
from acker_service.components import Components, TopologyLimits
from acker_service.settings import Settings

from tests.support.caller import Caller, Document, ack, compact_ack, fail, init, reset_timeout
from tests.support.model_acker import EARLY_BYTES
from tests.support.redis_side import at, find, flush

pytestmark = pytest.mark.anyio

E, F = 0xE1, 0xE2
SHARDS, MAX_EARLY = 3, 8
"""Eight early roots over three shards: three in each."""

IN_ONE_SHARD = [SHARDS * n for n in range(1, 10)]
KEYS = pytest.mark.parametrize("key", [None, "k"], ids=["without a key", "with a key"])
OPERATIONS = {
    "an ack": lambda root: ack(root, E),
    "an ack with a child": lambda root: ack(root, E, F),
    "a compact ack": lambda root: compact_ack(root, E),
    "a fail": lambda root: fail(root, reason="broken"),
}
EVERY = pytest.mark.parametrize("make", OPERATIONS.values(), ids=OPERATIONS.keys())


@pytest.fixture
async def narrow(valkey_url: str) -> AsyncIterator[Components]:
    """A service that takes few early roots."""
    parts = Components(valkey_url, window_ms=600_000, limits=TopologyLimits(max_early=MAX_EARLY))
    await flush(parts)
    await parts.open()
    yield parts
    await parts.close()


@pytest.fixture
async def call(narrow: Components) -> AsyncIterator[Caller]:
    """A topology of it that dedupes."""
    app = make_app(narrow, Settings(), asyncio.Event())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        caller = Caller(http, "narrow")
        await caller.put(ackers=SHARDS, dedupe_window_ms=60_000)
        yield caller


async def packed(call: Caller, *operations: Operation, key: str | None = None) -> list[str]:
    headers = {"Content-Type": CONTENT_TYPE} | ({} if key is None else {routes.IDEMPOTENCY_KEY: key})
    address = routes.operation(call.topology, "batch")
    answer = await call.http.post(address, content=encode_packed(list(operations)), headers=headers)
    return list(answer.json()["results"])


@EVERY
@KEYS
async def test_each_shard_takes_its_part_of_the_early_roots(call: Caller, make: object, key: str | None) -> None:
    ops: list[Document] = [make(root) for root in range(1, 31)]  # type: ignore[operator]
    states = await call.states(*ops, key=key)
    assert [states.count(state) for state in ("early", "store_full")] == [9, 21]
    assert states == ["early"] * 9 + ["store_full"] * 21


@EVERY
@KEYS
async def test_a_single_operation_beyond_the_bound_is_a_problem_that_may_be_retried(
    call: Caller, make: object, key: str | None
) -> None:
    await call.states(*(fail(root) for root in IN_ONE_SHARD[:3]))
    answer = await call.post(make(IN_ONE_SHARD[4]), key=key)  # type: ignore[operator]
    assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (503, "store_full", True)
    assert "without their init" in answer.json()["detail"]
    assert int(answer.headers["Retry-After"]) >= 1
    assert (await call.root(IN_ONE_SHARD[4]))["code"] == "unknown_root"
    await call.post(init(IN_ONE_SHARD[0]))
    assert await call.state(make(IN_ONE_SHARD[4]), key=key) == "early"  # type: ignore[operator]


@KEYS
async def test_the_packed_form_is_refused_likewise(call: Caller, key: str | None) -> None:
    operations: list[Operation] = [Ack(root_id=root, ack_val=E, edge_id=E) for root in IN_ONE_SHARD[:2]]
    operations += [Fail(root_id=root) for root in IN_ONE_SHARD[2:4]]
    operations += [Init(root_id=IN_ONE_SHARD[4], spout_task="s", ack_val=E), Ack(root_id=IN_ONE_SHARD[4], ack_val=E)]
    assert await packed(call, *operations, key=key) == ["early", "early", "early", "store_full", "pending", "acked"]


async def test_a_repeat_says_again_what_was_refused_within_one_shard(call: Caller) -> None:
    ops = [ack(root, E) for root in IN_ONE_SHARD[:4]] + [fail(IN_ONE_SHARD[4])]
    states = ["early"] * 3 + ["store_full"] * 2
    assert await call.states(*ops, key="k") == states
    await call.states(*(init(root, F) for root in IN_ONE_SHARD[:3]))
    assert await call.states(*ops, key="k") == ["pending"] * 3 + ["store_full"] * 2
    await call.states(*(init(root, F) for root in IN_ONE_SHARD[3:5]))
    assert await call.states(*ops, key="k") == ["pending"] * 3 + ["store_full"] * 2
    assert await call.states(*ops[3:], key="new") == ["pending", "failed"]


async def test_an_edge_that_was_refused_counts_when_it_is_acked_again(call: Caller) -> None:
    await call.states(*(ack(root, E) for root in IN_ONE_SHARD[:4]))
    assert await call.states(init(IN_ONE_SHARD[3], E), ack(IN_ONE_SHARD[3], E)) == ["pending", "acked"]


async def test_known_roots_go_on_and_leave_their_places_to_others(call: Caller) -> None:
    one, two, three, four, five, *_ = IN_ONE_SHARD
    await call.states(init(five, E, F), *(ack(root, E) for root in (one, two, three, four)))
    ops = (ack(one, F), fail(two), ack(five, E), reset_timeout(five), reset_timeout(four), compact_ack(four, 0))
    assert await call.states(*ops) == ["early", "early", "pending", "pending", "unknown", "early"]
    assert await call.states(init(two), ack(four, E), ack(four, F)) == ["failed", "early", "early"]


async def test_replicas_share_one_count(call: Caller, valkey_url: str) -> None:
    other = Components(valkey_url, window_ms=600_000, limits=TopologyLimits(max_early=MAX_EARLY))
    app = make_app(other, Settings(), asyncio.Event())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://other.localhost") as http:
        beside = Caller(http, call.topology)
        states = [
            await caller.state(ack(root, E)) for root, caller in zip(IN_ONE_SHARD, [call, beside] * 3, strict=False)
        ]
        assert states == ["early"] * 3 + ["store_full"] * 3
        await beside.post(init(IN_ONE_SHARD[0]))
        assert await call.state(ack(IN_ONE_SHARD[8], E)) == "early"
    await other.close()


async def test_without_ackers_nothing_is_early(call: Caller, narrow: Components) -> None:
    untracked = Caller(call.http, "untracked")
    await untracked.put(ackers=0)
    narrow.backpressure.is_store_full = True
    assert await untracked.states(*(ack(root, E) for root in range(1, 50))) == ["finished"] * 49


@KEYS
async def test_what_a_full_store_refuses_leaves_no_key_behind(
    call: Caller, narrow: Components, key: str | None
) -> None:
    narrow.backpressure.is_store_full = True
    before = await find(narrow, "acker:{narrow/*")
    for make in OPERATIONS.values():
        assert await call.state(make(1), key=key) == "store_full"
    assert set(await call.states(*(make(root) for make in OPERATIONS.values() for root in (1, 2, 3)), key=key)) == {
        "store_full"
    }
    assert await find(narrow, "acker:{narrow/*") == before


@pytest.fixture
async def small(valkey_url: str) -> AsyncIterator[Caller]:
    """A topology of a service whose early roots take few bytes: three in each shard, and no more."""
    parts = Components(valkey_url, window_ms=600_000, limits=TopologyLimits(early_max_bytes=SHARDS * 3 * EARLY_BYTES))
    await flush(parts)
    await parts.open()
    app = make_app(parts, Settings(), asyncio.Event())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        caller = Caller(http, "small")
        await caller.put(ackers=SHARDS)
        yield caller
    await parts.close()


@KEYS
async def test_each_shard_takes_its_part_of_the_bytes_of_early_roots(small: Caller, key: str | None) -> None:
    states = await small.states(*(compact_ack(root, E) for root in range(1, 31)), key=key)
    assert states == ["early"] * 9 + ["store_full"] * 21
    assert await small.states(*(compact_ack(root, E) for root in range(31, 34)), key=key) == ["store_full"] * 3
    assert await small.states(init(31, E), fail(1), compact_ack(2, F)) == ["pending", "early", "early"]


@EVERY
@KEYS
async def test_a_single_operation_beyond_the_bytes_may_be_retried_and_its_repeat_is_no_duplicate(
    small: Caller, make: object, key: str | None
) -> None:
    await small.states(*(compact_ack(root, E) for root in IN_ONE_SHARD[:3]))
    for _ in range(2):
        answer = await small.post(make(IN_ONE_SHARD[4]), key=key)  # type: ignore[operator]
        assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (503, "store_full", True)
    await small.post(init(IN_ONE_SHARD[0]))
    assert await small.state(make(IN_ONE_SHARD[4]), key=key) == "early"  # type: ignore[operator]


@KEYS
async def test_a_single_ack_of_an_early_root_beyond_the_bytes_may_be_retried_and_its_repeat_is_no_duplicate(
    small: Caller, key: str | None
) -> None:
    await small.put(dedupe_window_ms=60_000)
    root = IN_ONE_SHARD[0]
    assert await small.states(*(ack(root, edge) for edge in (1, 2, 4))) == ["early"] * 3
    for _ in range(2):
        answer = await small.post(ack(root, 8, 16), key=key)
        assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (503, "store_full", True)
        assert "take as much as they may" in answer.json()["detail"]
    assert await small.state(init(root, 1, 2, 4, 8)) == "pending"
    assert await small.state(ack(root, 8, 16), key=key) == "pending"
    assert await small.state(ack(root, 16)) == "acked"


async def test_in_a_batch_an_early_root_refuses_further_edges_beyond_the_bytes_and_a_repeat_says_so_again(
    small: Caller,
) -> None:
    await small.put(dedupe_window_ms=60_000)
    root, other = IN_ONE_SHARD[:2]
    ops = [*(ack(root, edge) for edge in (1, 2, 4, 8, 4)), ack(other, 1), compact_ack(root, 8), fail(root), init(other)]
    states = ["early", "early", "early", "store_full", "duplicate", "store_full", "early", "early", "acked"]
    assert await small.states(*ops, key="k") == states
    again = ["early", "early", "early", "store_full", "early", "finished", "early", "early", "finished"]
    assert await small.states(*ops, key="k") == again
    operations: list[Operation] = [Ack(root_id=root, ack_val=edge, edge_id=edge) for edge in (8, 2)]
    assert await packed(small, *operations) == ["store_full", "duplicate"]


async def test_a_repeat_of_a_batch_says_again_what_was_refused_for_its_bytes(small: Caller) -> None:
    ops = [compact_ack(root, E) for root in IN_ONE_SHARD[:5]]
    assert await small.states(*ops, key="k") == ["early"] * 3 + ["store_full"] * 2
    assert await small.states(*ops, key="k") == ["early"] * 3 + ["store_full"] * 2
    await small.states(*(init(root) for root in IN_ONE_SHARD[:3]))
    assert (await small.states(*ops, key="k"))[3:] == ["store_full"] * 2
    assert await small.states(*ops[3:], key="new") == ["early"] * 2


async def test_what_early_roots_take_is_a_metric_beside_its_limit(small: Caller) -> None:
    await small.states(*(compact_ack(root, E) for root in range(1, 5)))
    shown = (await small.http.get("/metrics")).text
    assert f'acker_roots_early_bytes{{topology="small"}} {4 * EARLY_BYTES}.0' in shown
    assert f'acker_limit{{limit="early_bytes"}} {SHARDS * 3 * EARLY_BYTES}.0' in shown


async def test_the_number_of_early_roots_is_a_metric(call: Caller) -> None:
    await call.states(init(1, E), *(ack(root, E) for root in IN_ONE_SHARD[:2]), fail(1 + SHARDS))
    shown = (await call.http.get("/metrics")).text
    assert 'acker_roots_early{topology="narrow"} 3.0' in shown


async def test_a_number_of_early_roots_goes_with_its_topology(call: Caller, narrow: Components) -> None:
    await call.states(*(ack(root, E) for root in IN_ONE_SHARD[:2]))
    [key] = [key for key in await find(narrow, "acker:{narrow/*") if key.endswith(":early")]
    assert (await at(narrow, "GET", key)).split()[0] == b"2"
    await call.http.delete(routes.topology(call.topology), params={"force": True, "discard": True})
    assert not await at(narrow, "EXISTS", key)
