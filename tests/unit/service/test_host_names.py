"""Host names, origins, and lists of them."""

import pytest
from acker_service.host_names import (
    Authority,
    Origin,
    has_host,
    is_loopback_name,
    read_authority,
    read_hosts,
    read_origin,
    read_origins,
)


@pytest.mark.parametrize(
    ("entry", "host", "is_there"),
    [
        ("hooks.internal", "hooks.internal", True),
        ("hooks.internal", "Hooks.Internal.", True),
        ("Hooks.Internal.", "hooks.internal", True),
        ("hooks.internal", "a.hooks.internal", False),
        ("hooks.internal", "hooks.internal.evil.example", False),
        ("hooks.internal", "xhooks.internal", False),
        (".internal", "hooks.internal", True),
        (".internal", "a.b.hooks.internal.", True),
        (".internal", "internal", False),
        (".internal", "hooksinternal", False),
        (".svc.cluster.local", "receiver.ns.svc.cluster.local", True),
        (".svc.cluster.local", "svc.cluster.local.evil.example", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "2130706433", False),
        ("127.0.0.1", "0x7f.1", False),
        ("::1", "::1", True),
        ("::1", "0:0::1", True),
        ("FE80:0::1", "fe80::1", True),
        ("::1", "::2", False),
        ("2130706433", "2130706433", True),
    ],
)
def test_a_list_has_a_host_by_its_very_name_or_by_its_ending(entry: str, host: str, is_there: object) -> None:
    assert has_host(read_hosts(entry), host) is is_there


def test_a_list_has_all_that_commas_separate() -> None:
    assert read_hosts("a.example, .internal,,") == {"a.example", ".internal"}
    assert read_hosts(" , ") == frozenset()


@pytest.mark.parametrize(
    "text", [".", "*", "*.internal", "a b", "http://a", "a/b", "a,.", ".1", ".0.0.1", ".0x7f", "a..b", "acker:80",
             "cafe:8700", "a:b", "beef:1", "1:2:3", ":80", "10.0.0.7:8700", "[::1]", "::1:g", "fe80::1%1", "a.example:"]
)  # fmt: skip
def test_what_is_no_host_nor_ending_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither a host name nor an ending"):
        read_hosts(text)


@pytest.mark.parametrize(
    ("text", "authority"),
    [
        ("localhost", ("localhost", None)),
        ("LocalHost.:8700", ("localhost", 8700)),
        ("acker.example:", ("acker.example", None)),
        ("acker.example:65535", ("acker.example", 65_535)),
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:8700", ("::1", 8700)),
        ("[0:0::1]", ("::1", None)),
        ("bücher.example", ("bücher.example", None)),
        *((text, None) for text in ("", ":", ":80", ".", "a:b", "a:123456", "a:65536")),
        *((text, None) for text in ("a b", "a/b", "a@b", "a,b", "::1", "[a")),
        ("[:]", None),
        ("[127.0.0.1]", None),
        ("[::1].example", None),
    ],
)  # fmt: skip
def test_a_host_is_read_with_its_port(text: str, authority: Authority | None) -> None:
    assert read_authority(text) == authority


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://localhost:8700", ("http", "localhost", 8700)),
        ("http://acker.example", ("http", "acker.example", 80)),
        ("HTTPS://Acker.Example", ("https", "acker.example", 443)),
        ("https://[::1]", ("https", "::1", 443)),
        ("chrome-extension://abcdef", ("chrome-extension", "abcdef", None)),
        *((text, None) for text in ("null", "", "acker.example", "http://", "://a", "http://a/", "http://a/b", "//a")),
    ],
)
def test_an_origin_is_read_with_the_port_of_its_scheme(text: str, origin: Origin | None) -> None:
    assert read_origin(text) == origin


def test_a_list_of_origins_is_read_or_refused_with_the_entry_that_is_none() -> None:
    assert read_origins("https://a.example, http://b:1") == {("https", "a.example", 443), ("http", "b", 1)}
    assert read_origins("") == frozenset()
    with pytest.raises(ValueError, match=r"^'https://\*' is no origin of a web page"):
        read_origins("https://b.example,https://*")


@pytest.mark.parametrize(
    "wrong",
    ["null", "a.example", "https://a.example/", "*", "https://*", "https://*.example", "https://*:8443", "https://.example",
     "https://a..example", "https://a!b", "https://bücher.example", "http://127.1", "http://2130706433", "http://0x7f.1",
     "http://a.example:65536"],
)  # fmt: skip
def test_an_origin_that_no_page_can_have_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is no origin of a web page"):
        read_origins(wrong)


@pytest.mark.parametrize(
    "right",
    ["https://a_b.xn--bcher-kva.example", "http://127.0.0.1:3000", "http://[0:0::1]:3000", "http://web1:8080",
     "https://a.1b", "chrome-extension://abcdef", "tauri://localhost"],
)  # fmt: skip
def test_an_origin_that_a_page_can_have_is_taken(right: str) -> None:
    assert read_origins(right) == {read_origin(right)}


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_a_browser_takes_a_loopback_name_for_its_own_machine(host: str) -> None:
    assert is_loopback_name(host)


@pytest.mark.parametrize(
    "host", ["", "acker", "localhost.example", "xlocalhost", "0.0.0.0", "10.0.0.1", "::", "127.1", "2130706433"]
)
def test_any_other_name_is_none(host: str) -> None:
    assert not is_loopback_name(host)
