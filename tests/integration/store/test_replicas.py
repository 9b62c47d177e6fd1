"""Two replicas of the service on one store: what one does holds on the other."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator

import anyio
import httpx
import pytest
from redis.asyncio import Redis

from tests.support.caller import Caller, ack, fail, init
from tests.support.servers import acker_serve, free_port, valkey
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

Pair = tuple[Caller, Caller]
SHORT = {"message_timeout_ms": 100}


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with valkey(tmp_path_factory.mktemp("store"), port=port):
        yield f"redis://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[tuple[str, str]]:
    """Two replicas that tick as often as they may, to meet as often as they can."""
    folder = tmp_path_factory.mktemp("replicas")
    options = ("--redis-url", redis_url, "--tick-ms", "10")
    with acker_serve(folder, *options) as first, acker_serve(folder, *options) as second:
        yield first.url, second.url


@pytest.fixture
async def pair(urls: tuple[str, str], request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    """The same new topology, by either replica; both know it."""
    name = request.node.name.partition("[")[0]
    async with httpx.AsyncClient(timeout=30) as first, httpx.AsyncClient(timeout=30) as second:
        first.base_url, second.base_url = urls
        pair = Caller(first, name), Caller(second, name)
        await pair[0].put()
        for replica in pair:
            await replica.states(init(1), ack(2, 9))
        yield pair


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    redis = Redis.from_url(redis_url)
    yield redis
    await redis.aclose()


async def test_a_cap_is_kept_when_inits_alternate(pair: Pair) -> None:
    await pair[0].put(max_spout_pending=5)
    states = [await pair[root % 2].state(init(root, 9)) for root in range(10, 30)]
    assert states == ["pending"] * 5 + ["max_spout_pending"] * 15
    assert await pair[1].state(ack(10, 9)) == "acked"
    states = [await pair[root % 2].state(init(root, 9)) for root in range(30, 34)]
    assert states == ["pending"] + ["max_spout_pending"] * 3


async def test_a_cap_is_never_exceeded_though_both_emit_at_once(pair: Pair) -> None:
    """Inits of batches and single ones, over all shards, at the same moment on both."""
    await pair[0].put(max_spout_pending=10)
    states = dict[int, str]()

    async def emit(replica: Caller, first: int) -> None:
        roots = range(first, first + 4)
        states.update(zip(roots, await replica.states(*[init(root, 9) for root in roots]), strict=True))
        states[first + 4] = await replica.state(init(first + 4, 9))

    async with anyio.create_task_group() as group:
        for turn in range(30):
            group.start_soon(emit, pair[turn % 2], 10 + 5 * turn)
    counted = Counter(states.values())
    assert counted == {"pending": 10, "max_spout_pending": 140}
    assert (await pair[0].show())["pending"] == 10


async def test_a_cap_is_in_force_at_once_on_the_other(pair: Pair) -> None:
    """The other knows the topology as it was, without a cap."""
    await pair[1].states(*[init(root, 9) for root in (10, 11)])
    await pair[0].put(max_spout_pending=2)
    assert await pair[1].states(*[init(root, 9) for root in range(12, 20)]) == ["max_spout_pending"] * 8
    await pair[0].put(max_spout_pending=None)
    assert await pair[1].states(*[init(root, 9) for root in range(12, 20)]) == ["pending"] * 8


async def test_a_message_timeout_is_in_force_at_once_on_the_other(pair: Pair) -> None:
    await pair[0].put(**SHORT)
    await pair[1].post(init(10, 9))

    async def has_ended() -> bool:
        return (10, "timed_out") in await pair[1].outcomes()

    await eventually(has_ended)


async def test_dedupe_is_in_force_at_once_on_the_other(pair: Pair) -> None:
    await pair[0].put(dedupe_window_ms=60_000)
    states = [await pair[1].state(op) for op in (init(10, 9, 8), ack(10, 9), ack(10, 9), ack(10, 8))]
    assert states == ["pending", "pending", "duplicate", "acked"]


async def test_a_timeout_is_told_once_though_both_tick(pair: Pair) -> None:
    roots = range(100, 1_100)
    await pair[0].states(*[init(root, 9, **SHORT) for root in roots])
    await eventually(lambda: none_pending(pair[1]))
    await pair[0].post(init(2_000, 9, **SHORT))
    await eventually(lambda: none_pending(pair[1]))
    timed_out = [(root, "timed_out") for root in (*roots, 2_000)]
    for replica in pair:
        assert sorted(await replica.outcomes(limit=10_000)) == [(1, "acked"), *timed_out]


async def none_pending(replica: Caller) -> bool:
    return bool((await replica.show())["pending"] == 0)


async def test_a_spout_task_made_on_one_is_known_on_the_other(pair: Pair) -> None:
    address = f"/v1/topologies/{pair[0].topology}/spouts/made"
    assert (await pair[0].http.put(address)).status_code == 201
    assert (await pair[1].http.get(address)).json()["spout_task"] == "made"
    assert (await pair[1].http.put(address)).status_code == 200
    await pair[1].post(init(10, spout_task="made"))
    assert await pair[0].outcomes("made") == [(10, "acked")]


async def test_spout_tasks_made_at_once_on_both_keep_their_own_completions(pair: Pair) -> None:
    async def emit(replica: Caller, root: int) -> None:
        await replica.post(init(root, spout_task=f"spout-{root % 10}"))

    async with anyio.create_task_group() as group:
        for root in range(10, 50):
            group.start_soon(emit, pair[root // 10 % 2], root)
    for name in range(10):
        expected = [(root, "acked") for root in range(10, 50) if root % 10 == name]
        assert sorted(await pair[name % 2].outcomes(f"spout-{name}")) == expected


async def test_a_tree_may_be_acked_on_any_replica(pair: Pair) -> None:
    ops = [init(10, 1), ack(10, 1, 2, 4), ack(10, 2), ack(10, 4, 8), ack(10, 8)]
    states = [await pair[turn % 2].state(op) for turn, op in enumerate(ops)]
    assert states == ["pending"] * 4 + ["acked"]


async def test_a_request_is_applied_once_though_repeated_on_the_other(pair: Pair) -> None:
    await pair[0].post(init(10, 1, 2))
    answers = [await replica.post(ack(10, 1), key="k") for replica in pair]
    assert [answer.headers.get("Idempotency-Replayed") for answer in answers] == [None, "true"]
    assert await pair[0].state(ack(10, 2)) == "acked"


async def test_a_cursor_given_by_one_is_good_on_the_other(pair: Pair) -> None:
    await pair[0].states(*[init(root) for root in range(10, 30)])
    read = await pair[0].completions(limit=8)
    rest = await pair[1].completions(after=read["cursor"])
    assert len(read["completions"] + rest["completions"]) == 21
    assert await pair[1].release(read["cursor"]) == 8
    assert (await pair[0].completions())["completions"] == rest["completions"]


async def test_both_work_again_when_redis_was_emptied(pair: Pair, redis: Redis) -> None:
    both = [Caller(replica.http) for replica in pair]
    for replica in both:
        await replica.states(init(1, 9), ack(2, 9))
    await redis.flushall()
    await redis.execute_command("FUNCTION", "FLUSH")
    for number, replica in enumerate(both):
        roots = range(100 * number + 100, 100 * number + 140)
        ops = [op for root in roots for op in (init(root, 9), fail(root))]

        async def works(replica: Caller = replica, ops: list[dict[str, object]] = ops) -> bool:
            return (await replica.batch(*ops, key="k")).status_code == 200

        await eventually(works)
    for replica in both:
        assert len(await replica.outcomes()) == 80
        assert (await replica.show())["message_timeout_ms"] == 30_000
    assert {(await replica.show())["code"] for replica in pair} == {"unknown_topology"}
    assert {(await replica.post(init(1, 9))).status_code for replica in pair} == {404}


async def test_timeouts_are_told_again_when_redis_was_emptied(pair: Pair, redis: Redis) -> None:
    first = Caller(pair[0].http)
    await redis.flushall()

    async def emitted() -> bool:
        return (await first.post(init(7, 9, **SHORT), key="k")).status_code == 200

    async def has_ended() -> bool:
        return (await first.http.get("/v1/topologies/default/spouts/orders/completions")).is_success and (
            await first.outcomes() == [(7, "timed_out")]
        )

    await eventually(emitted)
    await eventually(has_ended)
