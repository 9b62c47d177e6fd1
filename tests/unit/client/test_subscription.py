"""Tests a subscription: where it is made, what confirms it, and how it is lost."""

from collections import deque
from typing import Any

import pytest
from acker_client._core.subscription import Channel, Disconnected, Redirected, Subscription
from acker_client._transport import Endpoint
from acker_client.config import ClientConfig
from acker_client.sync.driver import Driver
from acker_protocol.redis_url import read_redis_url

CHANNEL = "acker:default:orders"
SUBSCRIBED = [b"subscribe", CHANNEL.encode(), 1]
SHARD_SUBSCRIBED = [b"ssubscribe", CHANNEL.encode(), 1]


def message(data: bytes) -> list[Any]:
    return [b"message", CHANNEL.encode(), data]


class Servers:
    """Redises by their addresses: what each says, in turn; an exception is raised. One without words is away."""

    def __init__(self, **said: list[Any]) -> None:
        self.said = {name.replace("_", ":"): deque(words) for name, words in said.items()}
        self.heard: list[tuple[str, ...]] = []
        self.closed: list[str] = []

    def open(self, url: str, timeout_s: float) -> "Line":
        assert timeout_s == 10
        host = url.partition("//")[2].rpartition("@")[2].partition("/")[0]
        if host not in self.said:
            raise Disconnected(f"{host} is away")
        return Line(self, host)


class Line:
    def __init__(self, servers: Servers, host: str) -> None:
        self.servers = servers
        self.host = host

    def send(self, *command: str) -> None:
        self.servers.heard.append((self.host, *command))

    def read(self, _: float) -> Any:
        said = self.servers.said[self.host]
        found = said.popleft() if said else None
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        self.servers.closed.append(self.host)


def subscription(servers: Servers, url: str = "redis://a:1") -> Subscription:
    return Subscription(Channel(url=url, location=read_redis_url(url), name=CHANNEL, timeout_s=10), servers.open)


def perform(flow: Any) -> Any:
    return Driver(Endpoint(url="http://acker"), ClientConfig()).run(flow)


def test_it_is_on_once_it_is_confirmed_and_what_came_before_is_kept():
    servers = Servers(a_1=[message(b"1"), message(b"2"), SUBSCRIBED, message(b"3")])
    made = subscription(servers)
    assert not made.is_subscribed
    perform(made.confirm())
    assert made.is_subscribed
    assert [perform(made.next_message(1)) for _ in range(4)] == [b"1", b"2", b"3", None]
    assert servers.heard == [("a:1", "SUBSCRIBE", CHANNEL)]


def test_it_is_confirmed_again_on_the_same_connection():
    servers = Servers(a_1=[SUBSCRIBED, message(b"1"), SUBSCRIBED])
    made = subscription(servers)
    perform(made.confirm())
    perform(made.confirm())
    assert (made.is_subscribed, servers.closed, perform(made.next_message(1))) == (True, [], b"1")


@pytest.mark.parametrize("said", [[], [Disconnected("no")], [message(b"1")], [[b"unsubscribe", b"x", 0]]])
def test_without_a_confirmation_it_is_off_and_the_connection_closed(said, caplog):
    servers = Servers(a_1=said)
    made = subscription(servers)
    perform(made.confirm())
    assert (made.is_subscribed, servers.closed) == (False, ["a:1"])
    assert "cannot subscribe" in caplog.text


def test_a_server_that_is_away_leaves_it_off_until_it_is_back(caplog):
    servers = Servers()
    made = subscription(servers)
    perform(made.confirm())
    assert not made.is_subscribed
    servers.said["a:1"] = deque([SUBSCRIBED])
    perform(made.confirm())
    assert made.is_subscribed


@pytest.mark.parametrize("end", [Disconnected("cut off"), [b"sunsubscribe", b"x", 0], Redirected(("b", 2))])
def test_a_loss_is_heard_as_nothing_and_ends_it(end, caplog):
    servers = Servers(a_1=[SUBSCRIBED, end])
    made = subscription(servers)
    perform(made.confirm())
    assert perform(made.next_message(1)) is None
    assert (made.is_subscribed, servers.closed) == (False, ["a:1"])
    assert "is lost" in caplog.text


def test_what_the_lost_one_had_kept_is_not_heard_again():
    servers = Servers(a_1=[message(b"old"), SUBSCRIBED, SUBSCRIBED, message(b"new")])
    made = subscription(servers)
    perform(made.confirm())
    perform(made.close())
    perform(made.confirm())
    assert perform(made.next_message(1)) == b"new"


def test_in_a_cluster_it_goes_to_the_server_that_has_the_channel():
    servers = Servers(b_2=[Redirected(("c", 3))], c_3=[SHARD_SUBSCRIBED, [b"smessage", b"x", b"1"]])
    made = subscription(servers, "redis+cluster://u:p@a:1,b:2")
    perform(made.confirm())
    assert perform(made.next_message(1)) == b"1"
    assert servers.heard == [("b:2", "SSUBSCRIBE", CHANNEL), ("c:3", "SSUBSCRIBE", CHANNEL)]
    assert servers.closed == ["b:2"]


def test_a_cluster_that_sends_it_round_in_circles_leaves_it_off(caplog):
    servers = Servers(a_1=[Redirected(("a", 1))] * 50)
    made = subscription(servers, "redis+cluster://a:1")
    perform(made.confirm())
    assert not made.is_subscribed


def test_with_sentinels_it_goes_to_the_primary_that_one_of_them_names():
    servers = Servers(b_2=[None], c_3=[Disconnected("no")], d_4=[[b"e", b"5"]], e_5=[SUBSCRIBED])
    made = subscription(servers, "redis+sentinel://a:1,b:2,c:3,d:4/main")
    perform(made.confirm())
    assert made.is_subscribed
    asked = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
    assert servers.heard == [("b:2", *asked), ("c:3", *asked), ("d:4", *asked), ("e:5", "SUBSCRIBE", CHANNEL)]
    assert servers.closed == ["b:2", "c:3", "d:4"]


def test_where_no_sentinel_knows_the_primary_it_is_off(caplog):
    made = subscription(Servers(a_1=[None]), "redis+sentinel://a:1/main")
    perform(made.confirm())
    assert not made.is_subscribed
    assert "no sentinel knows main" in caplog.text
