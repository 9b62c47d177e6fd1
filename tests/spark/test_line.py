"""Large batches go out in several requests, beside each other."""

import threading

import httpx
import pytest
from acker_protocol.operations import Init, OperationState
from acker_spark import line
from acker_spark.line import World

from tests.spark.tracked import Tracked

PATIENCE_S = 120


class Together(httpx.BaseTransport):
    """Sends what writes only when so many requests want to."""

    def __init__(self, count: int) -> None:
        self._meeting = threading.Barrier(count, timeout=PATIENCE_S)
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self._meeting.wait()
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


def test_requests_of_a_large_batch_are_on_their_way_together_and_answered_in_order(
    tracked: Tracked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "PART", 2)
    inits = [Init(root_id=at, spout_task="reader", ack_val=at, message_id=str(at)) for at in range(1, 9)]
    found = tracked.acker(world=World(transport=Together(2))).line
    found.topology()
    assert [(one.message, one.word) for one in found.send(inits)] == [(init, OperationState.PENDING) for init in inits]
    assert tracked.pending() == {str(at) for at in range(1, 9)}
