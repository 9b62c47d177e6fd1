"""Decides to which IP addresses webhook requests may go, as a guard against server-side request forgery.

Callers choose the URLs of their webhooks, and could reach the operator's internal network through the acker.
Every address that is not public is denied, unless the operator allows it.
"""

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from acker_service.host_names import has_host, split_list

Network = IPv4Network | IPv6Network

# The registries of special-purpose addresses (RFC 6890), and the IPv6 ranges that embed an IPv4 address: these would
# be another spelling of a denied address. Written out, because Python's own lists differ by release.
_KINDS = {
    "unspecified": ("0.0.0.0/8", "::/128"),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "carrier-grade NAT": ("100.64.0.0/10",),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "mapped IPv4": ("::ffff:0:0/96", "::ffff:0:0:0/96"),
    "compatible IPv4": ("::/96",),
    "NAT64": ("64:ff9b::/96", "64:ff9b:1::/48"),
    "Teredo": ("2001::/32",),
    "6to4": ("192.88.99.0/24", "2002::/16"),
    "documentation": ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    "benchmarking": ("198.18.0.0/15", "2001:2::/48"),
    "reserved": ("192.0.0.0/24", "240.0.0.0/4", "2001::/23"),
}
_DENIED = [(ip_network(network), kind) for kind, networks in _KINDS.items() for network in networks]
_PUBLIC_6 = IPv6Network("2000::/3")


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    """What the operator allows besides public addresses."""

    networks: tuple[Network, ...] = ()
    """Allowed as written: 10.0.0.0/8 does not allow ::ffff:10.0.0.1."""
    hosts: frozenset[str] = frozenset()
    """Hosts that may have any address, compared with the host in the URL (`has_host`)."""

    def allows_host(self, host: str) -> bool:
        """Whether the host of a URL is allowed by name, whatever its addresses."""
        return has_host(self.hosts, host)

    def denial(self, address: str) -> str | None:
        """Return the kind of a denied IP address; None for an allowed one."""
        ip = ip_address(address)
        if any(ip in network for network in self.networks):
            return None
        return _kind(ip)

    def literal_denial(self, host: str) -> str | None:
        """Return the kind of address that a URL's host spells out, if it is denied; None for an allowed one.

        An address counts in any spelling that resolvers take, and ``localhost`` as its two addresses.
        None for every other name, too: its addresses are known only when it is resolved.
        """
        if self.allows_host(host):
            return None
        denials = [self.denial(address) for address in _literal_addresses(host)]
        return denials[0] if denials and None not in denials else None


def read_networks(text: str) -> tuple[Network, ...]:
    """Parse networks in CIDR form, separated by commas. Raises ``ValueError``."""
    return tuple(ip_network(entry) for entry in split_list(text))


def _literal_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses that a host spells out: IPv6, or IPv4 as `inet_aton` reads it (2130706433, 0x7f.1)."""
    host = host.lower().removesuffix(".")
    if host == "localhost":
        return "127.0.0.1", "::1"
    if ":" in host:
        return (host,)
    try:
        return (socket.inet_ntoa(socket.inet_aton(host)),)
    except OSError:
        return ()


def _kind(ip: IPv4Address | IPv6Address) -> str | None:
    for network, kind in _DENIED:
        if ip in network:
            return kind
    # IANA has allocated only this part of IPv6; the rest is reserved.
    return "reserved" if ip.version == 6 and ip not in _PUBLIC_6 else None
