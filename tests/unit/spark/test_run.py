"""Tests the run of a batch, on an acker in memory."""

import logging
import threading
from collections.abc import Iterator

import httpx
import pytest
from acker_client.testing import MemoryAcker
from acker_client.testing.memory import URL
from acker_protocol.operations import Ack, ResetTimeout
from acker_spark import QueryIdRequired, SparkAcker
from acker_spark._batch.edges import BatchEdge, BatchId
from acker_spark._batch.run import BatchReport, BatchRun, check_query_id

PATIENCE_S = 60
BATCH = BatchId(query_id="q", batch_id=0)


def taken() -> list[BatchEdge]:
    """What the batch takes on itself: three roots."""
    return [BatchEdge(root_id=one, edge_id=one, message_id=str(one), ack_val=one) for one in (1, 2, 3)]


class Slow(httpx.BaseTransport):
    """Lets an operation through when a heartbeat has gone before it, and one request at a time."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner
        self._one = threading.Lock()
        self.beaten = threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Wait, and pass it on."""
        if threading.current_thread().name == "acker-heartbeat":
            self.beaten.set()
        elif request.method == "POST":
            assert self.beaten.wait(PATIENCE_S), "no heartbeat while the roots were begun"
        with self._one:
            return self._inner.handle_request(request)


@pytest.fixture
def memory() -> MemoryAcker:
    return MemoryAcker("orders", dedupe_window=60, retention=60)


@pytest.fixture
def acker(memory: MemoryAcker) -> Iterator[SparkAcker]:
    options = {"topology": "orders", "spout_task": "reader", "message_timeout": 0.3}
    with SparkAcker(url=URL, transport=Slow(memory.transport()), **options) as acker:
        yield acker


@pytest.mark.timeout(3 * PATIENCE_S)
def test_roots_are_kept_from_timing_out_while_the_others_are_begun(memory: MemoryAcker, acker: SparkAcker) -> None:
    with BatchRun(acker=acker, batch=BATCH).keep_alive(taken(), begins=True) as emitted:
        assert emitted == 3


class Standing:
    """An acker whose time stands still: no beat comes but at once."""

    def __init__(self, memory: MemoryAcker) -> None:
        self.shipped: list[BatchReport] = []
        self.memory = memory
        options = {"topology": "orders", "spout_task": "reader", "message_timeout": 60}
        self.acker = SparkAcker(
            url=URL, transport=memory.transport(), clock=memory.clock, on_batch=self.shipped.append, **options
        )
        self.batch_run = BatchRun(acker=self.acker, batch=BATCH)

    def run(self, *, here: bool, lasting: float) -> None:
        """Run the batch, with a function that takes so long."""
        with self.batch_run.keep_alive(taken(), begins=here) as emitted:
            self.memory.clock.advance(lasting)
            deltas = [Ack(root_id=one.root_id, ack_val=one.edge_id, edge_id=one.edge_id) for one in taken()]
            self.batch_run.ship(deltas, emitted=emitted, forwarded=0)

    def resets(self) -> int:
        """How many timeouts were reset."""
        return sum(isinstance(message, ResetTimeout) for message in self.memory.applied)


@pytest.fixture
def standing(memory: MemoryAcker) -> Iterator[Standing]:
    found = Standing(memory)
    with found.acker:
        yield found


@pytest.mark.parametrize("here", [True, False], ids=["run again", "received"])
def test_roots_that_were_begun_before_do_not_time_out_before_the_first_heartbeat(
    standing: Standing, memory: MemoryAcker, *, here: bool
) -> None:
    with pytest.raises(OSError, match="cut off"), standing.batch_run.keep_alive(taken(), begins=True):
        raise OSError("cut off")
    memory.clock.advance(50)
    standing.run(here=here, lasting=15)
    [shipped] = standing.shipped
    assert (shipped.emitted, shipped.acked, shipped.late) == (0, 3, 0)
    assert standing.resets() == 3


def test_new_roots_cost_no_heartbeat(standing: Standing) -> None:
    standing.run(here=True, lasting=0)
    assert standing.shipped[0].emitted == 3
    assert standing.resets() == 0


def test_a_first_heartbeat_that_fails_is_reported_and_the_batch_runs(
    standing: Standing, memory: MemoryAcker, caplog: pytest.LogCaptureFixture
) -> None:
    memory.faults.extend([None, *[httpx.ConnectError("no route")] * 1_000])  # the topology is asked for first
    with caplog.at_level(logging.ERROR), standing.batch_run.keep_alive(taken(), begins=False) as emitted:
        assert emitted == 0
    assert "could not be reset" in caplog.text


def test_a_frame_of_spark_connect_needs_a_query_id_before_its_query_starts(acker: SparkAcker) -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(QueryIdRequired, match="query_id="):
        acker.root(frame, "id")
    with pytest.raises(QueryIdRequired, match="query_id="):
        acker.received(frame)
    check_query_id(frame, "counts-1")
