"""Tests what the log says of a batch that takes long, on an acker in memory, where the test lets minutes pass."""

import logging
from collections.abc import Iterator

import httpx
import pytest
from acker_client.testing import MemoryAcker
from acker_client.testing.memory import URL
from acker_protocol.operations import Ack
from acker_spark import SparkAcker
from acker_spark._batch import sender
from acker_spark._batch.edges import BatchEdge, BatchId
from acker_spark._batch.progress import Progress, Stage
from acker_spark._batch.run import BatchRun

from tests.support.waiting import eventually_true
from tests.unit.spark.waits import Waits

EDGES = [BatchEdge(root_id=one, edge_id=one, message_id=str(one), ack_val=one) for one in range(1, 6)]
EMITTED = "{} of 5 roots are emitted, and its function is called when all are"
SHIPPED = "its function has ended, and {} of 5 acks and fails are sent"
RESET = "the message timeouts of its 5 roots are reset, and then its function is called"


class Minutes(httpx.BaseTransport):
    """Lets a minute pass before each request that writes, once the batch has come as far as is expected."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner
        self.run: BatchRun | None = None
        self.waits = Waits()
        self.expected: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Wait, let the minute pass, and pass the request on."""
        if request.method == "POST" and self.run is not None:
            expected, progress = self.expected.pop(0), self.run.progress
            eventually_true(lambda: progress.describe() == expected)
            self.waits.pass_one()
        return self._inner.handle_request(request)


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Minutes]:
    """A batch of five roots, sent by two operations in a request, one request at a time."""
    monkeypatch.setattr(sender, "REQUEST_SIZE", 2)
    monkeypatch.setattr(sender, "PARALLEL_REQUESTS", 1)
    memory = MemoryAcker("orders", dedupe_window=600, retention=600)
    found = Minutes(memory.transport())
    options = {"topology": "orders", "spout_task": "reader", "message_timeout": 600}
    with SparkAcker(url=URL, transport=found, clock=memory.clock, **options) as acker:
        found.run = BatchRun(acker=acker, batch=BatchId(query_id="q", batch_id=7))
        yield found


def run(minutes: Minutes, *, begins: bool = True) -> None:
    """Run the batch, with a function that works for a minute."""
    assert minutes.run is not None
    with minutes.run.logged(wait=minutes.waits):
        assert minutes.waits.begun() == minutes.waits.pass_one() == 60
        with minutes.run.keep_alive(EDGES, begins=begins) as emitted:
            minutes.waits.pass_one()
            acks = [Ack(root_id=one.root_id, ack_val=one.edge_id, edge_id=one.edge_id) for one in EDGES]
            minutes.run.ship(acks, emitted=emitted, forwarded=0)


def test_each_minute_the_log_says_how_far_a_batch_has_come_but_not_while_its_function_works(
    minutes: Minutes, caplog: pytest.LogCaptureFixture
) -> None:
    minutes.expected = [
        *(EMITTED.format(count) for count in (0, 1, 3)),
        *(SHIPPED.format(count) for count in (0, 2, 4)),
    ]
    said = [
        (60, Stage.READING.value),
        *((120 + 60 * at, EMITTED.format(count)) for at, count in enumerate((0, 1, 3))),
        *((360 + 60 * at, SHIPPED.format(count)) for at, count in enumerate((0, 2, 4))),
    ]
    run(minutes)
    assert caplog.messages == [f"batch 7 has run for {seconds} s: {words}" for seconds, words in said]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_it_says_that_the_timeouts_of_roots_which_were_emitted_elsewhere_are_reset(
    minutes: Minutes, caplog: pytest.LogCaptureFixture
) -> None:
    minutes.expected = [RESET] * 3 + [SHIPPED.format(count) for count in (0, 2, 4)]
    run(minutes, begins=False)
    assert sum(RESET in message for message in caplog.messages) == 3


def test_a_batch_of_less_than_a_minute_says_nothing(minutes: Minutes, caplog: pytest.LogCaptureFixture) -> None:
    assert minutes.run is not None
    with minutes.run.logged(wait=minutes.waits):
        assert minutes.waits.begun() == 60
    assert caplog.messages == []


def test_large_numbers_are_grouped() -> None:
    progress = Progress()
    progress.begin(Stage.SHIPPING, 1_000_000)
    progress.count(2_500)
    progress.count(2_500)
    assert progress.describe() == "its function has ended, and 5,000 of 1,000,000 acks and fails are sent"
