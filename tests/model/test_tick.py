"""One tick ends all that is overdue, however it is spread."""

from collections.abc import Iterator

import pytest
from acker_protocol.messages import Init
from acker_service.domain.limits import Configuration

from tests.support.driven_store import DrivenStore

ROOTS = 1_500


@pytest.fixture(params=[1, 16, 4_096], ids=lambda buckets: f"{buckets} buckets")
def spread(driven_url: str, request: pytest.FixtureRequest) -> Iterator[DrivenStore]:
    """A store whose roots lie in one overfull bucket, in a few, or each in its own."""
    store = DrivenStore(driven_url, Configuration(ackers=1, buckets=request.param), window_ms=60_000)
    yield store
    store.close()


def test_one_tick_ends_all_that_is_overdue(spread: DrivenStore) -> None:
    inits = [
        Init(root_id=root, spout_task="s", ack_val=1, outstanding=1, message_timeout_ms=100 if root % 2 else 5_000)
        for root in range(1, ROOTS + 1)
    ]
    spread.apply(inits, None)
    spread.advance(101)
    spread.tick()
    assert {done.root_id % 2 for done in spread.mailbox()} == {1}
    assert spread.counts()[2]["timed_out"] == ROOTS // 2
    spread.advance(5_000)
    spread.tick()
    assert spread.counts()[2]["timed_out"] == ROOTS
