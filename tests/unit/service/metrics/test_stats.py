from acker_service.metrics.stats import EXPONENTS, LatencyHistogram, StoreStats, TopologyStats


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
    assert standing.backlogs == {}
