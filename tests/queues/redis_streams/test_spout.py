"""A stream of Redis as a spout: each row of the tables in docs/redis-streams.md, on Valkey and on Redis 7.0."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from acker_client import Acker, UsageError
from acker_client.sources.redis_streams import Message, RedisStreamSpout, SkipMessage
from redis.backoff import ConstantBackoff
from redis.exceptions import NoPermissionError, ResponseError
from redis.retry import Retry

from bench.servers import Member, one
from examples.support.ports import free_port
from tests.queues.redis_streams.conftest import IDLE_S, LONG, Reader, Reading, Stream
from tests.support import stores
from tests.support.certificates import issue
from tests.support.servers import AckerProcess
from tests.support.waiting import eventually_true, never

pytestmark = pytest.mark.timeout(300)


def body(message: Message) -> str:
    return message.fields["body"].decode()


def test_a_message_is_acked_when_its_tree_is_acked(reading: Reading, stream: Stream) -> None:
    stream.redis.xadd(stream.name, {"body": "刘备", b"\xff": b"\x00\xff"})
    with reading(stream) as reader:
        reader.wait_for(1)
        message = reader.sent[0][0]
        assert (body(message), message.fields[b"\xff"], message.attempt) == ("刘备", b"\x00\xff", 1)
        assert stream.pending() == 1
        reader.ack(0)
        eventually_true(lambda: stream.left() == 0)
        reader.wait_done(1)
    assert [completion.message_id for completion, _ in reader.done] == [message.id]
    assert reader.error is None
    assert stream.consumers() == []


def test_a_message_whose_tree_failed_comes_again_under_the_same_message_id(reading: Reading, stream: Stream) -> None:
    stream.send("a")
    with reading(stream, idle_timeout=600.0) as reader:
        reader.wait_for(1)
        reader.fail(0)
        reader.wait_for(2)
        first, second = (message for message, _ in reader.sent)
        assert (first.id, first.attempt) == (second.id, second.attempt - 1) == (second.id, 1)
        assert second.fields == first.fields
        reader.ack(1)
        eventually_true(lambda: stream.left() == 0)
        reader.wait_done(2)
    assert [completion.outcome for completion, _ in reader.done] == ["failed", "acked"]


def test_a_message_comes_again_only_after_the_delay(reading: Reading, stream: Stream) -> None:
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
    with reading(stream, idle_timeout=600.0) as reader:
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


@pytest.mark.parametrize("name", [b"\xff", b"\xed\xb3\xbf", "刘备".encode(), b"\x00", b""])
def test_fields_of_any_name_can_be_passed_on(
    reading: Reading, stream: Stream, make_stream: Callable[[], Stream], name: bytes
) -> None:
    charges, dead = make_stream(), make_stream()
    stream.redis.xadd(stream.name, {name: b"\xff"})

    def send(root: Any, message: Message) -> None:
        charges.redis.xadd(charges.name, dict(message.fields) | root.headers("charge"))

    def on_failed(completion: Any, message: Message) -> str:
        dead.redis.xadd(dead.name, {**message.fields, "reason": completion.reason})
        return "retry" if message.attempt == 1 else "drop"

    with reading(stream, send=send, on_failed=on_failed) as reader:
        for tries in (1, 2):  # the second time it is claimed
            eventually_true(lambda tries=tries: reader.error or charges.left() == tries)
            assert reader.error is None
            _, fields = charges.redis.xrevrange(charges.name, count=1)[0]
            assert fields[name] == b"\xff"
            reader.acker.fail(reader.acker.receive(fields, component="charge"), reason="no")
        eventually_true(lambda: stream.left() == 0)
    assert [fields for _, fields in dead.redis.xrange(dead.name)] == [{name: b"\xff", b"reason": b"no"}] * 2


def test_a_message_that_always_fails_is_dropped_by_its_count_of_deliveries(reading: Reading, stream: Stream) -> None:
    stream.send("a")
    with reading(stream, on_failed=lambda _, message: "drop" if message.attempt >= 3 else "retry") as reader:
        for number in range(3):
            reader.wait_for(number + 1)
            reader.fail(number)
        eventually_true(lambda: stream.left() == 0)
    assert [message.attempt for message, _ in reader.sent] == [1, 2, 3]


def test_a_message_is_skipped_and_acked(reading: Reading, stream: Stream) -> None:
    stream.send("a")

    def refuse(_root: object, message: Message) -> None:
        raise SkipMessage(f"{body(message)} is no order")

    with reading(stream, send=refuse):
        eventually_true(lambda: stream.left() == 0)


def test_a_message_is_no_other_spouts_as_long_as_its_tree_is_open(reading: Reading, stream: Stream) -> None:
    stream.send("a")
    with reading(stream) as first, reading(stream) as second:
        eventually_true(lambda: first.sent or second.sent)
        never(lambda: len(first.sent) + len(second.sent) > 1, for_s=2.5 * IDLE_S)
        (first if first.sent else second).ack(0)
        eventually_true(lambda: stream.left() == 0)


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
    with reading(stream, drain_timeout=30.0, consumer="one") as reader:
        reader.wait_for(1)
        reader.stop.set()
        time.sleep(2)  # what is read already is taken
        stream.send("b")
        never(lambda: len(reader.sent) > 1, for_s=2)
        assert stream.consumers() == ["one"]
        reader.ack(0)
    assert (stream.pending(), stream.left(), len(reader.sent), stream.consumers()) == (0, 1, 1, [])


def test_a_consumer_that_has_messages_stays_and_its_messages_come_again(reading: Reading, stream: Stream) -> None:
    stream.send("a")
    with reading(stream, consumer="one") as first:
        first.wait_for(1)
    assert stream.consumers() == ["one"]
    with reading(stream, consumer="two") as second:
        second.wait_for(1)
        assert second.sent[0][0].attempt == 2


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
    module = "tests.queues.redis_streams.member"
    program = [sys.executable, "-m", module, process.url, topology, stream.url, stream.name, str(IDLE_S)]
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


def test_a_spout_that_was_frozen_takes_nothing_from_the_one_that_has_its_messages_now(
    reading: Reading, stream: Stream, process: AckerProcess, topology: str
) -> None:
    stream.send("a")
    with another_process(process, topology, stream) as frozen:
        assert lines(frozen, 1) == ["a"]
        frozen.send_signal(signal.SIGSTOP)
        with reading(stream) as reader:
            reader.wait_for(1)
            frozen.send_signal(signal.SIGCONT)
            never(lambda: len(reader.sent) > 1 or stream.pending() != 1, for_s=2 * IDLE_S)
            [owner] = [each["consumer"] for each in stream.redis.xpending_range(stream.name, "acker", "-", "+", 10)]
            assert owner.decode() == reader.spout._queue._consumer  # type: ignore[attr-defined]
            reader.ack(0)
            eventually_true(lambda: stream.left() == 0)


def test_a_worker_that_dies_before_its_ack_costs_a_timeout_and_loses_nothing(
    reading: Reading, stream: Stream, client: Acker
) -> None:
    """A bolt behind a second stream: it is killed with its entry read and not acked, and another claims the entry."""
    client.topologies.create(client.topology, message_timeout=60, dedupe_window=600)
    charges = Stream(url=stream.url, redis=stream.redis)
    charges.create()
    stream.send("a")

    def send(root: Any, message: Message) -> None:
        charges.redis.xadd(charges.name, dict(message.fields) | root.headers("charge"))

    program = f"""
import redis, time
r = redis.Redis.from_url({stream.url!r})
while not r.xreadgroup("acker", "dies", {{{charges.name!r}: ">"}}, block=1000):
    pass
print("read", flush=True)
time.sleep(600)
"""
    with reading(stream, send=send) as reader:
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "read\n"
            worker.kill()
        _, [[_, fields]], _ = charges.redis.xautoclaim(charges.name, "acker", "lives", 0)
        with reader.acker.receive(fields, component="charge"):
            assert fields[b"body"] == b"a"
        eventually_true(lambda: stream.left() == 0)
    assert reader.error is None


def test_a_server_that_is_frozen_is_asked_again(reading: Reading, stream: Stream, server: Member) -> None:
    """What was settled meanwhile is acked, and is not sent again, once it answers."""
    stream.send("a", "b")
    with reading(stream, idle_timeout=60.0) as reader:
        reader.wait_for(2)
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            reader.ack(0)
            eventually_true(lambda: len(reader.done) == 1)
            time.sleep(6)  # longer than a command waits for an answer
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        reader.ack(1)
        eventually_true(lambda: stream.left() == 0)
    assert (len(reader.sent), reader.error) == (2, None)


def test_a_server_that_was_away_for_longer_than_the_idle_timeout_gives_its_spout_nothing_twice(
    reading: Reading, stream: Stream, server: Member
) -> None:
    stream.send("a")
    with reading(stream) as reader:
        reader.wait_for(1)
        os.kill(server.process.pid, signal.SIGSTOP)
        time.sleep(1.5 * IDLE_S)
        os.kill(server.process.pid, signal.SIGCONT)
        never(lambda: len(reader.sent) > 1, for_s=IDLE_S)
        reader.ack(0)
        eventually_true(lambda: stream.left() == 0)
    assert reader.error is None


def test_a_server_that_is_frozen_does_not_hold_up_the_end(reading: Reading, stream: Stream, server: Member) -> None:
    stream.send("a")
    try:
        with reading(stream) as reader:
            reader.wait_for(1)
            os.kill(server.process.pid, signal.SIGSTOP)
            reader.ack(0)
            eventually_true(lambda: len(reader.done) == 1)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    assert reader.error is None


def test_a_server_that_is_killed_and_has_kept_its_data_loses_nothing(
    reading: Reading, stream: Stream, server: Member
) -> None:
    stream.send("a", "b", "c")
    with reading(stream, idle_timeout=60.0, max_pending=2) as reader:
        reader.wait_for(2)
        server.stop()
        reader.ack(0)
        reader.fail(1)
        reader.wait_done(2)
        server.start()
        reader.wait_for(4)
        assert sorted(body(message) for message, _ in reader.sent[2:]) == ["b", "c"]
        reader.ack(2, 3)
        eventually_true(lambda: stream.left() == 0)
    assert reader.error is None


@pytest.mark.parametrize("tries_again", [True, False])
def test_a_send_that_writes_to_a_server_that_is_away_waits_or_ends_the_spout_as_its_client_says(
    reading: Reading, stream: Stream, server: Member, *, tries_again: bool
) -> None:
    options = {"retry": Retry(ConstantBackoff(0.1), -1)} if tries_again else {}
    charges = Stream(url=stream.url, redis=redis.Redis.from_url(server.url, **options))
    charges.create()
    stream.send("a")
    is_away = threading.Event()

    def send(root: Any, message: Message) -> None:
        if not is_away.is_set():
            server.stop()
            is_away.set()
        charges.redis.xadd(charges.name, dict(message.fields) | root.headers("charge"))

    with reading(stream, send=send) as reader:
        assert is_away.wait(LONG)
        if not tries_again:
            eventually_true(lambda: reader.error)
        server.start()
        if tries_again:
            eventually_true(lambda: reader.error or charges.redis.xlen(charges.name) == 1)
            [(_, fields)] = charges.redis.xrange(charges.name)
            reader.acker.receive(fields, component="charge").ack()
            eventually_true(lambda: stream.left() == 0)
    assert isinstance(reader.error, type(None) if tries_again else redis.ConnectionError)
    assert stream.left() == (0 if tries_again else 1)


def test_a_server_that_is_killed_without_its_data_ends_the_spout(
    reading: Reading, client: Acker, tmp_path: Path
) -> None:
    with stores.running("valkey", tmp_path) as store, redis.Redis.from_url(store.url) as connection:
        stream = Stream(url=store.url, redis=connection)
        stream.create()
        stream.send("a")
        with reading(stream) as reader:
            reader.wait_for(1)
            [member] = store.members
            member.stop()
            member.start()
            eventually_true(lambda: reader.error is not None)
    assert isinstance(reader.error, ResponseError)
    assert str(reader.error).startswith("NOGROUP")


@pytest.mark.parametrize("kind", ["valkey-sentinel", "valkey-cluster", "redis7-cluster"])
def test_a_primary_that_is_killed_is_followed_by_its_replica(
    reading: Reading, client: Acker, tmp_path: Path, kind: str
) -> None:
    with stores.running(kind, tmp_path) as store:
        primary = store.members[0]
        found = redis.RedisCluster if kind.endswith("cluster") else redis.Redis
        with found(host="127.0.0.1", port=primary.shown) as connection:
            stream = Stream(url=store.url, redis=connection, name=name_on(primary, cluster=kind.endswith("cluster")))
            stream.create()
            stream.send("a", "b")
            with reading(stream, idle_timeout=60.0) as reader:
                reader.wait_for(2)
                eventually_true(lambda: primary.ask("WAIT", 1, 1_000))
                primary.stop()
                reader.fail(0)
                reader.wait_for(3)
                assert (body(reader.sent[2][0]), reader.sent[2][0].attempt) == (body(reader.sent[0][0]), 2)
                reader.ack(1, 2)
                reader.wait_done(3)
            assert reader.error is None
            assert len(reader.sent) == 3


def name_on(primary: Member, *, cluster: bool) -> str:
    """Return a name of a stream that a primary of a cluster has."""
    if not cluster:
        return "orders"
    own = next(node for node in primary.ask("CLUSTER NODES").values() if "myself" in node["flags"])
    [[first, last]] = [[int(at) for at in pair] for pair in own["slots"]]
    names = (f"orders-{number}" for number in range(10_000))
    return next(name for name in names if first <= int(primary.ask("CLUSTER KEYSLOT", name)) <= last)


def test_while_the_acker_is_away_messages_wait_and_are_no_delivery_more(
    reading: Reading, stream: Stream, process: AckerProcess, client: Acker
) -> None:
    with reading(stream) as reader:
        stream.send("first")
        reader.wait_for(1)  # else the spout could still be asking for the topology
        reader.ack(0)
        eventually_true(lambda: stream.left() == 0)
        os.kill(process.process.pid, signal.SIGSTOP)
        try:
            stream.send("a")
            time.sleep(6)  # longer than this client sends a root again, and than the idle timeout
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


def test_while_the_acker_is_away_send_is_called_again_for_one_message_only(
    reading: Reading, stream: Stream, process: AckerProcess
) -> None:
    def sent(name: str) -> int:
        return sum(body(message) == name for message, _ in reader.sent)

    with reading(stream, idle_timeout=600.0) as reader:
        stream.send("first")
        reader.wait_for(1)  # else the spout could still be asking for the topology
        reader.ack(0)
        eventually_true(lambda: stream.left() == 0)
        os.kill(process.process.pid, signal.SIGSTOP)
        try:
            with stream.redis.pipeline(transaction=True) as together:
                for name in "abc":
                    together.xadd(stream.name, {"body": name})
                together.execute()
            eventually_true(lambda: sent("a") >= 3, within=LONG)
            assert (sent("b"), sent("c")) == (1, 1)
        finally:
            os.kill(process.process.pid, signal.SIGCONT)
        eventually_true(lambda: reader.error or acked(reader, stream), within=LONG)
    assert reader.error is None


@pytest.mark.parametrize("remove", ["xdel", "xtrim"])
def test_a_message_that_is_deleted_while_its_tree_is_open_cannot_come_again(
    reading: Reading, stream: Stream, remove: str
) -> None:
    stream.send("a")
    with reading(stream) as reader:
        reader.wait_for(1)
        if remove == "xdel":
            stream.redis.xdel(stream.name, reader.sent[0][0].id)
        else:
            stream.redis.xtrim(stream.name, maxlen=0, approximate=False)
        reader.fail(0)
        reader.wait_done(1)
        eventually_true(lambda: stream.pending() == 0)
        never(lambda: len(reader.sent) > 1, for_s=IDLE_S)
        stream.send("b")
        reader.wait_for(2)
        assert body(reader.sent[1][0]) == "b"
    assert reader.error is None


def test_a_retry_comes_also_among_many_messages_of_other_consumers(reading: Reading, stream: Stream) -> None:
    """A look for idle messages goes on where the one before ended."""
    stream.send(*(str(number) for number in range(400)))
    stream.redis.xreadgroup("acker", "another", {stream.name: ">"}, count=300)
    with reading(stream, max_pending=1, idle_timeout=600.0) as reader:
        reader.wait_for(1)
        reader.fail(0)
        reader.wait_for(2)
        assert [body(message) for message, _ in reader.sent][1] in {"300", "301"}
        for number in range(1, 100):  # all of its own, and the retry among or behind them
            reader.ack(number)
            reader.wait_for(number + 2)
        assert "300" in {body(message) for message, _ in reader.sent[1:]}


@pytest.mark.parametrize("lacks", ["stream", "group"])
def test_a_stream_or_a_group_that_does_not_exist_ends_the_spout(reading: Reading, stream: Stream, lacks: str) -> None:
    if lacks == "stream":
        stream.redis.delete(stream.name)
    else:
        stream.redis.xgroup_destroy(stream.name, "acker")
    with reading(stream) as reader:
        eventually_true(lambda: reader.error is not None)
    assert isinstance(reader.error, ResponseError)
    assert str(reader.error).startswith("NOGROUP")


def test_a_group_that_is_destroyed_while_it_is_read_ends_the_spout(reading: Reading, stream: Stream) -> None:
    stream.send("a")
    with reading(stream) as reader:
        reader.wait_for(1)
        stream.redis.xgroup_destroy(stream.name, "acker")
        eventually_true(lambda: reader.error is not None)
    assert isinstance(reader.error, ResponseError)


def test_a_login_needs_the_rights_that_the_page_names(reading: Reading, stream: Stream, server: Member) -> None:
    commands = ["xreadgroup", "xautoclaim", "xclaim", "xpending", "xack", "xgroup|delconsumer", "eval"]
    rights = [f"+{command}" for command in commands]
    server.ask("ACL", "SETUSER", "reader", "on", ">secret", "~stream-*", "-@all", *rights)
    stream.send("a")
    url = server.url.replace("://", "://reader:secret@")
    with reading(stream, url=url) as reader:
        reader.wait_for(1)
        reader.fail(0)
        reader.wait_for(2)
        reader.ack(1)
        eventually_true(lambda: stream.left() == 0)
    assert (reader.error, stream.consumers()) == (None, [])
    server.ask("ACL", "SETUSER", "reader", "-xreadgroup")
    with reading(stream, url=url) as refused:
        eventually_true(lambda: refused.error is not None)
    assert isinstance(refused.error, NoPermissionError)


@pytest.mark.parametrize(
    "options",
    [{"max_pending": 0}, {"idle_timeout": 1.9}, {"idle_timeout": float("nan")}, {"retry_delay": -1},
     {"idle_timeout": 10, "retry_delay": 11}],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(client: Acker, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="max_pending must be at least 1, idle_timeout at least 2 seconds, retry_"):
        make(client, **options)


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:6379", "http://127.0.0.1", "redis+sentinel://127.0.0.1", "redis://a:b", "redis://127.0.0.1?patience=1",
     "redis+cluster://127.0.0.1/3", "redis://127.0.0.1?socket_timeout=long"],
)  # fmt: skip
def test_an_address_that_cannot_be_is_refused(client: Acker, url: str) -> None:
    with pytest.raises(UsageError, match="the address of the Redis cannot be used: "):
        make(client, url=url)


def make(client: Acker, **options: Any) -> RedisStreamSpout:
    own = {"url": "redis://127.0.0.1", "stream": "orders", "group": "acker", "send": lambda *_: None} | options
    return RedisStreamSpout(client, spout="orders", **own)


def test_a_server_is_reached_by_a_socket_and_over_tls(reading: Reading, client: Acker, tmp_path: Path) -> None:
    files, port = issue(tmp_path), free_port()
    own = ("--tls-cert-file", str(files.certificate), "--tls-key-file", str(files.key), "--tls-auth-clients", "no")
    options = ("--unixsocket", str(tmp_path / "socket"), "--tls-port", str(port), *own)
    program = stores.redis7(tmp_path)
    with (
        one(tmp_path / "store", *options, "--tls-ca-cert-file", str(files.authority), program=program) as member,
        redis.Redis.from_url(member.url) as connection,
    ):
        stream = Stream(url=member.url, redis=connection)
        stream.create()
        urls = (f"unix://{tmp_path}/socket", f"rediss://127.0.0.1:{port}?ssl_ca_certs={files.authority}")
        for url in urls:
            stream.send("a")
            with reading(stream, url=url) as reader:
                reader.wait_for(1)
                reader.ack(0)
                eventually_true(lambda: stream.left() == 0)
            assert (reader.error, len(reader.sent)) == (None, 1)


def test_sentinels_that_know_no_primary_are_asked_again(
    reading: Reading, stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    with reading(stream, url=f"redis+sentinel://127.0.0.1:{free_port()}/orders") as reader:
        eventually_true(lambda: "no sentinel knows a primary orders that answers" in caplog.text)
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
    with pytest.raises(UsageError, match="runs once: make another RedisStreamSpout"):
        reader.spout.run(stop=lambda: True)


def test_a_bolt_that_reads_a_stream_finds_the_anchors(
    reading: Reading, stream: Stream, make_stream: Callable[[], Stream]
) -> None:
    charges = make_stream()
    stream.send("a")

    def send(root: Any, message: Message) -> None:
        charges.redis.xadd(charges.name, dict(message.fields) | root.headers("charge"))

    with reading(stream, send=send) as reader:
        eventually_true(lambda: charges.left() == 1)
        for text in (False, True):
            with redis.Redis.from_url(stream.url, decode_responses=text, protocol=2) as connection:
                [[_, [[_, fields]]]] = connection.xread({charges.name: "0"})
            assert reader.acker.receive(fields, component="charge").tracked
        with reader.acker.receive(fields, component="charge"):
            assert fields["body"] == "a"
        eventually_true(lambda: stream.left() == 0)
