"""What time does to a root. Timeouts are real and short; nothing here says how long anything took."""

import httpx
import pytest
from acker_service.components import Components
from acker_service.redis import keys
from acker_service.topologies.config import TopologyConfig

from tests.support.caller import Caller, Document, ack, compact_ack, fail, init, reset_timeout
from tests.support.redis_side import now_ms
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

R, S = 0xA1, 0xB2
E, F = 0xE1, 0xE2
SHORT = {"message_timeout_ms": 100}
HOUR_MS = 3_600_000
UNNAMED = "it came twice and its acks name no edge_id or came after the dedupe window or in a full store"


@pytest.fixture
def lapse(parts: Components, call: Caller) -> "Lapse":
    return Lapse(parts, call)


class Lapse:
    """Lets time pass in the default topology."""

    def __init__(self, parts: Components, call: Caller) -> None:
        self._store = parts
        self._call = call

    async def tick(self) -> int:
        """Tick once, and return how many roots ended."""
        return await self._store.expiry.expire(await self._store.registry.get("default"))

    async def until_overdue(self, root: int) -> None:
        """Wait, without ticking, until a root's deadline is past."""

        async def look() -> bool:
            shown = await self._call.root(root)
            return await now_ms(self._store, keys.TOPOLOGIES) > shown["deadline_at_ms"]

        await eventually(look)


async def test_a_root_that_takes_too_long_is_told_once_and_finished(call: Caller, lapse: Lapse) -> None:
    await call.post(init(R, E, message_id="42", **SHORT))
    assert await eventually(lapse.tick) == 1
    (done,) = (await call.completions())["completions"]
    assert (done["outcome"], done["message_id"], done["reason"]) == ("timed_out", "42", None)
    assert done["complete_latency_ms"] >= 100
    answer = await call.post(ack(R, E))
    assert answer.json() == {"root_id": "00000000000000a1", "state": "finished", "outcome": "timed_out"}
    assert await lapse.tick() == 0
    assert await call.outcomes() == [(R, "timed_out")]
    assert (await call.show())["counts"]["timed_out"] == 1


async def test_a_root_in_time_is_left_alone(call: Caller, lapse: Lapse) -> None:
    await call.states(init(R, E, **SHORT), init(S, E))
    await eventually(lapse.tick)
    assert await call.outcomes() == [(R, "timed_out")]
    assert await call.state(ack(S, E)) == "acked"


async def test_the_timeout_of_the_topology_holds_where_the_init_says_none(call: Caller, lapse: Lapse) -> None:
    await call.put(**SHORT)
    await call.states(init(R, E), init(S, E, message_timeout_ms=HOUR_MS))
    await eventually(lapse.tick)
    assert await call.outcomes() == [(R, "timed_out")]


async def test_a_last_ack_after_the_deadline_but_before_the_tick_counts(call: Caller, lapse: Lapse) -> None:
    await call.post(init(R, E, **SHORT))
    await lapse.until_overdue(R)
    assert await call.state(ack(R, E)) == "acked"
    assert await lapse.tick() == 0
    assert await call.outcomes() == [(R, "acked")]


async def test_a_last_ack_after_the_tick_is_finished(call: Caller, lapse: Lapse) -> None:
    await call.post(init(R, E, **SHORT))
    await eventually(lapse.tick)
    assert await call.state(ack(R, E)) == "finished"
    assert await call.outcomes() == [(R, "timed_out")]


async def test_a_fail_after_the_deadline_but_before_the_tick_counts(call: Caller, lapse: Lapse) -> None:
    await call.post(init(R, E, **SHORT))
    await lapse.until_overdue(R)
    assert await call.state(fail(R)) == "failed"
    assert await lapse.tick() == 0
    assert await call.outcomes() == [(R, "failed")]


async def test_the_same_edge_acked_twice_without_dedupe_times_out_and_is_never_acked(
    call: Caller, lapse: Lapse
) -> None:
    await call.put(dedupe_window_ms=0)
    ops = (init(R, E, F, **SHORT), ack(R, E), ack(R, E), ack(R, F))
    assert await call.states(*ops) == ["pending"] * 4
    await eventually(lapse.tick)
    assert await call.outcomes() == [(R, "timed_out")]


@pytest.mark.parametrize(
    ("acks", "window_ms", "reason"),
    [
        ([ack(R, E), ack(R, E)], 0, "it came twice and dedupe_window_ms is 0"),
        ([ack(R, E), ack(R, E), ack(R, F)], 0, "it came twice and dedupe_window_ms is 0"),
        ([ack(R, E)] * 3 + [ack(R, F)], 0, "it came twice and dedupe_window_ms is 0"),
        (
            [compact_ack(R, E, outstanding=-1)] * 3,
            60_000,
            UNNAMED,
        ),
        ([ack(R, E)] * 3, 60_000, None),
        ([ack(R, E)], 0, None),
    ],
)
@pytest.mark.parametrize("message_id", ["42", "m" * 100])
async def test_a_timeout_says_that_a_tuple_was_acked_more_often_than_sent(
    call: Caller, lapse: Lapse, acks: list[Document], window_ms: int, reason: str | None, message_id: str
) -> None:
    await call.put(dedupe_window_ms=window_ms)
    await call.states(init(R, E, F, message_id=message_id, **SHORT), *acks)
    await eventually(lapse.tick)
    (done,) = (await call.completions())["completions"]
    (listed,) = (await call.http.get(f"/v1/topologies/{call.topology}/failures")).json()["failures"]
    child = "or the ack that names it as a child is lost"
    expected = reason and f"a tuple was acked more often than sent: {reason}, {child}"
    outcomes = (done["outcome"], done["message_id"], done["reason"], done["component"])
    assert outcomes == ("timed_out", message_id, expected, None)
    assert listed["reason"] == (await call.root(R))["reason"] == expected


async def test_an_unbalanced_root_times_out(call: Caller, lapse: Lapse) -> None:
    zero = {"ack_val": "00000000000000e1", "outstanding": 2}
    document = {"op": "init", "root_id": "00000000000000a1", "spout_task": "orders"} | zero | SHORT
    assert await call.states(document, ack(R, E)) == ["pending", "pending"]
    await eventually(lapse.tick)
    assert await call.outcomes() == [(R, "timed_out")]


async def test_a_reset_gives_the_roots_own_timeout_or_else_the_topologys(call: Caller) -> None:
    await call.states(init(R, E), init(S, E, message_timeout_ms=60_000))
    before = [(await call.root(root))["deadline_at_ms"] for root in (R, S)]
    await call.put(message_timeout_ms=HOUR_MS)
    assert await call.states(reset_timeout(R), reset_timeout(S)) == ["pending", "pending"]
    topologys, own = [(await call.root(root))["deadline_at_ms"] for root in (R, S)]
    assert topologys >= before[0] - 30_000 + HOUR_MS
    assert before[1] <= own < before[1] + HOUR_MS // 2


async def test_a_root_whose_timeout_is_reset_outlives_its_first_deadline(call: Caller, lapse: Lapse) -> None:
    await call.put(**SHORT)
    await call.post(init(R, E))
    await call.put(message_timeout_ms=HOUR_MS)
    await call.post(reset_timeout(R))
    await call.post(init(S, E, **SHORT))
    await lapse.until_overdue(S)
    assert await lapse.tick() == 1
    assert (await call.root(R))["state"] == "pending"


async def test_an_early_root_gets_its_whole_timeout_at_its_init(call: Caller, lapse: Lapse) -> None:
    await call.put(**SHORT)
    await call.post(ack(R, E))
    await call.post(init(R, E, F, message_timeout_ms=HOUR_MS))
    await call.post(init(S, E))
    await eventually(lapse.tick)
    assert (await call.root(R))["state"] == "pending"


async def test_early_operations_without_an_init_are_dropped_and_counted(call: Caller, lapse: Lapse) -> None:
    await call.put(**SHORT)
    assert await call.states(ack(R, E), fail(S, reason="x")) == ["early", "early"]

    async def dropped() -> bool:
        await lapse.tick()
        return (await call.show())["counts"]["dropped"] == 2

    await eventually(dropped)
    assert {(await call.root(root))["code"] for root in (R, S)} == {"unknown_root"}
    assert (await call.http.get("/v1/topologies/default/spouts")).json() == {"spouts": []}
    assert await call.states(init(R, F), init(S, F)) == ["pending", "pending"], "nothing of what was early is left"


async def test_a_progress_timeout_ends_a_root_that_stands_still(call: Caller, lapse: Lapse) -> None:
    await call.post(init(R, E, message_timeout_ms=HOUR_MS, progress_timeout_ms=100))
    await eventually(lapse.tick)
    (done,) = (await call.completions())["completions"]
    assert (done["outcome"], done["complete_latency_ms"] >= 100) == ("timed_out", True)
    assert await call.outcomes() == [(R, "timed_out")]


async def test_a_partial_ack_moves_the_idle_deadline(call: Caller) -> None:
    await call.post(init(R, 1, progress_timeout_ms=10_000))
    first = (await call.root(R))["deadline_at_ms"]
    edges = iter(range(1, 1_000))

    async def moved() -> bool:
        edge = next(edges)
        assert await call.state(ack(R, edge, edge + 1)) == "pending"
        return (await call.root(R))["deadline_at_ms"] > first

    await eventually(moved)


async def test_progress_never_moves_the_deadline_past_the_message_timeout(call: Caller) -> None:
    await call.post(init(R, E, F, message_timeout_ms=60_000, progress_timeout_ms=60_000))
    first = (await call.root(R))["deadline_at_ms"]
    await eventually(lambda: _is_older(call, R))
    await call.post(ack(R, E))
    assert (await call.root(R))["deadline_at_ms"] == first


async def test_acks_do_not_extend_a_root_without_progress_timeout(call: Caller) -> None:
    await call.put(progress_timeout_ms=100)
    await call.post(init(R, E, F, message_timeout_ms=60_000, progress_timeout_ms=0))
    first = (await call.root(R))["deadline_at_ms"]
    await eventually(lambda: _is_older(call, R))
    await call.post(ack(R, E))
    assert (await call.root(R))["deadline_at_ms"] == first


async def test_a_root_id_used_again_after_retention_is_a_new_tree(call: Caller) -> None:
    await call.put(retention_ms=1_000, dedupe_window_ms=60_000)
    assert await call.states(init(R, E), ack(R, E), init(R, E)) == ["pending", "acked", "finished"]
    await eventually(lambda: _is_unknown(call, R))
    ops = (init(R, E, F), ack(R, E), ack(R, F))
    assert await call.states(*ops) == ["pending", "pending", "acked"]
    outcomes = (await call.completions())["completions"]
    assert len({done["id"] for done in outcomes}) == 2


async def test_places_under_a_cap_are_freed_by_timeouts(call: Caller, lapse: Lapse) -> None:
    await call.put(max_spout_pending=1)
    assert await call.states(init(R, E, **SHORT), init(S, E)) == ["pending", "max_spout_pending"]
    await eventually(lapse.tick)
    assert await call.state(init(S, E)) == "pending"


async def test_many_roots_in_one_bucket_all_time_out_once(api: httpx.AsyncClient, parts: Components) -> None:
    """More than a tick reads in one call, and in one bucket more than it reads as a whole."""
    call = Caller(api, "narrow")
    await parts.registry.create_or_update("narrow", lambda _: TopologyConfig(ackers=1, buckets=1))
    roots = range(1, 3_001)
    await call.states(*[init(root, E, **SHORT) for root in roots])
    topology = await parts.registry.get("narrow")

    async def has_ended() -> bool:
        await parts.expiry.expire(topology)
        return (await call.show())["pending"] == 0

    await eventually(has_ended)
    assert sorted(await call.outcomes(limit=10_000)) == [(root, "timed_out") for root in roots]


async def _is_older(call: Caller, root: int) -> bool:
    return bool((await call.root(root))["age_ms"] > 0)


async def _is_unknown(call: Caller, root: int) -> bool:
    return bool((await call.root(root)).get("code") == "unknown_root")
