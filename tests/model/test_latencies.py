"""In which bucket a complete latency is counted, to the millisecond."""

import pytest
from acker_protocol.operations import Ack, Init
from acker_service.metrics.store_collector import EXPONENTS
from acker_service.topologies.config import TopologyConfig

from tests.support.driven_store import DrivenStore

DAY_MS = 86_400_000
MOST = 2 ** EXPONENTS[-1]
BESIDE = {0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 1_024: 10, 1_025: 11, MOST: 22, MOST + 1: 23, 5 * MOST: 23, -7: 0}


@pytest.mark.parametrize(("latency", "exponent"), BESIDE.items())
def test_a_latency_is_counted_at_the_least_power_of_two_that_holds_it(
    driven_url: str, latency: int, exponent: int
) -> None:
    driven = DrivenStore(driven_url, TopologyConfig(ackers=1, message_timeout_ms=DAY_MS), window_ms=600_000)
    driven.apply([Init(root_id=1, ack_val=1, outstanding=1, spout_task="s")], None)
    driven.advance(latency)
    driven.apply([Ack(root_id=1, ack_val=1, outstanding=-1)], None)
    acked = driven.latencies()["acked"]
    assert (dict(acked.counts), acked.sum_ms) == ({exponent: 1}, max(latency, 0))
    driven.close()
