"""An idle acker asks Redis little, and ends everything in time all the same."""

import asyncio
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from acker_protocol.errors import StoreUnavailable
from acker_service.components import Components
from acker_service.redis import functions
from acker_service.roots.expiry import RootExpiryTask
from acker_service.topologies.callback import Webhook, register_callback
from acker_service.topologies.config import TopologyConfig

from tests.support.caller import Caller, ack, init
from tests.support.overdue import overdue
from tests.support.redis_side import at, everywhere
from tests.support.tasks import root_expiry
from tests.support.trips import Trips, command_counts, counted

pytestmark = pytest.mark.anyio

WEEK_MS = 604_800_000
NAMES = ("one", "two", "three")


@pytest.fixture
async def topologies(call: Caller) -> list[Caller]:
    """Topologies that are pending for long, each with a root in every shard."""
    callers = [Caller(call.http, name) for name in NAMES]
    for caller in callers:
        await caller.put(ackers=2, message_timeout_ms=WEEK_MS)
        await caller.states(*[init(root, 9) for root in (1, 2)])
    return callers


@pytest.fixture(params=["one server", "each topology by itself"])
def task(parts: Components, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> RootExpiryTask:
    """The tick, both ways; in a cluster there is only one."""
    if request.param != "one server":
        monkeypatch.setattr(type(parts.expiry), "asks_one_server", property(lambda _: False))
    return root_expiry(parts, interval=600)


@pytest.fixture
def trips(parts: Components) -> Iterator[Trips]:
    with counted(parts) as trips:
        yield trips


async def tick(task: RootExpiryTask) -> None:
    """Make one pass, and wait for its runs."""
    await task._pass()
    await asyncio.gather(*task._runs.values())


async def test_a_pass_with_nothing_due_takes_one_round_trip(
    parts: Components, topologies: list[Caller], trips: Trips
) -> None:
    if parts.redis.is_cluster:
        pytest.skip("in a cluster each topology looks by itself")
    task = root_expiry(parts, interval=600)
    await tick(task)
    trips.clear()
    task._heartbeat_at = math.inf
    await tick(task)
    assert trips.found == [("SMEMBERS", "acker_due_v1")]
    assert not task._runs
    task._heartbeat_at = -math.inf
    trips.clear()
    await tick(task)
    assert trips.found == [("SMEMBERS", "acker_due_v1", "acker_note_worker_alive_v1")]


async def test_only_a_shard_in_which_something_is_due_is_ticked(
    parts: Components, topologies: list[Caller], task: RootExpiryTask, trips: Trips
) -> None:
    await tick(task)
    await overdue(parts, topologies[1], 3)
    trips.clear()
    await tick(task)
    assert [trip for trip in trips.found if "acker_tick_v1" in trip] == [("acker_tick_v1",)]
    assert await topologies[1].outcomes() == [(3, "timed_out")]
    assert [await caller.outcomes() for caller in topologies[::2]] == [[], []]


async def test_every_shard_of_a_topology_with_grace_is_ticked(
    topologies: list[Caller], task: RootExpiryTask, trips: Trips
) -> None:
    """Also one in which nothing is due, so that each tick is noted; where one server has all, once a second."""
    await topologies[1].put(grace_ms=1_000)
    await tick(task)
    trips.clear()
    task._noted_at = {}
    await tick(task)
    assert [name for trip in trips.found for name in trip].count("acker_tick_v1") == 2
    trips.clear()
    await tick(task)
    assert [name for trip in trips.found for name in trip].count("acker_tick_v1") in (0, 2)


async def test_a_topology_that_is_new_is_ticked_at_once(parts: Components, call: Caller, task: RootExpiryTask) -> None:
    await tick(task)
    late = Caller(call.http, "late")
    await late.put(ackers=2)
    await overdue(parts, late, 3)
    parts.registry.evict("late")  # as if another replica had made it
    await tick(task)
    assert await late.outcomes() == [(3, "timed_out")]


async def test_a_worker_shows_that_it_lives(parts: Components, task: RootExpiryTask) -> None:
    assert not await parts.redis.execute(functions.topologies.worker_seen())
    await tick(task)
    assert await parts.redis.execute(functions.topologies.worker_seen())


@pytest.mark.parametrize(("since_s", "is_noted"), [(2.0, False), (3.0, True)])
async def test_a_worker_notes_that_it_lives_three_times_before_a_note_ends(
    task: RootExpiryTask, trips: Trips, since_s: float, *, is_noted: bool
) -> None:
    task._heartbeat_at = time.monotonic() - since_s
    await tick(task)
    assert bool(trips.of("acker_note_worker_alive_v1")) == is_noted


async def test_what_cannot_be_looked_at_together_is_looked_at_apart(
    parts: Components, topologies: list[Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = root_expiry(parts, interval=600)
    await tick(task)

    async def fails(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("a server is away")

    monkeypatch.setattr(parts.expiry, "find_due", fails)
    await overdue(parts, topologies[0], 3)
    await tick(task)
    assert await topologies[0].outcomes() == [(3, "timed_out")]
    assert await parts.redis.execute(functions.topologies.worker_seen())


async def test_every_topology_counts_as_visited(
    parts: Components, topologies: list[Caller], task: RootExpiryTask
) -> None:
    visits = parts.metrics.periodic.runs["tick", "done"]
    await tick(task)
    before = visits._value.get()
    await tick(task)
    assert visits._value.get() - before == len(NAMES) + 1  # and the default one


async def test_all_topologies_are_read_again_in_one_round_trip(
    parts: Components, topologies: list[Caller], trips: Trips
) -> None:
    for name in NAMES:
        await parts.registry.get(name)
    other = Components(parts.redis.url, window_ms=600_000)
    await topologies[0].put_spout("orders")
    await other.callbacks.change("one", "orders", _registered)
    changed = await other.registry.get("one")
    await at(parts, "DEL", "acker:{topologies}:two")
    trips.clear()
    assert set(await parts.registry.refresh_all()) == {*NAMES, "default"}
    assert len(trips.found) == 1
    assert (await parts.registry.get("one")).stamp == changed.stamp
    assert "two" not in {topology.name for topology in parts.registry.all_cached()}
    await other.close()


def _registered(present: Any, now_ms: int) -> Any:
    return register_callback(
        Webhook(url="http://receiver/hook"), present, now_ms=now_ms, make_secret=lambda: "whsec_" + "A" * 32
    )


async def test_a_look_at_what_is_full_counts_only_what_fills_a_mailbox(
    parts: Components, topologies: list[Caller], trips: Trips
) -> None:
    for name in (*NAMES, "default"):
        await parts.registry.get(name)
    trips.clear()
    before = (await command_counts(parts))["info"]
    await parts.backpressure.refresh()
    servers = len(await everywhere(parts, "PING"))
    assert (await command_counts(parts))["info"] - before == 2 * servers  # one of two counts
    assert not trips.of("acker_read_counts")
    if parts.redis.is_cluster:
        stored = [call for trip in trips.found for call in trip if call == "acker_stored_v1"]
        assert len(stored) == sum(len(topology.shards) for topology in parts.registry.all_cached())
    else:
        assert trips.of("acker_all_stored", "acker_stored") == [("acker_all_stored_v1",)]


async def test_a_mailbox_that_is_full_is_found_in_whatever_topology(
    parts: Components, topologies: list[Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.backpressure, "_mailbox_max", 3)
    await topologies[1].states(*[operation for root in range(10, 13) for operation in (init(root, 9), ack(root, 9))])
    found = {caller.topology: await parts.registry.get(caller.topology) for caller in topologies}
    await parts.backpressure.refresh()
    assert [parts.backpressure.was_full(found[name], 0) for name in NAMES] == [False, True, False]
    monkeypatch.setattr(parts.backpressure, "_mailbox_max", 4)
    await parts.backpressure.refresh()
    assert not parts.backpressure.was_full(found["two"], 0)


async def test_a_topology_that_another_replica_made_again_is_counted_as_it_is_now(
    parts: Components, topologies: list[Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call for all topologies leaves it out if any of its shards is ahead, and it is read again."""
    monkeypatch.setattr(parts.backpressure, "_mailbox_max", 1)
    before = await parts.registry.get("two")
    other = Components(parts.redis.url, window_ms=600_000)
    await other.registry.create_or_update(
        "two", lambda present: replace(present or TopologyConfig(), retention_ms=1_000)
    )
    await other.close()
    await topologies[1].states(init(10, 9), ack(10, 9))
    parts.registry._cache["two"] = before
    await at(parts, "SET", before.shards[0], before.stamp.text)  # the other shard has the new one
    assert before.name not in await parts.stats.read_all_stored([before])
    await parts.backpressure.refresh()
    assert parts.backpressure.was_full(await parts.registry.get("two"), 0)
    assert (await parts.registry.get("two")).stamp != before.stamp
