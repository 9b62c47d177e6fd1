"""What the early roots of one topology, and its edges and requests, may take of the memory of Redis."""

from acker_service.monitoring.backpressure import early_part, remembered_part, remembered_part_if_full

MAX = 67_108_864
LARGE = 1 << 40


def memory(limit: int) -> dict[str, int]:
    return {"used_memory": 1, "maxmemory": limit}


def test_without_maxmemory_a_topology_has_what_is_set() -> None:
    assert early_part(MAX, [memory(0), {"used_memory": 1}], topologies=100) == MAX
    assert early_part(MAX, [memory(LARGE)], topologies=3) == MAX


def test_early_roots_of_all_topologies_take_a_tenth_of_maxmemory_at_most() -> None:
    """A quarter more than they may: fails of stored roots are not refused."""
    for limit in (60 << 20, 1 << 30):
        for topologies in (1, 2, 7, 1_000):
            part = early_part(MAX, [memory(limit)], topologies=topologies)
            assert limit / 10 - topologies * 2 <= part * topologies * 1.25 <= limit / 10 or part == MAX
    assert early_part(MAX, [memory(60 << 20)], topologies=2) == 2_516_582


def test_of_several_servers_the_smallest_counts() -> None:
    assert early_part(MAX, [memory(0), memory(100 << 20), memory(10 << 20)], topologies=1) == 838_860


def test_a_store_without_topologies_has_a_part_for_one() -> None:
    assert early_part(MAX, [memory(10 << 20)], topologies=0) == 838_860


def test_what_a_topology_remembers_takes_a_quarter_of_maxmemory_at_most() -> None:
    assert remembered_part(MAX, [memory(0)]) == MAX
    assert remembered_part(MAX, [memory(100 << 20), memory(60 << 20)]) == 15 << 20


def test_in_a_full_store_the_edges_of_all_topologies_take_a_twentieth_of_maxmemory_at_most() -> None:
    assert remembered_part_if_full(MAX, [memory(0)], topologies=7) == MAX
    assert remembered_part_if_full(MAX, [memory(60 << 20)], topologies=0) == 3 << 20
    assert remembered_part_if_full(MAX, [memory(60 << 20)], topologies=3) == 1 << 20
