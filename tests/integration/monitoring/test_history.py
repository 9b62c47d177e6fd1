"""The history of a topology: recorded by workers, a step at a time, and read as points."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from acker_protocol import routes
from acker_protocol.errors import UnknownTopology
from acker_service.components import Components
from acker_service.monitoring import history as history_points
from acker_service.monitoring.history import POINTS, Point, Window
from acker_service.monitoring.recording import HistoryReader, HistoryRecorder, HistoryTask, TotalsReader
from acker_service.redis import functions, keys
from acker_service.redis.functions.history import Claim, Totals

from bench.servers import one
from tests.support.caller import Caller, ack, fail, init
from tests.support.overdue import overdue
from tests.support.redis_side import at, find
from tests.support.servers import AckerProcess, acker_serve
from tests.support.trips import command_counts, counted
from tests.support.waiting import eventually, eventually_true

pytestmark = pytest.mark.anyio

STEP_MS = 20
"""Short, so that the next step comes soon."""

numbers = count(1)


@pytest.fixture(autouse=True)
def _long_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no window be over before a slow test has looked at it."""
    monkeypatch.setattr(history_points, "POINTS", 100 * POINTS)


def recorder_of(parts: Components) -> HistoryRecorder:
    return HistoryRecorder(parts.redis, TotalsReader(parts.redis, parts.registry), step_ms=STEP_MS)


@pytest.fixture
def recorder(parts: Components) -> HistoryRecorder:
    return recorder_of(parts)


async def record(parts: Components, recorder: HistoryRecorder | None = None) -> int:
    """Record one step more, and return its number."""
    recorder = recorder or recorder_of(parts)
    before = await claimed(parts)

    async def recorded() -> int | None:
        await recorder.record()
        now = await claimed(parts)
        return now if now > before else None

    step = await eventually(recorded)
    assert step is not None
    return step


async def claimed(parts: Components) -> int:
    return int(await at(parts, "GET", keys.SAMPLED) or 0)


async def points(parts: Components, topology: str = "default", window: Window = Window.TEN_MINUTES) -> list[Point]:
    reader = HistoryReader(parts.redis, parts.registry, parts.stats, step_ms=STEP_MS)
    return (await reader.read(topology, window)).points


async def eventful(parts: Components, topology: str = "default") -> list[Point]:
    """The points in which something happened."""
    found = await points(parts, topology)
    return [point for point in found if point.emitted or point.acked or point.failed or point.timed_out]


async def test_each_datum_of_a_point_moves(call: Caller, parts: Components) -> None:
    await record(parts)
    await call.states(init(1, 9), init(2, 9), init(3, 9), init(4, 9))
    step = await record(parts)
    [point] = await eventful(parts)
    assert (point.at_ms, point.emitted, point.pending, point.unread) == (step * STEP_MS, 4, 4, 0)
    assert (point.acked, point.p50_ms, point.p99_ms) == (0, None, None)
    await call.states(ack(1, 9), ack(2, 9), fail(3))
    await overdue(parts, call, 5)
    await parts.expiry.expire(await parts.registry.get("default"))
    await record(parts)
    _, point = await eventful(parts)
    assert (point.emitted, point.acked, point.failed, point.timed_out) == (1, 2, 1, 1)
    assert (point.pending, point.unread) == (1, 4)
    assert point.p50_ms is not None
    assert point.p99_ms is not None
    assert 0 < point.p50_ms <= point.p99_ms
    await call.release((await call.completions())["cursor"])
    await record(parts)
    assert (await points(parts))[-1].unread == 0


async def test_pending_and_unread_of_all_spout_tasks_count(call: Caller, parts: Components) -> None:
    await call.states(init(4, 9), init(8, 9), init(12, 9, spout_task="returns"), init(16, 9, spout_task="returns"))
    await call.states(ack(8, 9), ack(16, 9))
    await record(parts)
    [point] = await eventful(parts)
    assert (point.pending, point.unread) == (2, 2)


async def test_several_workers_count_once(call: Caller, parts: Components) -> None:
    other = Components(parts.redis.url, window_ms=600_000)
    recorders = [recorder_of(parts), recorder_of(other), recorder_of(parts)]
    await record(parts)
    before = await claimed(parts)
    for root in range(1, 60):
        await call.states(init(root, 9), ack(root, 9))
        await asyncio.gather(*(recorder.record() for recorder in recorders))
    await record(parts)
    await other.close()
    assert await claimed(parts) > before
    found = await eventful(parts)
    assert sum(point.acked for point in found) == sum(point.emitted for point in found) == 59


async def history_key(parts: Components, topology: str = "default", level: int = 1) -> str:
    return keys.history(topology, (await parts.registry.refresh(topology)).incarnation, level)


async def test_a_step_is_claimed_by_one_worker(parts: Components) -> None:
    day_ms = 86_400_000
    first = await parts.redis.execute(functions.history.claim_step(day_ms))
    second = await parts.redis.execute(functions.history.claim_step(day_ms))
    assert first.step == first.now_ms // day_ms
    assert second.step is None
    await at(parts, "SET", keys.SAMPLED, first.step - 3)
    assert (await parts.redis.execute(functions.history.claim_step(day_ms))).since == 3


async def test_what_is_late_is_no_second_sample_of_its_step(parts: Components) -> None:
    topology = await parts.registry.get("default")
    for step, failed in ((1_000, 1), (1_000, 2), (999, 3), (1_001, 1), (1_001, 4)):
        claim = Claim(now_ms=0, step=step, since=1)
        note = functions.history.note_samples(claim, [("default", topology.incarnation, Totals(failed=failed))])
        await parts.redis.execute(note)
    stored = await parts.redis.execute(functions.history.read_samples("default", topology.incarnation, 1))
    assert [(sample.step, sample.totals.failed) for sample in stored.samples] == [(1_000, 1), (1_001, 4)]


async def noted_at(parts: Components, step: int, failed: int) -> None:
    """Note totals in a step, as a worker does that ran in the step before."""
    topology = await parts.registry.get("default")
    totals = [("default", topology.incarnation, Totals(failed=failed))]
    await parts.redis.execute(functions.history.note_samples(Claim(now_ms=0, step=step, since=1), totals))


async def test_what_changed_last_reaches_the_longer_windows_though_nothing_changes_any_more(
    call: Caller, parts: Components
) -> None:
    topology = await parts.registry.get("default")
    for step in (144_000, 144_001, *range(144_002, 144_600, 3)):
        await noted_at(parts, step, failed=1 if step == 144_000 else 2)
    found = [
        (await parts.redis.execute(functions.history.read_samples("default", topology.incarnation, level))).samples
        for level in (1, 2, 3)
    ]
    assert [[(sample.step, sample.totals.failed) for sample in samples] for samples in found] == [
        [(144_000, 1), (144_001, 2)],
        [(144_000, 1), (144_020, 2)],
        [(144_000, 1), (144_146, 2)],
    ]


@pytest.mark.parametrize(("step", "looks"), [(144_289, 3), (144_290, 1)])
async def test_totals_that_every_level_has_are_looked_at_once(
    call: Caller, parts: Components, step: int, looks: int
) -> None:
    await noted_at(parts, 144_000, failed=1)
    before = (await command_counts(parts)).get("zrange", 0)
    await noted_at(parts, step, failed=1)
    assert (await command_counts(parts))["zrange"] - before == looks


async def test_an_idle_topology_keeps_one_sample(call: Caller, parts: Components) -> None:
    for _ in range(5):
        await record(parts)
    assert [await at(parts, "ZCARD", await history_key(parts, level=level)) for level in (1, 2, 3)] == [1, 1, 1]
    assert all(point.emitted == 0 for point in await points(parts))


async def test_a_history_is_bounded(parts: Components) -> None:
    topology = await parts.registry.get("default")
    steps = range(1, 144 * 130, 13)
    for step in steps:
        claim = Claim(now_ms=0, step=step, since=13)
        totals = Totals(
            failed=step, timed_out=2**31, pending=2**31, unread=2**31, latencies=dict.fromkeys(range(12), 2**33)
        )
        await parts.redis.execute(functions.history.note_samples(claim, [("default", topology.incarnation, totals)]))
    found = [
        (await parts.redis.execute(functions.history.read_samples("default", topology.incarnation, level))).samples
        for level in (1, 2, 3)
    ]
    assert [len(samples) for samples in found] == [POINTS + 1] * 3
    for samples, factor in zip(found, (1, 18, 144), strict=True):
        assert [sample.step // factor for sample in samples] == sorted({sample.step // factor for sample in samples})
        assert samples[-1].step // factor == steps[-1] // factor
        assert all(sample.totals.failed == sample.step for sample in samples)
    used = [await at(parts, "MEMORY USAGE", await history_key(parts, level=level)) for level in (1, 2, 3)]
    assert sum(used) < 100_000


@pytest.mark.parametrize("way", ["discard", "drain"])
async def test_a_history_goes_with_its_topology(call: Caller, parts: Components, way: str) -> None:
    orders = Caller(call.http, "orders")
    await orders.put()
    await orders.states(init(1, 9), ack(1, 9))
    await record(parts)
    assert await find(parts, "*:orders:*:history*")
    if way == "drain":
        await orders.release((await orders.completions())["cursor"])
    query = {"force": True, "discard": True} if way == "discard" else {}
    assert (await call.http.delete(routes.topology("orders"), params=query)).is_success
    await record(parts)
    assert not await find(parts, "*:orders:*")
    answer = await call.http.get(f"{routes.topology('orders')}/history")
    assert answer.json()["code"] == UnknownTopology.code


async def test_a_topology_that_is_made_again_begins_anew(call: Caller, parts: Components) -> None:
    orders = Caller(call.http, "orders")
    other = Components(parts.redis.url, window_ms=600_000)
    await orders.put()
    await orders.states(*[operation for root in range(5) for operation in (init(root + 1, 9), ack(root + 1, 9))])
    await record(other)
    assert [point.acked for point in await eventful(other, "orders")] == [5]
    await call.http.delete(routes.topology("orders"), params={"force": True, "discard": True})
    await orders.put(ackers=2)
    await orders.states(init(1, 9), ack(1, 9))
    await record(other)
    assert [point.acked for point in await eventful(other, "orders")] == [1], "the other process had the old one cached"
    await other.close()


async def test_what_is_noted_of_a_topology_that_was_made_again_is_left_out(call: Caller, parts: Components) -> None:
    before = await parts.registry.get("default")
    claim = Claim(now_ms=0, step=1_000, since=1)
    totals = [("default", "0" * 16, Totals(failed=9)), ("nowhere", before.incarnation, Totals(failed=9))]
    await parts.redis.execute(functions.history.note_samples(claim, totals))
    assert not await find(parts, "*:history*")


async def test_a_topology_that_another_process_changed_is_sampled_all_the_same(call: Caller, parts: Components) -> None:
    other = Components(parts.redis.url, window_ms=600_000)
    await record(other)
    await call.put(retention_ms=1_000)
    await call.states(init(1, 9), ack(1, 9))
    await record(other)
    assert [point.acked for point in await eventful(other)] == [1]
    await other.close()


async def test_an_interval_without_a_worker_has_no_points_and_is_counted_in_the_next(
    call: Caller, parts: Components
) -> None:
    first = await record(parts)
    for root in range(1, 11):
        await call.states(init(root, 9), ack(root, 9))
    await at(parts, "SET", keys.SAMPLED, first)

    async def much_later() -> bool:
        return await parts.redis.now_ms() // STEP_MS > first + 10

    await eventually(much_later)
    step = await record(parts)
    [point] = await eventful(parts)
    assert (point.at_ms, point.acked) == (step * STEP_MS, 10)
    assert not [each for each in await points(parts) if first * STEP_MS < each.at_ms < point.at_ms]


async def test_the_whole_life_is_exact(call: Caller, parts: Components) -> None:
    await call.states(*[operation for root in range(1, 8) for operation in (init(root, 9), ack(root, 9))])
    await call.states(init(8, 9), fail(8), init(9, 9))
    answer = (await call.http.get(f"{routes.topology('default')}/history", params={"window": "all"})).json()
    assert (answer["topology"], answer["window"]) == ("default", "all")
    assert 1 <= answer["step_ms"] < 60_000, "the age of the topology"
    [point] = answer["points"]
    assert (point["emitted"], point["acked"], point["failed"], point["timed_out"]) == (9, 7, 1, 0)
    assert (point["pending"], point["unread"]) == (1, 8)
    assert abs(point["at_ms"] - await parts.redis.now_ms()) < 60_000


@pytest.mark.parametrize(("window", "step_ms"), [("10m", 5_000), ("3h", 90_000), ("1d", 720_000)])
async def test_a_window_has_its_own_distance_of_points(call: Caller, window: str, step_ms: int) -> None:
    answer = (await call.http.get(f"{routes.topology('default')}/history", params={"window": window})).json()
    assert answer == {"topology": "default", "window": window, "step_ms": step_ms, "points": []}


async def test_another_window_is_refused(call: Caller) -> None:
    answer = await call.http.get(f"{routes.topology('default')}/history", params={"window": "2h"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_the_totals_of_all_topologies_of_one_server_take_one_call(
    call: Caller, parts: Components, recorder: HistoryRecorder
) -> None:
    if parts.redis.is_cluster:
        pytest.skip("in a cluster each shard may be on another server")
    for name in ("one", "two", "three"):
        await Caller(call.http, name).put()
    await record(parts, recorder)
    with counted(parts) as trips:
        await record(parts, recorder)
    noted = [trip for trip in trips.found if len(trip) == 1 and trip[0] == "monitoring"]
    assert len(noted) == 2, "one reads the totals, one notes the samples"


@pytest.fixture
async def running(parts: Components) -> AsyncIterator[HistoryTask]:
    task = HistoryTask(recorder_of(parts))
    task.start()
    yield task
    await task.stop()


async def test_a_task_records_each_step_in_the_order_of_time(
    call: Caller, parts: Components, running: HistoryTask
) -> None:
    await call.states(init(1, 9), ack(1, 9))

    async def many() -> bool:
        return len(await points(parts)) >= 10

    await eventually(many)
    found = await points(parts)
    assert sum(point.acked for point in found) == 1
    assert [point.at_ms for point in found] == sorted({point.at_ms for point in found})


def history(acker: AckerProcess, window: str = "10m", topology: str = "orders") -> list[dict[str, Any]]:
    answer = acker.http.get(f"{routes.topology(topology)}/history", params={"window": window})
    assert answer.is_success, answer.text
    return list(answer.json()["points"])


def emit(acker: AckerProcess, count: int) -> None:
    ops = [
        operation
        for root in (next(numbers) for _ in range(count))
        for operation in ({**init(root, 9)}, {**ack(root, 9)})
    ]
    answer = acker.http.post(routes.operation("orders", "batch"), json={"ops": ops})
    assert answer.json()["results"] == ["pending", "acked"] * count


def total(acker: AckerProcess, name: str = "acked", window: str = "10m") -> int:
    return sum(point[name] for point in history(acker, window))


@pytest.mark.parametrize("killed", ["acker", "store"])
def test_a_history_survives_a_kill(tmp_path: Path, killed: str) -> None:
    with (
        one(tmp_path / "valkey", "--appendonly", "yes", "--appendfsync", "always") as store,
        acker_serve(tmp_path, "--redis-url", store.url) as acker,
    ):
        acker.http.put("/v1/topologies/orders")
        emit(acker, 7)
        eventually_true(lambda: total(acker) == 7)
        if killed == "acker":
            acker.kill()
            acker.start()
        else:
            store.stop()
            store.start()
        acker.wait_until_ready()
        emit(acker, 5)
        eventually_true(lambda: total(acker) == 12)
        emitted = [point["emitted"] for point in history(acker) if point["emitted"]]
        assert sum(emitted) == 12
        assert emitted[0] == 7
        assert total(acker, window="all") == 12


def test_two_workers_record_what_one_goes_on_with_after_the_other_is_killed(tmp_path: Path) -> None:
    with (
        one(tmp_path / "valkey") as store,
        acker_serve(tmp_path, "--redis-url", store.url, "--processes", "2") as acker,
        acker_serve(tmp_path, "--redis-url", store.url, "--role", "worker") as worker,
    ):
        acker.http.put("/v1/topologies/orders")
        for _ in range(4):
            emit(acker, 10)
            last = history(acker)[-1]["at_ms"] if history(acker) else 0
            eventually_true(lambda last=last: (history(acker) or [{"at_ms": 0}])[-1]["at_ms"] > last)
        worker.kill()
        emit(acker, 10)
        eventually_true(lambda: total(acker) == 50)
        assert total(acker, "emitted") == 50


async def test_the_next_step_is_due_when_this_one_ends(parts: Components) -> None:
    hour_ms = 3_600_000
    hourly = HistoryRecorder(parts.redis, TotalsReader(parts.redis, parts.registry), step_ms=hour_ms)
    left_ms = hour_ms - await parts.redis.now_ms() % hour_ms
    for _ in range(2):  # claimed by this worker, then by another one
        due = await hourly.record()
        assert abs((due - asyncio.get_running_loop().time()) * 1_000 - left_ms) < 60_000
