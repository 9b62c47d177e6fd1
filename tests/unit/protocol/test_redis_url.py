import pytest
from acker_protocol.redis_url import Kind, read_redis_url, without_login
from acker_service.redis.discovery import make_discovery


@pytest.mark.parametrize(
    "url", ["redis://store", "redis://redis", "rediss://user:pw@store:7000/2?ssl_cert_reqs=none", "unix:///run/s"]
)
def test_one_server_is_reached_at_its_own_address(url: str) -> None:
    assert read_redis_url(url).kind is Kind.STANDALONE


def test_a_cluster_is_reached_at_some_of_its_nodes_each_with_the_same_login_and_options() -> None:
    url = read_redis_url("rediss+cluster://user:p%40w@one,two:7000,[::1]:7001?ssl_ca_certs=/ca.pem")
    assert url.kind is Kind.CLUSTER
    assert url.addresses == (("one", 6379), ("two", 7000), ("::1", 7001))
    assert [url.url(address) for address in url.addresses] == [
        "rediss://user:p%40w@one:6379/0?ssl_ca_certs=%2Fca.pem",
        "rediss://user:p%40w@two:7000/0?ssl_ca_certs=%2Fca.pem",
        "rediss://user:p%40w@[::1]:7001/0?ssl_ca_certs=%2Fca.pem",
    ]


def test_sentinels_name_the_primary_and_may_have_a_login_of_their_own() -> None:
    url = read_redis_url("redis+sentinel://:pw@one,two:7000/main/3?sentinel_password=s%2F")
    assert (url.kind, url.name, url.database) == (Kind.SENTINEL, "main", "3")
    assert url.sentinel_url(url.addresses[0]) == "redis://:s%2F@one:26379/"
    assert url.url(("primary", 6379)) == "redis://:pw@primary:6379/3"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://store", "redis://"),
        ("redis+mesh://store", "redis://"),
        ("redis+redis://store", "redis://"),
        ("store:6379", "redis://"),
        ("redis+sentinel://one", "what the sentinels call"),
        ("redis+cluster://one/2", "no databases"),
        ("redis+cluster://one:seven", "no port"),
        ("redis+cluster://:pw@", "names no host"),
        ("redis+cluster://one,,two", "names no host"),
        ("redis://store:70000", "no port"),
        ("redis://store/abc", "no database"),
        ("redis+sentinel://one/main/abc", "no database"),
        ("redis://:pw/x@store", "percent-encode"),
        ("redis://:x/pw@store", "percent-encode"),
        ("redis://:pw#x@store", "percent-encode"),
        ("redis://:x@pw#x@store", "percent-encode"),
        ("redis://:x@pw?x@store", "percent-encode"),
        ("redis://:pw[x@store", "percent-encode"),
        ("redis://[:pw]@store", "percent-encode"),
        ("redis://[::1", "names no host"),
        ("redis:/1//store", "no database"),
        ("redis+cluster://one,[two]", "names no host"),
        ("redis://store:pw", "no port"),
    ],
)
def test_an_address_that_is_none_is_refused_without_its_password(url: str, text: str) -> None:
    with pytest.raises(ValueError, match=text) as raised:
        read_redis_url(url)
    assert "pw" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://store", "redis://store"),
        ("rediss://user:pw@store:6380/3?password=pw", "rediss://store:6380/3"),
        ("redis+cluster://:pw@one:7000,two", "redis+cluster://one:7000,two"),
        ("redis+cluster://:pw@one,[::1]:7001", "redis+cluster://one,[::1]:7001"),
        ("redis://redis\n", "redis://redis"),
        ("redis+sentinel://:pw@one,two/main?sentinel_password=pw", "redis+sentinel://one,two/main"),
        ("unix://user:pw@/run/redis.sock?password=pw", "unix:///run/redis.sock"),
    ],
)
def test_an_address_is_shown_without_user_password_and_options(url: str, shown: str) -> None:
    assert without_login(url) == shown


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://store?bogus=1", "bogus"),
        ("rediss+cluster://store?bogus=1", "bogus"),
        ("redis://store?decode_responses=true", "decode_responses"),
        ("unix:///s?bogus=1", "it knows no option bogus$"),
        ("redis://store?retry=3", "cannot use the store's address"),
        ("redis://store?protocol=9", "cannot use the store's address"),
        ("rediss://store?ssl_cert_reqs=bogus", "cannot use the store's address"),
    ],
)
def test_an_option_that_is_none_or_changes_the_answers_is_refused_before_it_is_used(url: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make_discovery(url)
