from acker_service.domain.standing import EXPONENTS, Latencies, Standing, TopologyStanding


def test_latencies_are_told_apart_from_a_millisecond_to_more_than_an_hour() -> None:
    assert [2 ** EXPONENTS[0], 2 ** EXPONENTS[-1]] == [1, 4_194_304]


def test_a_store_stands_without_topologies_until_one_is_made() -> None:
    assert Standing(used_bytes=1, most_bytes=0, is_full=False, is_ticked=True).topologies == {}


def test_how_things_stand_is_a_value() -> None:
    latencies = Latencies(counts={3: 2}, sum_ms=15)
    counts = {"pending": 1, "unread": 2, "dead_letters": 3}
    told = {"totals": {"acked": 2}, "deliveries": {"delivered": 5}}
    standing = TopologyStanding(**counts, **told, latencies={"acked": latencies})  # type: ignore[arg-type]
    assert standing == TopologyStanding(**counts, **told, latencies={"acked": Latencies(counts={3: 2}, sum_ms=15)})  # type: ignore[arg-type]
    assert standing.backlogs == {}
