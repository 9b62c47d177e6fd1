"""A queue of SQS as a spout: each row of the tables in docs/sqs.md, on a real server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from acker_client import Acker, UsageError
from acker_client.sources.sqs import Message, SkipMessage, SqsSpout, headers_of, message_attributes
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.sqs.conftest import LONG, VISIBLE_S, Queue, Reader, Reading, Server, make_client
from tests.support.servers import AckerProcess
from tests.support.waiting import eventually_true, never

pytestmark = pytest.mark.timeout(300)


def test_a_message_is_deleted_when_its_tree_is_acked(reading: Reading, queue: Queue) -> None:
    queue.send("刘备", MessageAttributes={"kind": {"DataType": "String", "StringValue": "order"}})
    with reading(queue) as reader:
        reader.wait_for(1)
        message = reader.sent[0][0]
        assert (message.body, message.attempt, message.headers) == ("刘备", 1, {"kind": "order"})
        assert queue.size() == 1
        reader.ack(0)
        eventually_true(lambda: queue.size() == 0)
    assert [completion.message_id for completion, _ in reader.done] == [message.id]
    assert reader.error is None


def test_a_message_whose_tree_failed_comes_again_under_the_same_message_id(reading: Reading, queue: Queue) -> None:
    queue.send("a")
    with reading(queue) as reader:
        reader.wait_for(1)
        reader.fail(0)
        reader.wait_for(2)
        assert [(message.id, message.attempt) for message, _ in reader.sent] == [
            (reader.sent[0][0].id, 1),
            (reader.sent[0][0].id, 2),
        ]
        reader.ack(1)
        eventually_true(lambda: queue.size() == 0)
    assert [completion.outcome for completion, _ in reader.done] == ["failed", "acked"]


def test_a_message_whose_tree_timed_out_comes_again(reading: Reading, queue: Queue, client: Acker) -> None:
    client.topologies.create(client.topology, message_timeout=2)
    queue.send("a")
    with reading(queue) as reader:
        reader.wait_for(2)
    assert reader.done[0][0].outcome == "timed_out"


@pytest.mark.parametrize("on_failed", ["delete", lambda *_: "delete"])
def test_a_message_whose_tree_failed_is_deleted_if_it_is_to_be(reading: Reading, queue: Queue, on_failed: Any) -> None:
    queue.send("a")
    with reading(queue, on_failed=on_failed) as reader:
        reader.wait_for(1)
        reader.fail(0)
        eventually_true(lambda: queue.size() == 0)
    assert len(reader.sent) == 1


def test_a_message_that_always_fails_becomes_a_dead_letter(reading: Reading, make_queue: Callable[..., Queue]) -> None:
    dead = make_queue()
    arn = dead.sqs.get_queue_attributes(QueueUrl=dead.url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    queue = make_queue(RedrivePolicy=policy)
    queue.send("a")
    with reading(queue) as reader:
        for number in range(2):
            reader.wait_for(number + 1)
            reader.fail(number)
        eventually_true(lambda: dead.size() == 1)
    assert len(reader.sent) == 2


def test_a_message_is_skipped_and_deleted(reading: Reading, queue: Queue) -> None:
    queue.send("a")

    def refuse(_root: object, message: Message) -> None:
        raise SkipMessage(f"{message.body} is no order")

    with reading(queue, send=refuse):
        eventually_true(lambda: queue.size() == 0)


def test_a_message_stays_invisible_as_long_as_its_tree_is_open(reading: Reading, queue: Queue) -> None:
    queue.send("a")
    with reading(queue) as reader:
        reader.wait_for(1)
        never(lambda: len(reader.sent) > 1, for_s=2.5 * VISIBLE_S)
        reader.ack(0)
        eventually_true(lambda: queue.size() == 0)


def test_no_more_messages_are_pending_than_may_be(reading: Reading, queue: Queue) -> None:
    queue.send(*"abcdef")
    with reading(queue, max_pending=2) as reader:
        reader.wait_for(2)
        never(lambda: len(reader.sent) > 2, for_s=2)
        reader.ack(0)
        reader.wait_for(3)
        never(lambda: len(reader.sent) > 3, for_s=2)


def test_what_may_be_pending_is_bounded_by_the_topology_too(reading: Reading, queue: Queue, client: Acker) -> None:
    client.topologies.create(client.topology, max_spout_pending=1)
    queue.send(*"abc")
    with reading(queue) as reader:
        reader.wait_for(1)
        never(lambda: len(reader.sent) > 1, for_s=2)


def test_at_the_end_pending_trees_are_waited_for(reading: Reading, queue: Queue) -> None:
    queue.send("a")
    with reading(queue, drain_timeout=30.0) as reader:
        reader.wait_for(1)
        reader.stop.set()
        time.sleep(2)  # what is received already is taken
        queue.send("b")
        never(lambda: len(reader.sent) > 1, for_s=2)
        reader.ack(0)
    assert (queue.size(), len(reader.sent)) == (1, 1)


def test_an_error_of_send_ends_the_spout_and_the_message_comes_again(reading: Reading, queue: Queue) -> None:
    queue.send("a")

    def fail(_root: object, _message: Message) -> None:
        raise ZeroDivisionError("no such thing")

    with reading(queue, send=fail) as first:
        eventually_true(lambda: first.error is not None)
    assert isinstance(first.error, ZeroDivisionError)
    with reading(queue) as second:
        second.wait_for(1)
        assert second.sent[0][0].attempt == 2


def test_a_spout_that_is_killed_leaves_its_messages_to_the_next_one(
    reading: Reading, queue: Queue, server: Server, process: AckerProcess, topology: str
) -> None:
    queue.send(*"abc")
    program = [sys.executable, "-m", "tests.sqs.member", process.url, topology, server.url, queue.url, str(VISIBLE_S)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert sorted(killed.stdout.readline() for _ in range(3)) == ["a\n", "b\n", "c\n"]
        killed.send_signal(signal.SIGKILL)
    with reading(queue) as reader:
        reader.wait_for(3)
        assert {(message.body, message.attempt) for message, _ in reader.sent} == {("a", 2), ("b", 2), ("c", 2)}
        for number in range(3):
            reader.ack(number)
        eventually_true(lambda: queue.size() == 0)


def test_a_server_that_is_frozen_is_asked_again(reading: Reading, queue: Queue, server: Server) -> None:
    """What was settled meanwhile is deleted, and is not sent again, once it answers."""
    queue.send("a", "b")
    with reading(queue, visibility_timeout=60) as reader:
        reader.wait_for(2)
        os.kill(server.node.process.pid, signal.SIGSTOP)
        try:
            reader.ack(0)
            eventually_true(lambda: len(reader.done) == 1)
            time.sleep(6)  # longer than the client waits for an answer
        finally:
            os.kill(server.node.process.pid, signal.SIGCONT)
        reader.ack(1)
        eventually_true(lambda: queue.size() == 0)
    assert (len(reader.sent), reader.error) == (2, None)


def test_a_server_that_is_frozen_does_not_hold_up_the_end(reading: Reading, queue: Queue, server: Server) -> None:
    queue.send("a")
    with reading(queue) as reader:
        reader.wait_for(1)
        os.kill(server.node.process.pid, signal.SIGSTOP)
        reader.ack(0)
        eventually_true(lambda: len(reader.done) == 1)
    os.kill(server.node.process.pid, signal.SIGCONT)
    assert reader.error is None


def failing_twice(server: Server, operation: str) -> tuple[Any, list[str]]:
    """Make a client whose first two requests of an operation are not answered, and return it, and the list of these."""
    sqs, unanswered = server.client(), list[str]()

    def fail_twice(**_: Any) -> None:
        if len(unanswered) < 2:
            unanswered.append(operation)
            raise EndpointConnectionError(endpoint_url=server.url)

    sqs.meta.events.register(f"before-send.sqs.{operation}", fail_twice)
    return sqs, unanswered


def test_a_message_stays_invisible_though_a_request_to_keep_it_so_is_not_answered(
    reading: Reading, queue: Queue, server: Server
) -> None:
    """The request is due at half of the time, and sent again before it is over."""
    sqs, unanswered = failing_twice(server, "ChangeMessageVisibilityBatch")
    queue.send("a")
    with reading(queue, client=sqs) as reader:
        reader.wait_for(1)
        never(lambda: len(reader.sent) > 1, for_s=1.5 * VISIBLE_S)
        assert len(unanswered) == 2
        reader.ack(0)
        eventually_true(lambda: queue.size() == 0)


def test_a_message_is_deleted_though_the_request_is_not_answered_at_first(
    reading: Reading, queue: Queue, server: Server
) -> None:
    sqs, unanswered = failing_twice(server, "DeleteMessageBatch")
    queue.send("a")
    with reading(queue, client=sqs, visibility_timeout=600) as reader:
        reader.wait_for(1)
        reader.ack(0)
        eventually_true(lambda: queue.size() == 0)
    assert (len(unanswered), len(reader.sent), reader.error) == (2, 1, None)


def test_a_message_comes_again_though_the_request_for_that_is_not_answered_at_first(
    reading: Reading, queue: Queue, server: Server
) -> None:
    """Long before its visibility timeout is over."""
    sqs, unanswered = failing_twice(server, "ChangeMessageVisibilityBatch")
    queue.send("a")
    with reading(queue, client=sqs, visibility_timeout=600) as reader:
        reader.wait_for(1)
        reader.fail(0)
        reader.wait_for(2)
        assert len(unanswered) == 2
        reader.ack(1)
        eventually_true(lambda: queue.size() == 0)


def test_while_the_acker_is_away_messages_wait_and_are_no_delivery_more(
    reading: Reading, make_queue: Callable[..., Queue], process: AckerProcess, client: Acker
) -> None:
    """One more would make it a dead letter here."""
    dead = make_queue()
    arn = dead.sqs.get_queue_attributes(QueueUrl=dead.url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    queue = make_queue(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1}))
    with reading(queue) as reader:
        queue.send("first")
        reader.wait_for(1)  # else the spout could still be asking for the topology
        reader.ack(0)
        eventually_true(lambda: queue.size() == 0)
        os.kill(process.process.pid, signal.SIGSTOP)
        try:
            queue.send("a")
            time.sleep(6)  # longer than this client sends a root again
            assert queue.size() == 1
        finally:
            os.kill(process.process.pid, signal.SIGCONT)
        eventually_true(lambda: reader.error or _acked(reader, queue), within=LONG)
    assert (reader.error, dead.size(), {message.attempt for message, _ in reader.sent}) == (None, 0, {1})


def _acked(reader: Reader, queue: Queue) -> bool:
    """Ack all that was sent, since a message may have been emitted several times."""
    for number in range(len(reader.sent)):
        reader.ack(number)
    return queue.size() == 0


def test_messages_of_a_group_come_in_their_order(reading: Reading, make_queue: Callable[..., Queue]) -> None:
    queue = make_queue("orders.fifo", FifoQueue="true", ContentBasedDeduplication="true")
    queue.send("a", "b", MessageGroupId="1")
    with reading(queue, max_pending=1) as reader:
        reader.wait_for(1)
        never(lambda: len(reader.sent) > 1, for_s=2)
        reader.fail(0)
        reader.wait_for(2)
        assert [message.body for message, _ in reader.sent] == ["a", "a"]
        reader.ack(1)
        reader.wait_for(3)
        assert reader.sent[2][0].body == "b"
        assert reader.sent[2][0].attributes["MessageGroupId"] == "1"


def test_a_queue_that_does_not_exist_ends_the_spout(reading: Reading, queue: Queue) -> None:
    queue.sqs.delete_queue(QueueUrl=queue.url)
    with reading(queue) as reader:
        eventually_true(lambda: reader.error is not None)
    assert isinstance(reader.error, ClientError)


@pytest.mark.parametrize(
    "options", [{"max_pending": 0}, {"visibility_timeout": 1}, {"visibility_timeout": 43_201}, {"retry_delay": -1}]
)
def test_settings_that_cannot_be_are_refused(client: Acker, options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="must be at least 1, visibility_timeout from 2 to 43200"):
        SqsSpout(client, spout="orders", client=None, queue_url="", send=lambda *_: None, **options)


def test_a_client_whose_requests_take_too_long_is_refused(client: Acker, server: Server) -> None:
    def make(sqs: Any) -> SqsSpout:
        return SqsSpout(client, spout="orders", client=sqs, queue_url="", send=lambda *_: None, visibility_timeout=10)

    make(make_client(server.url))
    with pytest.raises(UsageError, match=r"may take 5 s \(1 attempts .* less than half .* of 10 s"):
        make(make_client(server.url, read_timeout=4.0))
    with pytest.raises(UsageError, match="read_timeout must be more than 1 s"):
        make(make_client(server.url, read_timeout=1.0))


def test_a_message_without_a_message_id_ends_the_spout(reading: Reading, queue: Queue) -> None:
    queue.send("a")
    with reading(queue, message_id=lambda _: None) as reader:
        eventually_true(lambda: reader.error is not None)
    assert isinstance(reader.error, UsageError)
    assert "message_id must give a text, not None" in str(reader.error)


def test_a_spout_runs_once(reading: Reading, queue: Queue) -> None:
    with reading(queue) as reader:
        pass
    with pytest.raises(UsageError, match="runs once"):
        reader.spout.run(stop=lambda: True)


def test_a_bolt_that_reads_a_queue_finds_the_anchors(reading: Reading, make_queue: Callable[..., Queue]) -> None:
    orders, charges = make_queue(), make_queue()
    orders.send("a")

    def send(root: Any, message: Message) -> None:
        charges.send(message.body, MessageAttributes=message_attributes(root.anchor("charge")))

    with reading(orders, send=send) as reader:
        found: list[Any] = []
        while not found:
            asked = {"WaitTimeSeconds": 1, "MessageAttributeNames": ["All"]}
            found = charges.sqs.receive_message(QueueUrl=charges.url, **asked).get("Messages", [])
        with reader.acker.receive(headers_of(found[0]), component="charge"):
            assert found[0]["Body"] == "a"
        eventually_true(lambda: orders.size() == 0)
