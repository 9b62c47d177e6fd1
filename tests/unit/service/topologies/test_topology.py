from dataclasses import replace

import pytest
from acker_service.redis.codec import Layout
from acker_service.redis.functions.roots import pack_settings
from acker_service.redis.functions.traces import TraceLimits, pack_limits
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.topology import Topology

INCARNATION = "00000000000000a1"


def topology(**config: int) -> Topology:
    stamp = Stamp(f"{INCARNATION}0000000001")
    return Topology(name="orders", stamp=stamp, config=TopologyConfig(**config), window_ms=60_000)


def test_the_life_of_a_topology_is_that_of_its_stamp() -> None:
    assert topology().incarnation == INCARNATION


def test_topologies_of_one_incarnation_are_told_apart_by_their_names() -> None:
    twin = replace(topology(), name="payments")
    assert twin.incarnation == topology().incarnation
    assert twin.id != topology().id == topology(ackers=2).id


def test_a_topology_has_a_shard_an_acker_and_at_least_one() -> None:
    assert topology(ackers=2).shards == ["acker:{orders/0}", "acker:{orders/1}"]
    assert topology(ackers=0).shards == ["acker:{orders/0}"]
    assert topology(ackers=2, buckets=8).layout == Layout(shards=2, buckets=8)


def test_a_shard_spreads_the_requests_that_it_remembers_over_sixteen_sets_or_more() -> None:
    assert (topology(buckets=8).seen_sets, topology(buckets=16_384).seen_sets) == (16, 2_048)


def test_the_settings_are_the_rules_the_window_and_the_failures_of_a_shard() -> None:
    some = topology(ackers=2, retention_ms=1_000)
    rules = pack_settings(some.config.rules, 60_000, 5_000)
    assert some.settings == rules + pack_limits(TraceLimits(), shards=2)


def test_the_settings_end_with_the_bounds_of_the_traces_of_a_shard() -> None:
    limits = TraceLimits(max_bytes=1_000, ttl_ms=5_000)
    some = replace(topology(ackers=2), trace_limits=limits)
    numbers = ((500, 6), (5_000, 5))
    assert some.settings.endswith(b"".join(number.to_bytes(size, "big") for number, size in numbers))


@pytest.mark.parametrize(("trace", "threshold"), [(0, 0), (0.5, 2**31), (1, 2**32)])
def test_the_share_that_is_traced_is_a_threshold_of_the_sample(trace: float, threshold: int) -> None:
    assert replace(topology(), config=TopologyConfig(trace=trace)).trace_threshold == threshold
