"""Knows the callback of a spout task: how its completions reach it.

``{"kind": "webhook", "url", "secret"?}`` posts them to a URL, ``{"kind": "pubsub"}`` publishes them, null leaves them
to be pulled.
"""

import re
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Any

from acker_protocol.signature import secret_key
from acker_protocol.wire.fields import abbreviate, text

URL_CHARACTERS = 2_048
PORTS = {"http": 80, "https": 443}
PORT = range(1, 65_536)
PORT_DIGITS = 5

_VISIBLE = re.compile(r"[\x21-\x7e]+", re.ASCII)
_URL = re.compile(r"(https?)://([^/?]+)([^?]*)(\?.*)?", re.ASCII | re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::([0-9]*))?", re.ASCII)
_LABEL = "[A-Za-z0-9_-]{1,63}"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\.?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a URL leads. ``host`` is a name or an IP address without brackets, ``target`` the path and the query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def name(self) -> str:
        """The name that the receiver goes by, for TLS and its own log: the dot that ends a full name is left out."""
        return self.host.removesuffix(".")

    @property
    def authority(self) -> str:
        """The Host header."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == PORTS[self.scheme] else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Completions are posted to ``url``. ``secret`` None: the present one stays, or one is to be made."""

    url: str
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PubSub:
    """Completions are published."""


Callback = Webhook | PubSub


def read_callback(document: Any) -> Callback:
    """Read a callback that is not null. Raises ``ValueError`` that goes on from the word "callback"."""
    if not isinstance(document, dict):
        raise ValueError("must be null or an object with a kind")  # noqa: TRY004 - every check raises one kind of error
    match document.get("kind"):
        case "webhook":
            _only(document, "kind", "url", "secret")
            return Webhook(url=_read_url(document.get("url")), secret=_read_secret(document.get("secret")))
        case "pubsub":
            _only(document, "kind")
            return PubSub()
    raise ValueError("kind must be webhook or pubsub")


def read_address(url: str) -> Address:
    """Read where a URL leads. Raises ``ValueError`` for what is no http or https URL, or more than an address."""
    if len(url) > URL_CHARACTERS:
        raise ValueError(f"must be at most {URL_CHARACTERS} characters")
    # Some pass over tabs and line ends, or take \ for /: a URL is to lead everybody to the same place.
    if not _VISIBLE.fullmatch(url) or "\\" in url:
        raise ValueError("must be of visible ASCII characters: others percent-encoded, a host in its xn-- form")
    if "#" in url:
        raise ValueError("must have no fragment (#…): it would not be sent")
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError("must be an http or https URL")
    scheme, authority, path, query = found.groups(default="")
    host, port = _place(authority)
    return Address(
        scheme=scheme.lower(), host=host, port=_port(port) or PORTS[scheme.lower()], target=(path or "/") + query
    )


def _place(authority: str) -> tuple[str, str]:
    if "@" in authority:
        raise ValueError("must hold no user or password: the signature says who calls")
    found = _AUTHORITY.fullmatch(authority)
    ipv6, name, port = found.groups(default="") if found else ("", "", "")
    if not (_is_ipv6(ipv6) or _NAME.fullmatch(name)):
        raise ValueError("must have a host name or an IP address, and at most a port with it")
    return (ipv6 or name).lower(), port


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def _port(text: str) -> int | None:
    if not text:
        return None
    if len(text) > PORT_DIGITS or int(text) not in PORT:
        raise ValueError("must have a port from 1 to 65535, or none")
    return int(text)


def _read_url(value: Any) -> str:
    if value is None:
        raise ValueError("url is missing")
    try:
        url = text(value)
        read_address(url)
    except ValueError as fault:
        raise ValueError(f"url {fault}") from None
    return url


def _read_secret(value: Any) -> str | None:
    if value is None:
        return None
    try:
        secret = text(value)
        secret_key(secret)
    except ValueError as fault:
        raise ValueError(f"secret {fault}") from None
    return secret


def _only(document: dict[str, Any], *known: str) -> None:
    for name in document:
        if name not in known:
            raise ValueError(f"has no field {abbreviate(name)} for its kind")
