"""Tests to which addresses webhook requests may go."""

from ipaddress import IPv6Address

import pytest
from acker_service.delivery.egress import EgressPolicy, read_networks
from acker_service.host_names import read_hosts
from hypothesis import given
from hypothesis import strategies as st

PUBLIC_ONLY = EgressPolicy()

DENIED = {
    "unspecified": "0.0.0.0 0.1.2.3 ::",
    "loopback": "127.0.0.1 127.255.255.254 ::1",
    "private": "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 fc00::1 fd12:3456::1 fec0::1",
    "link-local": "169.254.169.254 169.254.0.1 fe80::1 fe80::1%1 febf::1",
    "carrier-grade NAT": "100.64.0.1 100.127.255.255",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ff0e::1",
    "mapped IPv4": "::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:8.8.8.8 ::ffff:a9fe:a9fe ::ffff:0:127.0.0.1",
    "compatible IPv4": "::127.0.0.1 ::10.0.0.1 ::2 ::8.8.8.8",
    "NAT64": "64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::10.0.0.1",
    "Teredo": "2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "6to4": "2002:7f00:1::1 2002:a00:1::1 2002:808:808::1 192.88.99.1",
    "documentation": "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1",
    "benchmarking": "198.18.0.1 198.19.255.255 2001:2::1",
    "reserved": "192.0.0.1 240.0.0.1 255.255.255.255 2001:10::1 2001:20::1 100::1 5f00::1 4000::1 fe00::1 e000::1",
}
PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 169.253.255.255
    169.255.0.1 172.15.255.255 172.32.0.1 192.0.1.1 192.167.255.255 192.169.0.1 198.17.255.255 198.20.0.1
    223.255.255.255 2001:200::1 2001:4860:4860::8888 2606:4700::1111 2a00:1450::1 3ffe::1
"""


@pytest.mark.parametrize(
    ("address", "kind"), [(address, kind) for kind, addresses in DENIED.items() for address in addresses.split()]
)
def test_an_address_that_is_not_for_the_public_is_refused_by_its_kind(address, kind):
    assert PUBLIC_ONLY.denial(address) == kind


@pytest.mark.parametrize("address", PUBLIC.split())
def test_a_public_address_is_not_refused(address):
    assert PUBLIC_ONLY.denial(address) is None


@given(st.ip_addresses())
def test_nothing_is_public_here_that_python_knows_to_be_otherwise(address):
    if PUBLIC_ONLY.denial(str(address)) is None:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_inside_an_ipv6_address_is_refused_whatever_it_is(address):
    last = {"::": 0, "::ffff:0:0": 0, "::ffff:0:0:0": 0, "64:ff9b::": 0, "64:ff9b:1::": 0, "2001::": 0, "2002::": 80}
    for prefix, shift in last.items():
        form = IPv6Address(int(IPv6Address(prefix)) + (int(address) << shift))
        assert PUBLIC_ONLY.denial(str(form)) is not None, form


def test_an_address_in_an_allowed_network_is_not_refused():
    policy = EgressPolicy(networks=read_networks("10.1.0.0/16, fd00::/8,127.0.0.1"))
    assert {policy.denial(address) for address in ("10.1.2.3", "fd12::1", "127.0.0.1")} == {None}
    assert policy.denial("10.2.0.1") == "private"
    assert policy.denial("127.0.0.2") == "loopback"


def test_an_allowed_network_does_not_allow_other_forms_of_its_addresses():
    policy = EgressPolicy(networks=read_networks("0.0.0.0/0"))
    assert policy.denial("127.0.0.1") is None
    assert policy.denial("::ffff:127.0.0.1") == "mapped IPv4"
    assert EgressPolicy(networks=read_networks("::ffff:0:0/96")).denial("::ffff:127.0.0.1") is None


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "10.0.0", "localhost", "10.0.0.0/8;10.0.0.0/8"])
def test_what_is_no_network_is_refused(text):
    with pytest.raises(ValueError, match=r"10\.0\.0|localhost"):
        read_networks(text)


def test_empty_settings_allow_nothing():
    assert EgressPolicy(networks=read_networks(""), hosts=read_hosts(" , ")) == PUBLIC_ONLY


def test_any_of_several_entries_allows_a_host():
    policy = EgressPolicy(hosts=read_hosts("a.example, .internal"))
    assert policy.allows_host("a.example")
    assert policy.allows_host("b.internal")
    assert not policy.allows_host("b.example")
    assert not PUBLIC_ONLY.allows_host("a.example")


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("localhost", "loopback"),
        ("LOCALHOST.", "loopback"),
        ("2130706433", "loopback"),
        ("0x7f.1", "loopback"),
        ("0177.0.0.1", "loopback"),
        ("10.1", "private"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "mapped IPv4"),
    ],
)
def test_an_address_that_a_host_spells_out_is_judged_in_every_spelling(host, kind):
    assert PUBLIC_ONLY.literal_denial(host) == kind


@pytest.mark.parametrize("host", ["8.8.8.8", "0x08080808", "2001:4860:4860::8888", "shop.example", "1.2.3.4.5"])
def test_a_public_address_and_a_name_are_not_denied_by_how_they_are_spelt(host):
    assert PUBLIC_ONLY.literal_denial(host) is None


def test_a_spelt_address_is_allowed_by_its_host_or_one_of_its_networks():
    assert EgressPolicy(hosts=read_hosts("localhost")).literal_denial("localhost") is None
    assert EgressPolicy(networks=read_networks("127.0.0.0/8")).literal_denial("localhost") is None
    assert EgressPolicy(networks=read_networks("127.0.0.0/8")).literal_denial("10.0.0.1") == "private"
