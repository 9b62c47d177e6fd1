"""Tests a subscriber against an acker in memory and a Redis that says what the test lets it."""

import json
from collections import deque
from typing import Any

import pytest
from acker_client import UsageError
from acker_client._core.pending_roots import GRACE_S
from acker_client._core.pubsub_reader import DEDUPE_SIZE, MAILBOX_INTERVAL_S, MAX_UNRELEASED
from acker_client._core.subscription import Disconnected
from acker_client.asyncio import _redis as async_redis
from acker_client.sync import _redis as sync_redis
from acker_protocol.errors import UnknownTopology
from acker_protocol.states import TopologyRules

URL = "redis://127.0.0.1:1"
TIMEOUT_S = TopologyRules().message_timeout_ms / 1000


class Radio:
    """A Redis with one channel: subscribers hear what is on the air; while it is down nobody can be one."""

    def __init__(self, time) -> None:
        self.time = time
        self.air: deque[Any] = deque()
        self.subscribed = 0
        self.down = False

    def open(self, *_: Any) -> "Radio":
        if self.down:
            raise Disconnected("down")
        return self

    async def aopen(self, *_: Any) -> "Radio":
        return self.open()

    def send(self, verb: str, channel: str) -> None:
        assert (verb, channel) == ("SUBSCRIBE", "acker:default:orders")
        self.subscribed += 1
        self.air.append([b"subscribe", channel.encode(), 1])

    def read(self, seconds: float) -> Any:
        if self.down:
            raise Disconnected("down")
        if self.air:
            return self.air.popleft()
        self.time.advance(seconds)
        return None

    def close(self) -> None:
        self.air.clear()

    def publish(self, *completions: Any) -> None:
        data = json.dumps({"completions": completions, "cursor": "x"}).encode()
        self.air.append([b"message", b"acker:default:orders", data])


@pytest.fixture
def radio(time, monkeypatch) -> Radio:
    radio = Radio(time)
    monkeypatch.setattr(sync_redis, "RedisConnection", radio.open)
    monkeypatch.setattr(async_redis, "connect", radio.aopen)
    return radio


@pytest.fixture
def spout(acker):
    return acker.shared_spout("orders")


def emit(spout, message_id: str = "42", **timeouts: int) -> str:
    with spout.emit(message_id=message_id, **timeouts) as root:
        root.anchor("bill")
    return root.root_id


def end(acker, spout, message_id: str) -> None:
    with spout.emit(message_id=message_id, message_timeout=3600) as root:
        headers = root.headers("bill")
    acker.ack(acker.receive(headers, component="bill"))


def mail(service) -> list[Any]:
    """What lies in the mailbox, as it is published."""
    return [told for _, told in service.store.mailboxes["orders"]]


def names(told) -> list[str]:
    return [done.message_id for done in told]


def asked(service, what: str) -> int:
    return sum(f"{request.method} {request.url.path}".endswith(what) for request in service.requests)


def test_what_is_in_the_mailbox_is_given_and_released_once_it_is_subscribed(acker, spout, service, radio):
    for name in "123":
        end(acker, spout, name)
    told = spout.subscribe(URL, page_size=2)
    assert next(told).message_id == "1"
    assert radio.subscribed == 1
    assert service.completions("orders") == ["1", "2", "3"]
    assert [next(told).message_id for _ in range(2)] == ["2", "3"]
    assert service.completions("orders") == ["3"]


def test_it_asks_for_what_ends_to_be_published_unless_it_is(acker, spout, service, radio, monkeypatch):
    end(acker, spout, "1")
    next(spout.subscribe(URL))
    [put] = [request for request in service.requests if request.method == "PUT"]
    assert json.loads(put.content) == {"callback": {"kind": "pubsub"}}
    callback(monkeypatch, service, {"kind": "pubsub", "state": "on"})
    service.requests.clear()
    next(spout.subscribe(URL))
    assert not [request for request in service.requests if request.method == "PUT"]


def callback(monkeypatch, service, callback: Any) -> None:
    shown = service.store._spout
    monkeypatch.setattr(service.store, "_spout", lambda name: shown(name) | {"callback": callback})


def test_a_webhook_is_not_replaced(acker, spout, service, radio, monkeypatch):
    end(acker, spout, "1")
    callback(monkeypatch, service, {"kind": "webhook", "url": "https://orders.example"})
    with pytest.raises(UsageError, match="webhook"):
        next(spout.subscribe(URL))


def test_a_name_of_its_own_is_ephemeral_also_after_the_store_has_lost_it(acker, service, radio, monkeypatch):
    spout = acker.spout("orders")
    monkeypatch.setattr(Radio, "send", lambda self, *_: self.air.append([b"subscribe", b"x", 1]))
    emit(spout, message_timeout=3600)
    told = spout.subscribe(URL, until=MAILBOX_INTERVAL_S + 1)
    service.store.ephemeral.clear()
    service.store.mailboxes.clear()
    assert names(told) == []
    assert service.store.ephemeral == {spout.name}


def test_a_published_one_is_given_once_and_released_by_the_next_reading(acker, spout, service, radio):
    end(acker, spout, "1")
    told = spout.subscribe(URL, until=MAILBOX_INTERVAL_S + 2)
    assert next(told).message_id == "1"
    end(acker, spout, "2")
    radio.publish(*mail(service)[-1:])
    radio.publish(*mail(service)[-1:])
    end(acker, spout, "3")
    radio.publish(*mail(service)[-1:])
    assert [next(told).message_id for _ in range(2)] == ["2", "3"]
    assert service.completions("orders") == ["2", "3"]
    assert names(told) == []
    assert service.completions("orders") == []


def test_what_was_not_published_is_given_by_the_next_reading(acker, spout, service, radio, time):
    end(acker, spout, "1")
    told = spout.subscribe(URL)
    next(told)
    end(acker, spout, "2")
    end(acker, spout, "3")
    radio.publish(*mail(service)[-1:])
    assert next(told).message_id == "3"
    before = time.now
    assert next(told).message_id == "2"
    assert MAILBOX_INTERVAL_S - 1 <= time.now - before <= MAILBOX_INTERVAL_S + 1
    assert radio.subscribed == 2


def test_a_subscription_that_is_lost_is_made_again_and_the_mailbox_read(acker, spout, service, radio, time):
    end(acker, spout, "1")
    told = spout.subscribe(URL)
    next(told)
    end(acker, spout, "2")
    radio.air.append([b"unsubscribe", b"x", 0])
    before = time.now
    assert next(told).message_id == "2"
    assert time.now - before < 1
    assert radio.subscribed == 2


def test_while_redis_is_away_the_mailbox_is_read_every_few_seconds(acker, spout, service, radio, time):
    radio.down = True
    end(acker, spout, "1")
    told = spout.subscribe(URL)
    assert next(told).message_id == "1"
    for name in ("2", "3", "4"):
        end(acker, spout, name)
        before = time.now
        assert next(told).message_id == name
        assert time.now - before <= 6
    assert radio.subscribed == 0
    radio.down = False
    end(acker, spout, "5")
    assert next(told).message_id == "5"
    assert radio.subscribed == 1


def test_what_is_no_message_is_passed_over(acker, spout, service, radio, caplog):
    end(acker, spout, "1")
    told = spout.subscribe(URL)
    next(told)
    for junk in (b"{", b"[]", b'{"completions": [{"id": "x"}]}', b"\xff"):
        radio.air.append([b"message", b"x", junk])
    end(acker, spout, "2")
    radio.publish(*mail(service)[-1:])
    assert next(told).message_id == "2"
    assert caplog.text.count("is ignored") == 4


def test_many_live_ones_are_released_before_half_a_minute_is_over(acker, spout, service, radio, time):
    end(acker, spout, "1")
    told = spout.subscribe(URL)
    one = dict(mail(service)[0])
    next(told)
    radio.publish(*[one | {"id": f"{number}"} for number in range(MAX_UNRELEASED)])
    end(acker, spout, "2")
    before = time.now
    for _ in range(MAX_UNRELEASED):
        next(told)
    assert (next(told).message_id, time.now) == ("2", before)


def test_no_more_ids_are_remembered_than_it_says(acker, spout, service, radio):
    end(acker, spout, "1")
    told = spout.subscribe(URL)
    one = dict(mail(service)[0])
    next(told)
    published = [one | {"id": f"{number}"} for number in range(DEDUPE_SIZE + 1)]
    radio.publish(*published)
    radio.publish(published[1], published[0])
    assert [next(told).id for _ in range(DEDUPE_SIZE + 2)][-2:] == [f"{DEDUPE_SIZE}", "0"]


def test_a_root_without_a_completion_is_asked_about_in_time(acker, spout, service, radio, time):
    told = spout.subscribe(URL)
    end(acker, spout, "1")
    next(told)
    emit(spout, "lost", message_timeout=1)
    service.reset()
    before = time.now
    found = next(told)
    assert (found.message_id, found.outcome) == ("lost", "timed_out")
    assert 1 + GRACE_S <= time.now - before <= 1 + GRACE_S + 2


def test_a_topology_that_is_not_there_is_reported(acker, spout, service, radio):
    service.exists = False
    with pytest.raises(UnknownTopology):
        next(spout.subscribe(URL))


@pytest.mark.parametrize("url", ["http://a", "redis+sentinel://a:1", "redis+cluster://a/3"])
def test_an_address_that_is_none_is_refused(spout, url):
    with pytest.raises(UsageError):
        next(spout.subscribe(url))


def test_it_stops_when_stop_is_true(acker, spout, service, radio, time):
    ended: list[bool] = []
    end(acker, spout, "1")
    told = spout.subscribe(URL, stop=lambda: bool(ended))
    next(told)
    ended.append(True)
    assert names(told) == []
    assert service.completions("orders") == []


@pytest.mark.anyio
async def test_a_program_of_tasks_listens_likewise(async_acker, service, radio):
    spout = async_acker.shared_spout("orders")
    told = spout.subscribe(URL)
    for name in ("1", "2"):
        async with spout.emit(message_id=name) as root:
            headers = root.headers("bill")
        await async_acker.ack(async_acker.receive(headers, component="bill"))
    assert [(await anext(told)).message_id for _ in range(2)] == ["1", "2"]


def test_each_completion_is_told_of_once_when_it_was_handled(acker, spout, service, radio):
    told: list[str] = []
    acker.observe(handled=lambda completions: told.extend(names(completions)))
    end(acker, spout, "1")
    reading = spout.subscribe(URL, until=MAILBOX_INTERVAL_S + 2)
    assert next(reading).message_id == "1"
    assert told == []
    end(acker, spout, "2")
    radio.publish(*mail(service)[-1:])
    assert next(reading).message_id == "2"
    assert told == ["1"]
    assert names(reading) == []  # the mailbox, which is read again meanwhile, holds "2" too
    assert told == ["1", "2"]
