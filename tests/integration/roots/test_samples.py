"""Pending roots by age, counted or sampled, and the times of components by the roots that were traced last."""

import itertools
import random

import httpx
import pytest
from acker_service.components import Components
from acker_service.roots import ages, component_times
from acker_service.roots.ages import AgeCounter
from acker_service.roots.component_times import ComponentTimesReader, percentile
from acker_service.roots.pending import PendingRoots

from tests.support.caller import Caller, Document, ack, fail, init

pytestmark = pytest.mark.anyio

E = 0xE1


async def get(call: Caller, what: str) -> Document:
    answer = await call.http.get(f"/v1/topologies/{call.topology}/{what}")
    assert answer.status_code == httpx.codes.OK, answer.text
    return dict(answer.json())


async def emit(call: Caller, number: int, *, first: int = 1, **fields: object) -> None:
    await call.states(*(init(root, E, **fields) for root in range(first, first + number)))


async def test_few_pending_roots_are_all_counted(call: Caller) -> None:
    await emit(call, 30)
    await call.states(*(fail(root) for root in range(1, 11)))
    found = await get(call, "ages")
    assert (found["pending"], found["counted"], found["is_sample"]) == (20, 20, False)
    assert [(group["from_ms"], group["to_ms"]) for group in found["ages"]] == [
        (0, 1_000),
        (1_000, 10_000),
        (10_000, 60_000),
        (60_000, 600_000),
        (600_000, None),
    ]
    assert sum(group["roots"] for group in found["ages"]) == 20


async def test_a_list_that_takes_too_long_is_no_count(call: Caller, parts: Components) -> None:
    await emit(call, 30)
    topology = await parts.registry.get(call.topology)
    hours = itertools.count(step=3_600)
    listing = PendingRoots(parts.shards, parts.spouts, clock=lambda: float(next(hours)))
    counter = AgeCounter(parts.shards, parts.stats, listing, clock=lambda: 0.0)
    found = await counter.count(topology)
    assert (found.pending, found.is_sample) == (30, True)


async def test_without_a_pending_root_nothing_is_counted(call: Caller) -> None:
    found = await get(call, "ages")
    assert (found["pending"], found["counted"], found["is_sample"]) == (0, 0, False)


async def test_of_many_a_sample_of_whole_buckets_is_counted_each_root_once(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ages, "ALL", 0)
    monkeypatch.setattr(ages, "MAX_BUCKETS", 1_000_000)
    topology = await parts.registry.get(call.topology)
    topology_buckets = topology.config.buckets * len(topology.shards)
    await emit(call, 500)
    counter = AgeCounter(parts.shards, parts.stats, parts.pending_roots, clock=lambda: 0.0, draw=random.Random(4711))
    whole = await counter.count(topology)
    assert (sum(whole.groups), whole.pending, whole.is_sample) == (500, 500, True)
    monkeypatch.setattr(ages, "MAX_BUCKETS", topology_buckets // 2)
    half = await counter.count(topology)
    assert 100 < sum(half.groups) < 400
    assert half.pending == 500


async def test_a_sample_ends_with_its_time_and_with_enough_roots(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ages, "ALL", 0)
    await emit(call, 2_000)
    topology = await parts.registry.get(call.topology)
    hours = itertools.count(step=3_600)
    late = AgeCounter(
        parts.shards, parts.stats, parts.pending_roots, clock=lambda: float(next(hours)), draw=random.Random(1)
    )
    one_call = sum((await late.count(topology)).groups)
    patient = AgeCounter(parts.shards, parts.stats, parts.pending_roots, clock=lambda: 0.0, draw=random.Random(1))
    assert one_call < sum((await patient.count(topology)).groups)
    monkeypatch.setattr(ages, "SAMPLE", 1)
    assert sum((await patient.count(topology)).groups) < 2_000


async def test_times_of_components_are_of_the_edges_that_they_ended(call: Caller) -> None:
    for root in range(1, 6):
        await call.states(init(root, 1, trace=True), ack(root, 1, 2, 4, component="split"))
        await call.states(ack(root, 2, component="count"), ack(root, 4))
    await call.states(init(9, 1), ack(9, 1, component="untraced"))
    found = await get(call, "components")
    assert found["traces"] == 5
    assert {one["component"]: one["edges"] for one in found["components"]} == {"split": 5, "count": 5}
    assert all(0 <= one["p50_ms"] <= one["p95_ms"] <= one["p99_ms"] for one in found["components"])


async def test_the_roots_that_were_traced_last_are_looked_at(
    call: Caller, parts: Components, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = Caller(call.http, "single")
    await single.put(ackers=1)
    monkeypatch.setattr(component_times, "TRACES", 2)
    for root, component in enumerate(("early", "late", "later"), start=1):
        await single.post(init(root, 1, trace=True))
        await single.post(ack(root, 1, component=component))
    found = await get(single, "components")
    assert (found["traces"], {one["component"] for one in found["components"]}) == (2, {"late", "later"})


async def test_traces_are_read_for_their_time_only(call: Caller, parts: Components) -> None:
    for root in range(1, 31):
        await call.states(init(root, 1, trace=True), ack(root, 1, component="split"))
    topology = await parts.registry.get(call.topology)
    hours = itertools.count(step=3_600)
    late = ComponentTimesReader(parts.shards, clock=lambda: float(next(hours)))
    assert (await late.read(topology)).traces == component_times.TRACES_PER_CALL
    assert (await ComponentTimesReader(parts.shards, clock=lambda: 0.0).read(topology)).traces == 30


@pytest.mark.parametrize("what", ["ages", "components"])
async def test_of_an_unknown_topology_nothing_is_shown(call: Caller, what: str) -> None:
    answer = await call.http.get(f"/v1/topologies/nobody/{what}")
    assert answer.json()["code"] == "unknown_topology"


def test_a_percentile_is_the_least_time_that_the_share_does_not_exceed() -> None:
    assert [percentile(range(1, 101), share) for share in (0.5, 0.95, 0.99)] == [50, 95, 99]
    assert percentile([7], 0.5) == 7
