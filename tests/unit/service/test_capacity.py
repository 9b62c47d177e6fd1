"""What a load needs follows from the costs of single operations."""

import pytest
from acker_service.capacity import Load, OperationCosts, needs, roots_per_s

COSTS = OperationCosts(init_us=6.0, ack_us=5.0, last_ack_us=9.0)


@pytest.mark.parametrize(("edges", "us"), [(1, 15.0), (2, 20.0), (10, 60.0)])
def test_a_root_costs_its_init_its_acks_and_its_last_ack(edges: int, us: float) -> None:
    assert COSTS.root_us(edges) == us


def test_roots_are_pending_for_as_long_as_they_take() -> None:
    assert Load(roots_per_s=1_000, edges=2, pending_s=30).pending == 30_000


def test_a_load_needs_servers_that_are_no_busier_than_planned_and_memory_for_all_that_is_pending() -> None:
    found = needs(Load(roots_per_s=50_000, edges=10, pending_s=20), COSTS, root_bytes=42)
    assert found.redis_cores == pytest.approx(3.0)
    assert found.servers == 5
    assert found.processes == 2
    assert found.memory_bytes == pytest.approx((1_000_000 * 42 + 50_000 * 60 * 19) * 1.5)


def test_a_small_load_needs_one_of_each() -> None:
    found = needs(Load(roots_per_s=1, edges=1, pending_s=1), COSTS, root_bytes=42)
    assert (found.servers, found.processes) == (1, 1)


def test_one_server_carries_the_load_that_needs_one() -> None:
    carried = roots_per_s(COSTS, edges=10)
    assert carried == pytest.approx(10_000)
    assert needs(Load(roots_per_s=carried * 0.99, edges=10, pending_s=1), COSTS, root_bytes=42).servers == 1
