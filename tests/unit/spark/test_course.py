"""Tests the course of a batch, on an acker in memory."""

import threading
from collections.abc import Iterator

import httpx
import pytest
from acker_client.testing import MemoryAcker
from acker_client.testing.memory_acker import URL
from acker_protocol.states import Rules
from acker_spark import Acker, NoQueryId
from acker_spark.course import Course, refuse_nameless
from acker_spark.deliveries import Claim, Delivery
from acker_spark.line import World

PATIENCE_S = 60


class Slow(httpx.BaseTransport):
    """Lets an operation through when a heartbeat has gone before it, and one request at a time."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner, self._one = inner, threading.Lock()
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
    return MemoryAcker("orders", rules=Rules(dedupe_window_ms=60_000, retention_ms=60_000))


@pytest.fixture
def acker(memory: MemoryAcker) -> Iterator[Acker]:
    world = World(transport=Slow(memory.transport()))
    options = {"topology": "orders", "spout_task": "reader", "message_timeout": 0.3}
    with Acker(url=URL, world=world, **options) as acker:
        yield acker


@pytest.mark.timeout(3 * PATIENCE_S)
def test_roots_are_kept_from_timing_out_while_the_others_are_begun(memory: MemoryAcker, acker: Acker) -> None:
    course = Course(acker=acker, claim=Claim(query_id="q", batch_id=0))
    taken = [Delivery(root_id=one, edge_id=one, message_id=str(one), ack_val=one) for one in (1, 2, 3)]
    with course.attended(taken, here=True) as begun:
        assert begun == 3


def test_a_frame_of_spark_connect_needs_a_query_id_before_its_query_starts(acker: Acker) -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(NoQueryId, match="query_id="):
        acker.root(frame, "id")
    with pytest.raises(NoQueryId, match="query_id="):
        acker.received(frame)
    refuse_nameless(frame, "counts-1")
