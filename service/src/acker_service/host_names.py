"""Reads host names and origins as settings and the headers of requests write them, and lists of them."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

Authority = tuple[str, int | None]
"""A host, IPv6 without brackets, and its port; None where none is written."""
Origin = tuple[str, str, int | None]
"""Scheme, host and port of a web page; the port of http and https is filled in."""

DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_PORT = 65_535

_LABEL = "[a-z0-9_-]{1,63}"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
# Only a name can end like this: the last label of 127.0.0.1 and of 0x7f.1 begins with a digit.
_SUFFIX = re.compile(rf"(\.{_LABEL})*\.[a-z_][a-z0-9_-]{{0,62}}", re.ASCII)
# What ends like this is an IPv4 address to browsers (URL standard), which spell it in the usual way.
_NUMBER = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)", re.ASCII)
_IPV6 = re.compile("[0-9a-f:.]*:[0-9a-f:.]*", re.ASCII)
_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/?#@\\,\s]+))(?::([0-9]{0,5}))?", re.ASCII)
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(.+)", re.ASCII)


def split_list(text: str) -> list[str]:
    """Return the entries of a list, which commas separate."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def read_hosts(text: str) -> frozenset[str]:
    """Parse host names and suffixes with a leading dot, separated by commas. Raises ``ValueError``."""
    hosts = set[str]()
    for entry in split_list(text):
        host = _usual(entry)
        if not (_NAME.fullmatch(host) or _SUFFIX.fullmatch(host) or _IPV6.fullmatch(host)):
            raise ValueError(f"{entry!r} is neither a host name nor an ending of host names, such as .internal")
        hosts.add(host)
    return frozenset(hosts)


def has_host(hosts: frozenset[str], host: str) -> bool:
    """Whether a list of `read_hosts` has a host, as it is written.

    ``hooks.internal`` has this one name; ``.internal`` every name below it at any depth, but not ``internal`` itself.
    An IPv6 address is the same in every spelling, an IPv4 address only in its usual one.
    """
    host = _usual(host)
    return any(host == entry or (entry[0] == "." and host.endswith(entry)) for entry in hosts)


def read_authority(text: str) -> Authority | None:
    """Read a host and its port, as `Host` has them; None if it is none."""
    found = _AUTHORITY.fullmatch(text.lower())
    if found is None:
        return None
    host = found[2].removesuffix(".") if found[1] is None else _shortened(found[1])
    port = int(found[3]) if found[3] else None
    return (host, port) if host and (port is None or port <= MAX_PORT) else None


def read_origin(text: str) -> Origin | None:
    """Read the origin of a web page, as `Origin` has it; None if it is none: ``null`` is that of any page."""
    found = _ORIGIN.fullmatch(text.lower())
    authority = read_authority(found[2]) if found else None
    if found is None or authority is None:
        return None
    host, port = authority
    return found[1], host, DEFAULT_PORTS.get(found[1]) if port is None else port


def read_origins(text: str) -> frozenset[Origin]:
    """Parse origins of web pages, separated by commas. Raises ``ValueError``, also for one that no page can have."""
    origins = set[Origin]()
    for entry in split_list(text):
        origin = read_origin(entry)
        if origin is None or not _is_spelled_by_browsers(origin[1]):
            raise ValueError(f"{entry!r} is no origin of a web page, such as https://acker.example:8443")
        origins.add(origin)
    return frozenset(origins)


def read_address(host: str) -> IPv4Address | IPv6Address | None:
    """Read an IP address in its usual spelling; None if a host is another name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_loopback_name(host: str) -> bool:
    """Whether browsers take a host for their own machine, whatever a name server says."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = read_address(host)
    return address is not None and address.is_loopback


def _is_spelled_by_browsers(host: str) -> bool:
    """Whether a browser may send a host like this; its names are ASCII, and it knows no ``*``."""
    return read_address(host) is not None or bool(_NAME.fullmatch(host) and not _NUMBER.fullmatch(host))


def _usual(host: str) -> str:
    """Return a host in lower case without a final dot, an IPv6 address as browsers spell it; empty: it is none."""
    host = host.lower().removesuffix(".")
    return _shortened(host) if ":" in host else host


def _shortened(address: str) -> str:
    """Return an IPv6 address as browsers spell it; empty if it is none."""
    found = read_address(address)
    return found.compressed if isinstance(found, IPv6Address) else ""
