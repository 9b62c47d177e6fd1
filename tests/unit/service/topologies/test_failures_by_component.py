"""Failures are added up over shards, with a bounded number of components by name."""

from acker_protocol.operations import Outcome
from acker_service.redis.functions.failures import FailureCounts
from acker_service.topologies.stats import MAX_COMPONENTS, OTHER_COMPONENTS, failures_by_component

FAILED, TIMED_OUT = Outcome.FAILED, Outcome.TIMED_OUT


def test_a_topology_without_failures_has_none() -> None:
    assert failures_by_component([FailureCounts(), FailureCounts()]) == {}


def test_shards_are_added_up_by_outcome_and_component() -> None:
    one = FailureCounts(counts={(FAILED, "price"): 2, (TIMED_OUT, "price"): 3, (FAILED, ""): 5}, first_ms={"price": 9})
    two = FailureCounts(counts={(FAILED, "price"): 7, (FAILED, ""): 11}, first_ms={"price": 4})
    assert failures_by_component([one, two]) == {("failed", "price"): 9, ("timed_out", "price"): 3, ("failed", ""): 16}


def test_the_components_that_failed_first_keep_their_names_and_nothing_is_lost() -> None:
    counts = {(FAILED, name): at for at, name in enumerate("abcd", 1)}
    shard = FailureCounts(counts=counts | {(TIMED_OUT, "d"): 10}, first_ms={name: at for at, name in enumerate("bdac")})
    shown = failures_by_component([shard], max_components=2)
    assert shown == {
        ("failed", "b"): 2,
        ("failed", "d"): 4,
        ("timed_out", "d"): 10,
        ("failed", OTHER_COMPONENTS): 1 + 3,
    }


def test_the_first_failure_of_a_component_counts_over_all_shards() -> None:
    one = FailureCounts(counts={(FAILED, "a"): 1, (FAILED, "b"): 1}, first_ms={"a": 9, "b": 5})
    two = FailureCounts(counts={(FAILED, "a"): 1}, first_ms={"a": 1})
    shown = failures_by_component([one, two], max_components=1)
    assert shown == {("failed", "a"): 2, ("failed", OTHER_COMPONENTS): 1}


def test_what_a_shard_counts_without_a_name_stays_so() -> None:
    shard = FailureCounts(counts={(FAILED, "a"): 1, (FAILED, "other"): 6}, first_ms={"a": 1})
    assert failures_by_component([shard]) == {("failed", "a"): 1, ("failed", "other"): 6}


def test_fifty_components_have_a_name() -> None:
    names = [f"bolt-{number}" for number in range(60)]
    shard = FailureCounts(
        counts={(FAILED, name): 1 for name in names}, first_ms=dict(zip(names, range(60), strict=True))
    )
    shown = failures_by_component([shard])
    assert (len(shown), shown["failed", OTHER_COMPONENTS], sum(shown.values())) == (MAX_COMPONENTS + 1, 10, 60)
