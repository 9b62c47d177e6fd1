"""What a load needs follows from the costs of single operations."""

from dataclasses import replace

import pytest
from acker_service.monitoring.backpressure import remembered_part
from acker_service.sizing import capacity
from acker_service.sizing.capacity import OperationCosts, Workload, needs, roots_per_s, service_roots_per_s

COSTS = OperationCosts(init_us=6.0, ack_us=5.0, last_ack_us=9.0)
ROOT_BYTES = 42


@pytest.fixture(autouse=True)
def shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round shares instead of the fitted ones: the tick takes 2 µs to forget a root."""
    monkeypatch.setattr(capacity, "GROWTH", (0.5, 0.2, 1.0))
    monkeypatch.setattr(capacity, "FORGET", 2 / 9)


@pytest.mark.parametrize(("edges", "us"), [(1, 15.0), (2, 20.0), (10, 60.0)])
def test_a_root_costs_its_init_its_acks_its_last_ack_and_what_forgets_it(edges: int, us: float) -> None:
    assert COSTS.root_us(edges) == pytest.approx(us + 2.0)


def test_a_root_in_small_batches_costs_a_part_of_its_calls_besides() -> None:
    """Ten operations go to four shards in 3.77 calls, a thousand in four, whose part is in the measured costs."""
    costs = replace(COSTS, call_us=30.0)
    assert costs.root_us(2) == pytest.approx(22.0)
    assert costs.root_us(2, batch=10) == pytest.approx(22.0 + 3 * 30.0 * (0.37747 - 0.004), abs=0.01)
    assert costs.root_us(2, batch=1) == pytest.approx(22.0 + 3 * 30.0 * (1 - 0.004))
    assert costs.at(1_000_000).call_us == 30.0


def test_more_shards_take_more_calls_of_a_batch() -> None:
    assert capacity.calls_of(1, 18) == pytest.approx(1)
    assert capacity.calls_of(100, 18) == pytest.approx(17.94, abs=0.01)
    assert capacity.calls_of(5, 1) == 1


def test_a_load_in_small_batches_needs_more_of_both() -> None:
    load, costs = Workload(roots_per_s=10_000, edges=1, pending_s=0.1), replace(COSTS, call_us=30.0)
    large, small = (needs(each, costs, root_bytes=ROOT_BYTES) for each in (load, replace(load, batch=10)))
    assert small.redis_cores - large.redis_cores == pytest.approx(10_000 * 2 * 30.0 * (0.37747 - 0.004) / 1e6, abs=0.03)
    more_us = capacity.SERVICE_BATCH_US * (1 / 10 - 1 / 1_000)
    assert small.service_cores - large.service_cores == pytest.approx(10_000 * 2 * more_us / 1e6)


def test_forgetting_a_root_costs_more_with_each_tenfold_of_pending_roots_as_a_last_ack_does() -> None:
    assert COSTS.at(100_000).root_us(1) == pytest.approx(9.0 + 18.0 + 4.0)


def test_operations_cost_more_with_each_tenfold_of_pending_roots() -> None:
    grown = COSTS.at(1_000_000)
    assert (grown.init_us, grown.ack_us, grown.last_ack_us) == pytest.approx((12.0, 7.0, 27.0))
    assert COSTS.at(10) == OperationCosts(init_us=6.0, ack_us=5.0, last_ack_us=9.0, pending=10)


def test_costs_that_were_measured_with_many_pending_roots_fall_with_few() -> None:
    back = COSTS.at(1_000_000).at(10_000)
    assert (back.init_us, back.ack_us, back.last_ack_us) == pytest.approx((6.0, 5.0, 9.0))


def test_roots_are_pending_for_as_long_as_they_take() -> None:
    assert Workload(roots_per_s=1_000, edges=2, pending_s=30).pending == 30_000


@pytest.mark.parametrize(("pending_s", "outcomes"), [(0, 180.0), (60, 240.0), (604_800, 604_980.0)])
def test_expired_outcomes_stay_until_they_are_as_many_as_what_is_kept(pending_s: float, outcomes: float) -> None:
    assert Workload(roots_per_s=1, edges=1, pending_s=pending_s).outcomes == pytest.approx(outcomes)


def test_a_load_needs_servers_that_are_no_busier_than_planned_and_memory_for_all_that_is_pending() -> None:
    found = needs(Workload(roots_per_s=50_000, edges=10, pending_s=0.1, window_s=0), COSTS, root_bytes=ROOT_BYTES)
    assert found.redis_cores == pytest.approx(3.1, abs=0.01)
    assert found.servers == 6
    assert found.service_cores == pytest.approx(0.825)
    assert found.processes == 3
    assert found.memory_bytes == pytest.approx((5_000 * 42 + (5_000 + 3 * 50_000 * 60) * 20) * 1.5)
    assert found.maxmemory_bytes == pytest.approx(found.memory_bytes / 6)


def test_remembered_edges_take_what_the_store_counts_for_them() -> None:
    """Those of two windows; a set begins with more than a further number takes, and a large one takes more for all."""
    load = Workload(roots_per_s=10_000, edges=10, pending_s=30, window_s=30)
    assert load.remembered_bytes(2) == pytest.approx(2 * (3_000_000 * 10 + 65_536 * 224))
    assert replace(load, window_s=0).remembered_bytes(2) == 0
    assert replace(load, roots_per_s=0.1).remembered_bytes(2) == pytest.approx(2 * 30 * (10 + 224))
    assert replace(load, window_s=600).remembered_bytes(2) == pytest.approx(2 * (60_000_000 * 80 + 65_536 * 224))


def test_each_server_has_room_for_what_is_remembered_up_to_where_roots_begin() -> None:
    """Roots begin while a topology remembers less than nine tenths of a quarter of the smallest maxmemory."""
    load = Workload(roots_per_s=10_000, edges=10, pending_s=30, window_s=30)
    found = needs(load, COSTS, root_bytes=ROOT_BYTES)
    counted = load.remembered_bytes(found.servers)
    memories = [{"maxmemory": found.maxmemory_bytes}] * found.servers
    assert counted < remembered_part(10**12, memories) * 0.9 < counted * 1.02
    assert found.memory_bytes == pytest.approx((300_000 * 42 + (300_000 + 1_800_000) * 20 + counted) * 1.5)


def test_no_fewer_servers_would_do_where_many_roots_are_pending() -> None:
    load = Workload(roots_per_s=50_000, edges=10, pending_s=20)
    found = needs(load, COSTS, root_bytes=ROOT_BYTES)
    assert found.redis_cores <= capacity.BUSY * found.servers
    fewer = COSTS.at(load.pending / (found.servers - 1)).root_us(10)
    assert fewer * load.roots_per_s / 1e6 > capacity.BUSY * (found.servers - 1)


def test_a_small_load_needs_one_server_and_one_process_to_spare() -> None:
    found = needs(Workload(roots_per_s=1, edges=1, pending_s=1), COSTS, root_bytes=ROOT_BYTES)
    assert (found.servers, found.processes) == (1, 2)


def test_one_server_carries_the_load_that_needs_one() -> None:
    carried = roots_per_s(COSTS, edges=10)
    assert carried == pytest.approx(600_000 / 62)
    assert needs(Workload(roots_per_s=carried * 0.99, edges=10, pending_s=0), COSTS, root_bytes=ROOT_BYTES).servers == 1


def test_one_process_carries_the_load_that_needs_one_beside_the_spare() -> None:
    carried = service_roots_per_s(edges=10)
    assert (
        needs(Workload(roots_per_s=carried * 0.99, edges=10, pending_s=0), COSTS, root_bytes=ROOT_BYTES).processes == 2
    )
    assert (
        needs(Workload(roots_per_s=carried * 1.01, edges=10, pending_s=0), COSTS, root_bytes=ROOT_BYTES).processes == 3
    )
