import struct

import pytest
from acker_protocol.errors import InvalidRequest
from acker_service.redis.codec import Layout
from acker_service.redis.functions import pack_settings
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.topology import CursorCodec, Topology

INCARNATION, OTHER = "00000000000000a1", "00000000000000a2"
CODEC = CursorCodec(1, struct.Struct(">BQ"))
ROWS = [(0, 7), (3, 2**64 - 1)]


@pytest.mark.parametrize("rows", [[], ROWS])
def test_what_is_encoded_is_decoded(rows: list[tuple[int, ...]]) -> None:
    assert CODEC.decode(CODEC.encode(INCARNATION, rows), INCARNATION) == rows


def test_a_cursor_of_another_incarnation_or_format_has_no_rows() -> None:
    cursor = CODEC.encode(INCARNATION, ROWS)
    assert CODEC.decode(cursor, OTHER) is None
    assert CursorCodec(2, CODEC.row).decode(cursor, INCARNATION) is None


@pytest.mark.parametrize("text", ["", "A", "!", "é", CODEC.encode(INCARNATION, ROWS)[:-4]])
def test_any_other_text_is_invalid(text: str) -> None:
    with pytest.raises(InvalidRequest):
        CODEC.decode(text, INCARNATION)


def topology(**config: int) -> Topology:
    stamp = Stamp(f"{INCARNATION}0000000001")
    return Topology(name="orders", stamp=stamp, config=TopologyConfig(**config), window_ms=60_000)


def test_the_life_of_a_topology_is_that_of_its_stamp() -> None:
    assert topology().incarnation == INCARNATION


def test_a_topology_has_a_shard_an_acker_and_at_least_one() -> None:
    assert topology(ackers=2).shards == ["acker:{orders/0}", "acker:{orders/1}"]
    assert topology(ackers=0).shards == ["acker:{orders/0}"]
    assert topology(ackers=2, buckets=8).layout == Layout(shards=2, buckets=8)


def test_a_shard_spreads_the_requests_that_it_remembers_over_sixteen_sets_or_more() -> None:
    assert (topology(buckets=8).seen_sets, topology(buckets=4_096).seen_sets) == (16, 1_024)


def test_the_settings_are_the_rules_and_the_window() -> None:
    some = topology(ackers=2, retention_ms=1_000)
    assert some.settings == pack_settings(some.config.rules, 60_000)
