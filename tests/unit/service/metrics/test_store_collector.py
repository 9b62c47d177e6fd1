"""Tests the statistics of the store and the metrics that show them."""

from acker_service.metrics.store_collector import (
    EXPONENTS,
    CallbackBacklog,
    LatencyHistogram,
    StoreStats,
    TopologyAges,
    TopologyStats,
    families,
)

Samples = dict[tuple[str, ...], float]


def samples(stats: StoreStats | None) -> Samples:
    """The samples of a scrape by name and label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value for family in families(stats) for sample in family.samples
    }


def test_a_histogram_that_counted_nothing_has_no_series() -> None:
    empty = LatencyHistogram(counts={}, sum_ms=0)
    topology = TopologyStats(
        pending=0,
        unread=0,
        dead_letters=0,
        totals=dict.fromkeys(("acked", "failed", "timed_out", "dropped", "unbalanced"), 0),
        deliveries={},
        latencies={"acked": empty},
        ages=TopologyAges(now_ms=1, delays={"late": empty}),
    )
    store = StoreStats(used_bytes=1, max_bytes=0, is_full=False, worker_seen=True, topologies={"orders": topology})
    assert not [name for name, *_ in samples(store) if "bucket" in name]


def test_latencies_are_told_apart_from_a_millisecond_to_more_than_an_hour() -> None:
    assert [2 ** EXPONENTS[0], 2 ** EXPONENTS[-1]] == [1, 4_194_304]


def test_a_store_stands_without_topologies_until_one_is_made() -> None:
    assert StoreStats(used_bytes=1, max_bytes=0, is_full=False, worker_seen=True).topologies == {}


def test_how_things_stand_is_a_value() -> None:
    latencies = LatencyHistogram(counts={3: 2}, sum_ms=15)
    counts = {"pending": 1, "unread": 2, "dead_letters": 3}
    told = {"totals": {"acked": 2}, "deliveries": {"delivered": 5}}
    standing = TopologyStats(**counts, **told, latencies={"acked": latencies})  # type: ignore[arg-type]
    assert standing == TopologyStats(**counts, **told, latencies={"acked": LatencyHistogram(counts={3: 2}, sum_ms=15)})  # type: ignore[arg-type]
    assert (standing.ages, standing.fullest_mailbox) == (None, 0)


def test_a_store_that_does_not_answer_is_down_and_shows_nothing_else() -> None:
    assert samples(None) == {("acker_store_up",): 0}


def test_a_store_without_topologies_shows_its_memory_and_its_worker() -> None:
    assert samples(StoreStats(used_bytes=5, max_bytes=9, is_full=True, worker_seen=False)) == {
        ("acker_store_up",): 1,
        ("acker_store_full",): 1,
        ("acker_store_used_bytes",): 5,
        ("acker_store_max_bytes",): 9,
        ("acker_store_ticked",): 0,
    }


def test_a_topology_shows_its_statistics_under_its_name() -> None:
    totals = {"acked": 3, "failed": 2, "timed_out": 1, "dropped": 4, "unbalanced": 5}
    topology = TopologyStats(
        pending=6,
        unread=7,
        dead_letters=8,
        totals=totals,
        deliveries={"delivered": 9},
        latencies={"acked": LatencyHistogram(counts={0: 1, 22: 1, 23: 1}, sum_ms=1_500)},
        ages=TopologyAges(
            now_ms=20_000,
            pending_ms=17_500,
            unread_ms=12_000,
            unread_pull_ms=None,
            delays={"late": LatencyHistogram(counts={0: 1, 3: 2, 23: 1}, sum_ms=2_000)},
            backlogs={"invoices": CallbackBacklog(unread=10, age_ms=2_500, is_on=True)},
        ),
        early=11,
        early_bytes=13,
        remembered_bytes=14,
        fullest_mailbox=12,
        failures={("failed", "price"): 2, ("timed_out", ""): 1},
    )
    store = StoreStats(used_bytes=1, max_bytes=0, is_full=False, worker_seen=True, topologies={"orders": topology})
    shown = samples(store)
    latency = "acker_complete_latency_seconds"
    assert (
        shown.items()
        >= {
            ("acker_roots_pending", "orders"): 6,
            ("acker_roots_early", "orders"): 11,
            ("acker_roots_early_bytes", "orders"): 13,
            ("acker_remembered_bytes", "orders"): 14,
            ("acker_completions_unread", "orders"): 7,
            ("acker_dead_letters", "orders"): 8,
            ("acker_completions_total", "orders", "acked"): 3,
            ("acker_completions_total", "orders", "failed"): 2,
            ("acker_completions_total", "orders", "timed_out"): 1,
            ("acker_failures_total", "orders", "failed", "price"): 2,
            ("acker_failures_total", "orders", "timed_out", ""): 1,
            ("acker_early_roots_dropped_total", "orders"): 4,
            ("acker_unbalanced_total", "orders"): 5,
            ("acker_deliveries_total", "orders", "delivered"): 9,
            ("acker_callback_unread", "orders", "invoices"): 10,
            ("acker_callback_age_seconds", "orders", "invoices"): 2.5,
            ("acker_callback_on", "orders", "invoices"): 1,
            ("acker_oldest_pending_seconds", "orders"): 2.5,
            ("acker_oldest_unread_seconds", "orders"): 8,
            ("acker_oldest_unread_pull_seconds", "orders"): 0,
            ("acker_fullest_mailbox", "orders"): 12,
            ("acker_timeout_lateness_seconds_bucket", "orders", "0.001"): 1,
            ("acker_timeout_lateness_seconds_bucket", "orders", "0.004"): 1,
            ("acker_timeout_lateness_seconds_bucket", "orders", "0.016"): 3,
            ("acker_timeout_lateness_seconds_bucket", "orders", "+Inf"): 4,
            ("acker_timeout_lateness_seconds_sum", "orders"): 2,
            (f"{latency}_bucket", "orders", "acked", "0.001"): 1,
            (f"{latency}_bucket", "orders", "acked", "2097.152"): 1,
            (f"{latency}_bucket", "orders", "acked", "4194.304"): 2,
            (f"{latency}_bucket", "orders", "acked", "+Inf"): 3,
            (f"{latency}_sum", "orders", "acked"): 1.5,
        }.items()
    )


def test_a_topology_whose_ages_are_not_known_shows_none() -> None:
    totals = dict.fromkeys(("acked", "failed", "timed_out", "dropped", "unbalanced"), 0)
    topology = TopologyStats(pending=6, unread=0, dead_letters=0, totals=totals, deliveries={}, latencies={})
    store = StoreStats(used_bytes=1, max_bytes=0, is_full=False, worker_seen=True, topologies={"orders": topology})
    shown = samples(store)
    assert shown["acker_roots_pending", "orders"] == 6
    assert not [name for name, *_ in shown if name.startswith("acker_oldest")]
