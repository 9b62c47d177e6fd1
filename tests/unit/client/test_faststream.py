"""Tests which messages FastStream's brokers deliver again, where no broker of this kind is run by the other tests."""

from types import SimpleNamespace

import pytest
from acker_client.integrations.faststream import AckerMiddleware
from acker_client.testing import MemoryAcker
from faststream import AckPolicy
from faststream.message import StreamMessage

HEADERS = {"Acker-Anchors": "00 default 00000000000000aa-00000000000000bb"}


class Acknowledged(StreamMessage):
    """A message of a broker that knows acks, such as MQTT's."""

    async def ack(self) -> None:
        await super().ack()


@pytest.mark.anyio
@pytest.mark.parametrize(("qos", "writes"), [(0, ["fail"]), (1, []), (2, [])])
async def test_an_exception_fails_the_root_of_a_message_that_mqtt_delivers_at_most_once(qos, writes):
    memory = MemoryAcker(dedupe_window=600)
    subscriber = SimpleNamespace(ack_policy=AckPolicy.NACK_ON_ERROR, specification=SimpleNamespace(call_name="Measure"))
    context = SimpleNamespace(get_local=lambda _: subscriber)

    async def raise_error(_message):
        raise ValueError("not yet")

    async with memory.async_acker() as acker:
        message = Acknowledged(SimpleNamespace(qos=qos), b"21.5", headers=HEADERS)
        middleware = AckerMiddleware(acker)(message, context=context)
        with pytest.raises(ValueError, match="not yet") as raised:
            await middleware.consume_scope(raise_error, message)
        await middleware.after_processed(ValueError, raised.value, None)
        assert [request.url.path.rpartition("/")[2] for request in memory.writes()] == writes
