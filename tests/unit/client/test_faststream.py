"""Tests which messages FastStream's brokers deliver again, where no broker of this kind is run by the other tests."""

from types import SimpleNamespace

import httpx
import pytest
from acker_client import propagate
from acker_client.integrations.faststream import AckerMiddleware
from acker_client.testing import Clock, MemoryAcker
from acker_client.tuple import AsyncTuple
from acker_protocol.operations import Ack, Fail
from faststream import AckPolicy
from faststream.exceptions import AckMessage, NackMessage
from faststream.message import AckStatus, StreamMessage

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


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("roots", "ended", "runs"),
    [(1, 1, False), (1, 0, True), (3, 3, False), (3, 2, True), (0, 0, True)],
)
async def test_a_message_is_skipped_once_the_roots_of_all_that_it_holds_have_ended(
    roots: int, ended: int, *, runs: bool
) -> None:
    memory = MemoryAcker(dedupe_window=600)
    subscriber = SimpleNamespace(ack_policy=AckPolicy.MANUAL, specification=SimpleNamespace(call_name="Measure"))
    context = SimpleNamespace(get_local=lambda _: subscriber)
    processed = []

    async def process(message):
        processed.append(message)

    headers = []
    with memory.acker(linger=0) as elsewhere:
        for number in range(roots):
            with elsewhere.spout("orders").emit(str(number)) as root:
                headers.append(root.headers("0"))
                other = root.headers("1")
            if number < ended:
                elsewhere.receive(other, component="other").fail("no such page")
    async with memory.async_acker(linger=0) as acker:
        message = Acknowledged(SimpleNamespace(qos=1), b"21.5", headers={}, batch_headers=headers)
        middleware = AckerMiddleware(acker, skip_ended=True)(message, context=context)
        writes = len(memory.writes())
        if runs:
            await middleware.consume_scope(process, message)
        else:
            with pytest.raises(AckMessage) as raised:
                await middleware.consume_scope(process, message)
            await middleware.after_processed(AckMessage, raised.value, None)
            assert message.committed is AckStatus.ACKED
        assert (bool(processed), acker.stats().skipped) == (runs, 0 if runs else roots)
        assert len(memory.writes()) == writes
    propagate.leave(None)


@pytest.mark.anyio
async def test_a_message_that_is_skipped_is_asked_about_once(monkeypatch):
    """The answer counts no more when it is looked at, and another question would fail."""
    time = Clock()
    memory = MemoryAcker(dedupe_window=600, clock=time)
    subscriber = SimpleNamespace(ack_policy=AckPolicy.MANUAL, specification=SimpleNamespace(call_name="Measure"))
    context = SimpleNamespace(get_local=lambda _: subscriber)
    ask = AsyncTuple.is_wanted

    async def ask_slowly(tup):
        answer = await ask(tup)
        time.advance(1.1)
        memory.faults.append(httpx.ConnectError("refused"))
        return answer

    monkeypatch.setattr(AsyncTuple, "is_wanted", ask_slowly)
    with memory.acker(linger=0) as elsewhere:
        with elsewhere.spout("orders").emit("42") as root:
            headers = root.headers("0")
            other = root.headers("1")
        elsewhere.receive(other, component="other").fail("no such page")
    async with memory.async_acker(linger=0) as acker:
        message = Acknowledged(SimpleNamespace(qos=1), b"21.5", headers=headers)
        middleware = AckerMiddleware(acker, skip_ended=True)(message, context=context)
        writes = len(memory.writes())
        with pytest.raises(AckMessage) as raised:
            await middleware.consume_scope(None, message)
        memory.faults.clear()
        await middleware.after_processed(AckMessage, raised.value, None)
        assert (acker.stats().skipped, len(memory.writes())) == (1, writes)
    propagate.leave(None)


async def message_of_a_root(acker, *, policy=AckPolicy.REJECT_ON_ERROR, flush_before_ack=True):
    """Emit a root, and return the message of its one child within the middleware, with a function that ends it."""
    async with acker.spout("orders").emit("42") as root:
        headers = root.headers("0")
    subscriber = SimpleNamespace(ack_policy=policy, specification=SimpleNamespace(call_name="Measure"))
    context = SimpleNamespace(get_local=lambda _: subscriber)
    message = Acknowledged(SimpleNamespace(qos=1), b"21.5", headers=headers)
    middleware = AckerMiddleware(acker, flush_before_ack=flush_before_ack)(message, context=context)

    async def process(_message):
        return None

    await middleware.consume_scope(process, message)
    return middleware.after_processed


@pytest.mark.anyio
@pytest.mark.parametrize("error", [None, ValueError("no such order")])
@pytest.mark.parametrize("flush_before_ack", [True, False])
async def test_what_was_lost_of_other_messages_does_not_keep_a_message_from_being_ended(
    error, caplog, *, flush_before_ack
):
    """FastStream would reject a message that was processed, and its root would time out."""
    memory = MemoryAcker(dedupe_window=600)
    async with memory.async_acker(linger=86_400, retry_timeout=0.0) as acker:
        end = await message_of_a_root(acker, flush_before_ack=flush_before_ack)
        await acker.receive({"Acker-Anchors": f"00 default {1:016x}-{1:016x}"}, component="other").ack()
        memory.faults.append(httpx.ReadTimeout("lost"))
        await acker._driver.run(acker._submitter.flusher.send_due())
        await end(type(error), error, None)
        await acker.flush()
        assert isinstance(memory.applied[-1], Ack if error is None else Fail)
        assert memory.completions(acker.spout("orders").name) == ["42"]
    assert "acks were lost: their roots time out" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("linger", [0, 0.001])
async def test_a_message_whose_ack_is_not_delivered_is_given_back(linger):
    memory = MemoryAcker(dedupe_window=600)
    async with memory.async_acker(linger=linger, retry_timeout=0.0) as acker:
        end = await message_of_a_root(acker)
        memory.faults += [httpx.ReadTimeout("lost")] * 9
        with pytest.raises(NackMessage):
            await end(None, None, None)
        memory.faults.clear()
