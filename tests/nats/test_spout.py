"""A consumer of JetStream as a spout: each row of the tables in docs/nats.md, on a real NATS."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from acker_client import Acker, UsageError
from acker_client.sources.nats import Message, NatsSpout, SkipMessage
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NotFoundError

from examples.support.processes import processes_in
from tests.nats.conftest import ACK_WAIT_S, LONG, Reader, Reading, Server, Stream, running_server
from tests.support.servers import AckerProcess
from tests.support.waiting import eventually_true, never

pytestmark = pytest.mark.timeout(1200)

MakeStream = Callable[..., Stream]


def body(message: Message) -> str:
    return message.data.decode()


def test_a_message_is_acked_when_its_tree_is_acked(reading: Reading, stream: Stream) -> None:
    stream.send("刘备", headers={"kind": "order"})
    with reading(stream) as reader:
        reader.wait_for(1)
        message = reader.sent[0][0]
        assert (body(message), message.subject, message.attempt, message.id) == ("刘备", stream.name, 1, "1")
        assert message.headers["kind"] == "order"
        assert stream.pending() == 1
        reader.ack(0)
        eventually_true(lambda: stream.left() == 0)
        reader.wait_done(1)
    assert [completion.message_id for completion, _ in reader.done] == ["1"]
    assert reader.error is None


def test_a_message_whose_tree_failed_comes_again_under_the_same_message_id(
    reading: Reading, make_stream: MakeStream
) -> None:
    stream = make_stream(ack_wait=600)
    stream.send("a")
    with reading(stream) as reader:
        reader.wait_for(1)
        reader.fail(0)
        reader.wait_for(2)
        assert [(message.id, message.attempt) for message, _ in reader.sent] == [("1", 1), ("1", 2)]
        reader.ack(1)
        eventually_true(lambda: stream.left() == 0)
        reader.wait_done(2)
    assert [completion.outcome for completion, _ in reader.done] == ["failed", "acked"]


def test_a_message_comes_again_only_after_the_delay(reading: Reading, make_stream: MakeStream) -> None:
    stream = make_stream(ack_wait=600)
    stream.send("a")
    with reading(stream, retry_delay=3.0) as reader:
        reader.wait_for(1)
        reader.fail(0)
        reader.wait_done(1)
        never(lambda: len(reader.sent) > 1, for_s=2)
        reader.wait_for(2)


def test_a_message_whose_tree_timed_out_comes_again(reading: Reading, stream: Stream, client: Acker) -> None:
    client.topologies.create(client.topology, message_timeout=2)
    stream.send("a")
    with reading(stream) as reader:
        reader.wait_for(2)
    assert reader.done[0][0].outcome == "timed_out"


@pytest.mark.parametrize("on_failed", ["drop", lambda *_: "drop"])
def test_a_message_whose_tree_failed_is_dropped_if_it_is_to_be(
    reading: Reading, stream: Stream, on_failed: Any
) -> None:
    stream.send("a")
    with reading(stream, on_failed=on_failed) as reader:
        reader.wait_for(1)
        reader.fail(0)
        eventually_true(lambda: stream.left() == 0)
    assert len(reader.sent) == 1


def test_a_message_that_always_fails_comes_as_often_as_the_consumer_allows(
    reading: Reading, make_stream: MakeStream
) -> None:
    stream = make_stream(max_deliver=2)
    stream.send("a")
    with reading(stream) as reader:
        for number in range(2):
            reader.wait_for(number + 1)
            reader.fail(number)
        reader.wait_done(2)
        never(lambda: len(reader.sent) > 2, for_s=ACK_WAIT_S)
    assert [message.attempt for message, _ in reader.sent] == [1, 2]


def test_a_message_is_skipped_and_terminated(reading: Reading, stream: Stream) -> None:
    stream.send("a")

    def refuse(_root: object, message: Message) -> None:
        raise SkipMessage(f"{body(message)} is no order")

    with reading(stream, send=refuse):
        eventually_true(lambda: stream.left() == 0)


def test_a_message_is_not_delivered_again_as_long_as_its_tree_is_open(reading: Reading, stream: Stream) -> None:
    stream.send("a")
    with reading(stream) as first, reading(stream) as second:
        eventually_true(lambda: first.sent or second.sent)
        never(lambda: len(first.sent) + len(second.sent) > 1, for_s=2.5 * ACK_WAIT_S)
        (first if first.sent else second).ack(0)
        eventually_true(lambda: stream.left() == 0)


@pytest.mark.parametrize("backoff", [[2, 3], [6, 2]])
def test_the_steps_of_a_backoff_are_what_is_kept_to(
    reading: Reading, make_stream: MakeStream, backoff: list[float]
) -> None:
    """The first step replaces the ack wait; a later one may be shorter."""
    stream = make_stream(ack_wait=60, backoff=backoff, max_deliver=10)
    assert stream.info().config.ack_wait == backoff[0]
    stream.send("a")
    with reading(stream) as reader:
        reader.wait_for(1)
        never(lambda: len(reader.sent) > 1, for_s=6)
        reader.fail(0)
        reader.wait_for(2)
        never(lambda: len(reader.sent) > 2, for_s=8)
        reader.ack(1)
        eventually_true(lambda: stream.left() == 0)


def test_a_later_step_of_a_backoff_is_added_to_the_delay_of_a_retry(reading: Reading, make_stream: MakeStream) -> None:
    stream = make_stream(backoff=[2, 7], max_deliver=10)
    stream.send("a")
    with reading(stream, retry_delay=0.5) as reader:
        reader.wait_for(1)
        reader.fail(0)
        reader.wait_for(2)
        reader.fail(1)
        reader.wait_done(2)
        never(lambda: len(reader.sent) > 2, for_s=4)
        reader.wait_for(3)


def test_an_ack_wait_that_is_changed_is_read_again(reading: Reading, make_stream: MakeStream) -> None:
    stream = make_stream(ack_wait=60)
    shorter = ConsumerConfig(durable_name="acker", ack_wait=8)
    with reading(stream) as reader:
        stream.send("a")
        reader.wait_for(1)
        stream.ask(lambda context: context.add_consumer(stream.name, shorter))
        never(lambda: len(reader.sent) > 1, for_s=20)
        assert stream.info().config.ack_wait == 8


def test_no_more_messages_are_pending_than_may_be(reading: Reading, stream: Stream) -> None:
    stream.send(*"abcdef")
    with reading(stream, max_pending=2) as reader:
        reader.wait_for(2)
        never(lambda: len(reader.sent) > 2, for_s=2)
        assert stream.pending() == 2
        reader.ack(0)
        reader.wait_for(3)
        never(lambda: len(reader.sent) > 3, for_s=2)


def test_what_may_be_pending_is_bounded_by_the_topology_too(reading: Reading, stream: Stream, client: Acker) -> None:
    client.topologies.create(client.topology, max_spout_pending=1)
    stream.send(*"abc")
    with reading(stream) as reader:
        reader.wait_for(1)
        never(lambda: len(reader.sent) > 1, for_s=2)


def test_at_the_end_pending_trees_are_waited_for(reading: Reading, stream: Stream) -> None:
    stream.send("a")
    with reading(stream, drain_timeout=30.0) as reader:
        reader.wait_for(1)
        reader.stop.set()
        time.sleep(2)  # what is fetched already is taken
        stream.send("b")
        never(lambda: len(reader.sent) > 1, for_s=2)
        reader.ack(0)
    assert (stream.pending(), stream.left(), len(reader.sent)) == (0, 1, 1)


def test_an_error_of_send_ends_the_spout_and_the_message_comes_again(reading: Reading, stream: Stream) -> None:
    stream.send("a")

    def fail(_root: object, _message: Message) -> None:
        raise ZeroDivisionError("no such thing")

    with reading(stream, send=fail) as first:
        eventually_true(lambda: first.error is not None)
    assert isinstance(first.error, ZeroDivisionError)
    with reading(stream) as second:
        second.wait_for(1)
        assert second.sent[0][0].attempt == 2


@contextmanager
def another_process(process: AckerProcess, topology: str, stream: Stream) -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, "-m", "tests.nats.member", process.url, topology, stream.url, stream.name]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as member:
        try:
            yield member
        finally:
            member.kill()


def lines(member: subprocess.Popen[str], number: int) -> list[str]:
    assert member.stdout is not None
    return sorted(member.stdout.readline().strip() for _ in range(number))


def test_a_spout_that_is_killed_leaves_its_messages_to_the_next_one(
    reading: Reading, stream: Stream, process: AckerProcess, topology: str
) -> None:
    stream.send(*"abc")
    with another_process(process, topology, stream) as killed:
        assert lines(killed, 3) == ["a", "b", "c"]
        killed.send_signal(signal.SIGKILL)
    with reading(stream) as reader:
        reader.wait_for(3)
        assert {(body(message), message.attempt) for message, _ in reader.sent} == {("a", 2), ("b", 2), ("c", 2)}
        for number in range(3):
            reader.ack(number)
        eventually_true(lambda: stream.left() == 0)


def test_a_worker_that_dies_before_its_ack_loses_nothing(
    reading: Reading, make_stream: MakeStream, client: Acker
) -> None:
    """A bolt behind a second stream: it is killed with its message, which is delivered again."""
    client.topologies.create(client.topology, message_timeout=60, dedupe_window=600)
    orders, charges = make_stream(), make_stream(ack_wait=2)
    orders.send("a")

    def send(root: Any, message: Message) -> None:
        message.publish(charges.name, message.data, root.anchor("charge"))

    program = f"""
import asyncio, nats
async def main():
    connection = await nats.connect({charges.url!r})
    pull = await connection.jetstream().pull_subscribe_bind("acker", {charges.name!r})
    await pull.fetch(1, timeout=60)
    print("read", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    with reading(orders, send=send) as reader:
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "read\n"
            worker.kill()

        async def work(context: JetStreamContext) -> None:
            pull = await context.pull_subscribe_bind("acker", charges.name)
            [message] = await pull.fetch(1, timeout=30)
            with reader.acker.receive(message.headers, component="charge"):
                assert (message.data, message.metadata.num_delivered) == (b"a", 2)
            await message.ack_sync()

        charges.ask(work)
        eventually_true(lambda: orders.left() == 0)
    assert reader.error is None


@contextmanager
def frozen(server: Server) -> Iterator[None]:
    os.kill(server.node.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.node.process.pid, signal.SIGCONT)


def test_a_server_that_is_frozen_is_asked_again(reading: Reading, make_stream: MakeStream, server: Server) -> None:
    """What was settled meanwhile is acked, and is not sent again, once it answers."""
    stream = make_stream(ack_wait=60)
    stream.send("a", "b")
    with reading(stream) as reader:
        reader.wait_for(2)
        with frozen(server):
            reader.ack(0)
            eventually_true(lambda: len(reader.done) == 1)
            time.sleep(6)  # longer than a request waits for an answer
        reader.ack(1)
        eventually_true(lambda: stream.left() == 0)
    assert (len(reader.sent), reader.error) == (2, None)


def test_a_server_that_is_frozen_does_not_hold_up_the_end(reading: Reading, stream: Stream, server: Server) -> None:
    stream.send("a")
    with frozen(server):
        pass
    with reading(stream) as reader:
        reader.wait_for(1)
        os.kill(server.node.process.pid, signal.SIGSTOP)
        reader.ack(0)
        eventually_true(lambda: len(reader.done) == 1)
    os.kill(server.node.process.pid, signal.SIGCONT)
    assert reader.error is None


def test_a_server_that_is_killed_loses_nothing(reading: Reading, make_stream: MakeStream, server: Server) -> None:
    stream = make_stream(ack_wait=60)
    stream.send("a", "b", "c")
    with reading(stream, max_pending=2) as reader:
        reader.wait_for(2)
        server.node.kill()
        reader.ack(0)
        reader.fail(1)
        reader.wait_done(2)
        server.start()
        reader.wait_for(4)
        assert sorted(body(message) for message, _ in reader.sent[2:]) == ["b", "c"]
        reader.ack(2, 3)
        eventually_true(lambda: stream.left() == 0)
    assert reader.error is None


def test_no_more_messages_are_pending_than_may_be_after_the_server_was_away(
    reading: Reading, make_stream: MakeStream, server: Server
) -> None:
    stream = make_stream(ack_wait=60)
    stream.send(*"abcdefghij")
    with reading(stream, max_pending=2) as reader:
        reader.wait_for(2)
        server.node.kill()
        reader.ack(0, 1)
        reader.wait_done(2)
        time.sleep(6)  # longer than several fetches
        server.start()
        reader.wait_for(4)
        never(lambda: len(reader.sent) > 4, for_s=2)
        assert stream.pending() == 2


def test_a_server_that_was_away_for_longer_than_the_ack_wait_delivers_again(
    reading: Reading, stream: Stream, server: Server
) -> None:
    """The first tree settles the message when it is acked; when it fails it settles nothing."""
    stream.send("a", "b")
    with reading(stream) as reader:
        reader.wait_for(2)
        server.node.kill()
        time.sleep(1.5 * ACK_WAIT_S)
        server.start()
        reader.wait_for(4)
        assert sorted(body(message) for message, _ in reader.sent[2:]) == ["a", "b"]
        again = next(number for number in (2, 3) if body(reader.sent[number][0]) == body(reader.sent[1][0]))
        reader.ack(0)
        reader.fail(1)
        eventually_true(lambda: stream.left() == 1)
        never(lambda: len(reader.sent) > 4, for_s=ACK_WAIT_S)
        reader.ack(again)
        eventually_true(lambda: stream.left() == 0)
    assert reader.error is None


def test_while_the_acker_is_away_messages_wait_and_are_no_delivery_more(
    reading: Reading, make_stream: MakeStream, process: AckerProcess, client: Acker
) -> None:
    stream = make_stream(max_deliver=1)
    with reading(stream) as reader:
        stream.send("first")
        reader.wait_for(1)  # else the spout could still be asking for the topology
        reader.ack(0)
        eventually_true(lambda: stream.left() == 0)
        os.kill(process.process.pid, signal.SIGSTOP)
        try:
            stream.send("a")
            time.sleep(6)  # longer than this client sends a root again, and than the ack wait
            assert stream.left() == 1
        finally:
            os.kill(process.process.pid, signal.SIGCONT)
        eventually_true(lambda: reader.error or acked(reader, stream), within=LONG)
    assert (reader.error, {message.attempt for message, _ in reader.sent}) == (None, {1})


def acked(reader: Reader, stream: Stream) -> bool:
    """Ack all that was sent, since a message may have been emitted several times."""
    for number in range(len(reader.sent)):
        reader.ack(number)
    return stream.left() == 0


def test_a_child_is_published_until_a_stream_confirms_it(
    reading: Reading, stream: Stream, server: Server, client: Acker
) -> None:
    """Here there is no stream for its subject at first."""
    charges = Stream(url=stream.url)
    stream.send("a")

    def send(root: Any, message: Message) -> None:
        message.publish(
            charges.name, b"child", root.anchor("charge"), headers={"kind": "charge", "acker-anchors": "another"}
        )

    with reading(stream, send=send) as reader:
        eventually_true(lambda: stream.pending() == 1)
        time.sleep(2)
        charges.create()

        async def fetch(context: JetStreamContext) -> Any:
            pull = await context.pull_subscribe_bind("acker", charges.name)
            [message] = await pull.fetch(1, timeout=30)
            return message

        found = charges.ask(fetch)
        assert (found.data, found.headers["kind"], "acker-anchors" in found.headers) == (b"child", "charge", False)
        with reader.acker.receive(found.headers, component="charge") as tup:
            assert tup.tracked
        eventually_true(lambda: stream.left() == 0)


MAX_PAYLOAD = 1_048_576
"""That of a server which is not told another one."""

IMPOSSIBLE: list[tuple[type[Exception], dict[str, Any]]] = [
    (nats.errors.MaxPayloadError, {"data": bytes(MAX_PAYLOAD + 1)}),
    (nats.errors.MaxPayloadError, {"data": bytes(MAX_PAYLOAD - 20)}),  # with the anchors' header it is too large
    (nats.errors.MaxPayloadError, {"headers": {"name": "关" * (MAX_PAYLOAD // 3)}}),
    (nats.errors.BadSubjectError, {"subject": ""}),
    (nats.errors.BadSubjectError, {"subject": "charges new"}),
    (nats.errors.BadSubjectError, {"subject": "charges." + "a" * 4_000}),
    (nats.errors.BadHeaderError, {"headers": {"关羽": "1"}}),
    (UnicodeEncodeError, {"subject": "charges.\udcff"}),
    (UnicodeEncodeError, {"headers": {"name": "\udcff"}}),
    (UsageError, {"data": "text"}),
    (UsageError, {"headers": {"number": 1}}),
]


@pytest.mark.parametrize(("error", "child"), IMPOSSIBLE)
def test_a_child_that_no_stream_could_take_can_be_skipped_by_send(
    reading: Reading, stream: Stream, error: type[Exception], child: dict[str, Any]
) -> None:
    stream.send("a", "b")
    found: list[Exception] = []

    def send(root: Any, message: Message) -> None:
        if body(message) == "b":
            reader.send(root, message)
            return
        wanted = {"subject": "charges", "data": b"", "headers": {}} | child
        try:
            message.publish(wanted["subject"], wanted["data"], root.anchor("charge"), headers=wanted["headers"])
        except error as raised:
            found.append(raised)
            raise SkipMessage("no stream could take its child") from None

    with reading(stream, send=send) as reader:
        reader.wait_for(1)
        reader.ack(0)
        eventually_true(lambda: reader.error or stream.left() == 0)
    assert (reader.error, [type(each) for each in found], [body(each) for each, _ in reader.sent]) == (
        None,
        [error],
        ["b"],
    )


def test_the_largest_child_that_a_server_takes_is_published(reading: Reading, stream: Stream) -> None:
    charges = Stream(url=stream.url)
    charges.create()
    stream.send("a")

    def send(root: Any, message: Message) -> None:
        anchors = root.anchor("charge")
        own = sum(len(f"{name}: {value}\r\n") for name, value in anchors.headers().items())
        left = MAX_PAYLOAD - len("NATS/1.0\r\n") - own - len("\r\n")
        with pytest.raises(nats.errors.MaxPayloadError):
            message.publish(charges.name, bytes(left + 1), anchors)
        message.publish(charges.name, bytes(left), anchors)

    with reading(stream, send=send) as reader:
        eventually_true(lambda: reader.error or charges.left() == 1)
    assert reader.error is None


@pytest.mark.parametrize("lacks", ["stream", "consumer"])
@pytest.mark.parametrize("when", ["before", "while it is read"])
def test_a_stream_or_a_consumer_that_does_not_exist_ends_the_spout(
    reading: Reading, stream: Stream, lacks: str, when: str
) -> None:
    def delete() -> None:
        if lacks == "stream":
            stream.ask(lambda context: context.delete_stream(stream.name))
        else:
            stream.ask(lambda context: context.delete_consumer(stream.name, "acker"))

    if when == "before":
        delete()
    else:
        stream.send("a")
    with reading(stream) as reader:
        if when != "before":
            reader.wait_for(1)
            delete()
        eventually_true(lambda: reader.error is not None)
    assert isinstance(reader.error, NotFoundError)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"ack_policy": AckPolicy.ALL}, "ack policy explicit; it has the policy all"),
        ({"ack_policy": AckPolicy.NONE, "ack_wait": None}, "ack policy explicit; it has the policy none"),
        ({"deliver_subject": "orders"}, "pull consumer .* it has a deliver_subject"),
        ({"ack_wait": 0.5}, "delivers a message again after 0.5 s, .* at least 1 s"),
        ({"backoff": [2, 0.5], "max_deliver": 3}, "delivers a message again after 0.5 s, .* at least 1 s"),
    ],
)
def test_a_consumer_that_cannot_be_read_so_is_refused(
    reading: Reading, make_stream: MakeStream, options: dict[str, Any], match: str
) -> None:
    with reading(make_stream(**options)) as reader:
        eventually_true(lambda: reader.error is not None)
    with pytest.raises(UsageError, match=match):
        raise reader.error or AssertionError


ACCOUNTS = """
authorization {
  users = [
    { user: all, password: secret }
    { user: reader, password: secret, permissions: {
      publish: ["$JS.API.CONSUMER.INFO.orders.acker", "$JS.API.CONSUMER.MSG.NEXT.orders.acker",
                "$JS.ACK.orders.acker.>"],
      subscribe: ["_INBOX.>"] } }
    { user: blind, password: secret, permissions: { publish: ["$JS.API.CONSUMER.INFO.>"], subscribe: ["_INBOX.>"] } }
  ]
}
"""


def test_a_login_needs_the_rights_that_the_page_names(reading: Reading, program: Path, tmp_path: Path) -> None:
    accounts = tmp_path / "accounts.conf"
    accounts.write_text(ACCOUNTS)
    with running_server(program, tmp_path / "server", "--config", str(accounts)) as server:
        stream = Stream(url=server.url.replace("://", "://all:secret@"), name="orders")
        stream.create()
        stream.send("a")
        with reading(stream, url=server.url.replace("://", "://reader:secret@")) as reader:
            reader.wait_for(1)
            reader.fail(0)
            reader.wait_for(2)
            reader.ack(1)
            eventually_true(lambda: stream.left() == 0)
        assert reader.error is None
        with reading(stream, url=server.url.replace("://", "://blind:secret@")) as blind:
            eventually_true(lambda: blind.error is not None)
        assert "permissions violation" in str(blind.error).lower()
        with reading(stream, url=server.url, connect={"user": "all", "password": "wrong"}) as unknown:
            eventually_true(lambda: unknown.error is not None)
        assert "authorization" in str(unknown.error).lower()


@pytest.mark.parametrize(
    "options", [{"max_pending": 0}, {"retry_delay": -1}, {"retry_delay": float("nan")}, {"retry_delay": float("inf")}]
)
def test_settings_that_cannot_be_are_refused(client: Acker, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="max_pending must be at least 1, and retry_delay not negative"):
        NatsSpout(client, spout="orders", url="", stream="a", consumer="b", send=lambda *_: None, **options)


def test_a_server_that_is_not_there_is_asked_again_and_the_spout_ends(
    reading: Reading, program: Path, tmp_path: Path
) -> None:
    with running_server(program, tmp_path) as server:
        stream = Stream(url=server.url)
        stream.create()
        stream.send("a")
        server.node.kill()
        with reading(stream) as early:
            time.sleep(2)
        assert early.error is None
        with reading(stream) as reader:
            time.sleep(2)
            server.start()
            reader.wait_for(1)


def test_a_server_without_jetstream_is_asked_again(
    reading: Reading, program: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with processes_in(tmp_path) as processes:
        server = Server(program=program, folder=tmp_path, processes=processes, options=())
        server.start()
        with reading(Stream(url=server.url)) as reader:
            eventually_true(lambda: "was it started with --jetstream?" in caplog.text)
    assert reader.error is None


def test_a_message_without_a_message_id_ends_the_spout(reading: Reading, stream: Stream) -> None:
    stream.send("a")
    with reading(stream, message_id=lambda _: None) as reader:
        eventually_true(lambda: reader.error is not None)
    assert isinstance(reader.error, UsageError)
    assert "message_id must give a text, not None" in str(reader.error)


def test_a_spout_runs_once(reading: Reading, stream: Stream) -> None:
    with reading(stream) as reader:
        pass
    with pytest.raises(UsageError, match="runs once: make another NatsSpout"):
        reader.spout.run(stop=lambda: True)


def test_a_bolt_that_subscribes_finds_the_anchors(reading: Reading, stream: Stream) -> None:
    stream.send("a")

    async def receive(reader: Reader) -> None:
        connection = await nats.connect(stream.url)
        subscription = await connection.subscribe("charges")
        await connection.flush()
        anchors = reader.sent[0][1]
        await connection.publish("charges", b"a", headers=anchors)
        message = await subscription.next_msg(timeout=30)
        with reader.acker.receive(message.headers, component="charge"):
            assert message.data == b"a"
        await connection.close()

    with reading(stream) as reader:
        reader.wait_for(1)
        asyncio.run(receive(reader))
        eventually_true(lambda: stream.left() == 0)
