"""Listing roots by their age, on a clock that the test drives."""

from acker_protocol.operations import Ack, Init
from acker_service.topologies.config import TopologyConfig

from tests.support.driven_store import DrivenStore

E = 0xE1


def test_a_list_can_be_of_those_that_are_old_enough(driven_url: str) -> None:
    driven = DrivenStore(driven_url, TopologyConfig(ackers=2, buckets=4), window_ms=600_000)
    for number in (1, 2, 3):
        driven.apply([Init(root_id=number, spout_task="s", ack_val=E), Ack(root_id=100 + number, ack_val=E)], None)
        driven.advance(1_000)
    assert [driven.roots(older_than_ms=ms) for ms in (0, 1_000, 1_001, 3_000, 3_001)] == [
        [1, 2, 3],
        [1, 2, 3],
        [1, 2],
        [1],
        [],
    ]
    driven.close()
