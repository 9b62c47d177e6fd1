"""The URL of a Redis: a single server, sentinels or a cluster."""

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

PORTS = {"redis": 6379, "sentinel": 26379, "cluster": 6379}
FORMS = (
    "redis://host:port/db, rediss://… (TLS), unix:///socket, redis+sentinel://host:port,…/name[/db] "
    "or redis+cluster://host:port,…"
)

ENCODED = "in a password, percent-encode / ? # @ [ and ]"
"""Why a part of an address may not be what it seems: a password that is not encoded ends where one of these is."""

_BEFORE_AND_NETLOC = re.compile(r"([^/?#]*//)([^/?#]*)")


class Kind(StrEnum):
    """How a client finds the primaries of a store."""

    STANDALONE = "redis"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisUrl:
    """A parsed URL. ``addresses`` are those of the server, the sentinels or some nodes of the cluster.

    ``credentials`` (``user:password@`` or empty), ``database`` and ``options`` (the URL's query, in redis-py's names)
    are the same for every server. ``name`` is the sentinels' name of the primary, ``sentinel_credentials`` are theirs.
    """

    kind: Kind
    addresses: tuple[Address, ...] = ()
    tls: bool = False
    credentials: str = ""
    name: str = ""
    sentinel_credentials: str = ""
    database: str = ""
    options: str = ""

    def url(self, address: Address) -> str:
        """Write the URL of one server for redis-py."""
        return self._url(address, self.credentials, self.database)

    def sentinel_url(self, address: Address) -> str:
        """Write the URL of one sentinel for redis-py."""
        return self._url(address, self.sentinel_credentials, "")

    def _url(self, address: Address, credentials: str, database: str) -> str:
        host, port = address
        netloc = f"{credentials}[{host}]:{port}" if ":" in host else f"{credentials}{host}:{port}"
        return urlunsplit(("rediss" if self.tls else "redis", netloc, f"/{database}", self.options, ""))


def read_redis_url(url: str) -> RedisUrl:
    """Parse a URL. Raises ``ValueError``, whose text has no password."""
    parts = _split(url)
    scheme, _, kind = parts.scheme.partition("+")
    if url.startswith("unix://"):
        return RedisUrl(kind=Kind.STANDALONE)
    if scheme not in ("redis", "rediss") or kind not in ("", *PORTS) or (kind == "redis"):
        raise ValueError(f"the store's address has to be {FORMS}")
    if parts.fragment or not all("=" in option for option in parts.query.split("&") if option):
        raise ValueError(f"the store's address has options that are none: they follow a ? as name=value; {ENCODED}")
    return _read(parts, Kind(kind or "redis"), tls=scheme == "rediss")


def without_login(url: str) -> str:
    """Write an address without its user, passwords and options, for logs. Raises ``ValueError`` as `read_redis_url`."""
    read_redis_url(url)
    parts = _split(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _split(url: str) -> SplitResult:
    """Split a URL as ``urlsplit`` does, which since Python 3.11.12 takes no IPv6 address behind another host.

    Raises ``ValueError``, whose text has no password.
    """
    url = url.strip()
    found = _BEFORE_AND_NETLOC.match(url)
    if found is None:
        return urlsplit(url)
    before, netloc = found.groups()
    if set("[]") & set(netloc.rpartition("@")[0]):
        raise ValueError(f"the store's address cannot be read; {ENCODED}")
    return urlsplit(before + url[found.end() :])._replace(netloc=netloc)


def _read(parts: SplitResult, kind: Kind, *, tls: bool) -> RedisUrl:
    login, at, hosts = parts.netloc.rpartition("@")
    path = [unquote(step) for step in parts.path.split("/") if step]
    if kind is Kind.SENTINEL and not path:
        raise ValueError("say what the sentinels call the primary: redis+sentinel://host:port/name")
    if kind is Kind.CLUSTER and path:
        raise ValueError("a cluster has no databases: redis+cluster://host:port,host:port")
    options = dict(parse_qsl(parts.query))
    user, password = options.pop("sentinel_username", ""), options.pop("sentinel_password", "")
    database = path[-1] if path[1 if kind is Kind.SENTINEL else 0 :] else "0"
    if not database.isdecimal():
        raise ValueError(f"the store's address names no database: it has to be a number; {ENCODED}")
    return RedisUrl(
        kind=kind,
        addresses=tuple(_address(host, PORTS[kind]) for host in hosts.split(",")),
        tls=tls,
        credentials=login + at,
        name=path.pop(0) if kind is Kind.SENTINEL else "",
        database=database,
        sentinel_credentials=f"{quote(user, safe='')}:{quote(password, safe='')}@" if password else "",
        options=urlencode(options),
    )


def _address(text: str, port: int) -> Address:
    """Read ``host``, ``host:port`` or ``[v6]:port``."""
    try:
        parts = urlsplit(f"//{text}")
    except ValueError:
        raise ValueError(f"the store's address names no host that can be read; {ENCODED}") from None
    try:
        found = parts.port
    except ValueError:
        raise ValueError(f"the store's address names no port: it has to be a number up to 65535; {ENCODED}") from None
    if parts.hostname is None:
        raise ValueError(f"the store's address names no host: {FORMS}")
    return parts.hostname, port if found is None else found
