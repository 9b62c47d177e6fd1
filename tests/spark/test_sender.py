"""Large batches go out in several requests, beside each other."""

import threading

import httpx
import pytest
from acker_client.testing import MemoryAcker
from acker_protocol.operations import Ack, Fail, Init, Operation, OperationState
from acker_spark._batch import sender
from acker_spark._batch.sender import OperationSender
from acker_spark.errors import PendingLimit
from acker_spark.options import SparkAckerOptions

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
    monkeypatch.setattr(sender, "REQUEST_SIZE", 2)
    inits = [Init(root_id=at, spout_task="reader", ack_val=at, message_id=str(at)) for at in range(1, 9)]
    found = tracked.acker(transport=Together(2)).sender
    found.topology()
    assert [(one.operation, one.state) for one in found.send(inits)] == [
        (init, OperationState.PENDING) for init in inits
    ]
    assert tracked.pending() == {str(at) for at in range(1, 9)}


@pytest.mark.parametrize("message", [Ack(root_id=1, ack_val=1, edge_id=1), Fail(root_id=1)], ids=["ack", "fail"])
def test_an_ack_or_a_fail_that_a_full_store_refuses_waits_for_space_and_then_ends_the_batch(message: Operation) -> None:
    memory = MemoryAcker()
    options = SparkAckerOptions(url="http://acker.test", topology="default", spout_task="s")
    found = OperationSender(
        options, retry_timeout=30, startup_timeout=None, transport=memory.transport(), clock=memory.clock
    )
    init = Init(root_id=2, spout_task="s", ack_val=2)
    memory.store.is_full = True
    for messages in ([message], [message, message]):
        began = memory.clock.monotonic()
        with pytest.raises(PendingLimit, match="root 0000000000000001 was refused"):
            found.send(messages)
        assert 20 < memory.clock.monotonic() - began <= 40
    memory.store.is_full = False
    assert [one.state for one in found.send([init, message])] == [OperationState.PENDING, OperationState.EARLY]
    found.close()
