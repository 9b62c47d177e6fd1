"""The URL of a Redis: a single server, sentinels or a cluster."""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

PORTS = {"redis": 6379, "sentinel": 26379, "cluster": 6379}
FORMS = (
    "redis://host:port/db, rediss://… (TLS), unix:///socket, redis+sentinel://host:port,…/name[/db] "
    "or redis+cluster://host:port,…"
)


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
    scheme, _, kind = urlsplit(url).scheme.partition("+")
    if url.startswith("unix://"):
        return RedisUrl(kind=Kind.STANDALONE)
    if scheme not in ("redis", "rediss") or kind not in ("", *PORTS) or (kind == "redis"):
        raise ValueError(f"the store's address has to be {FORMS}")
    return _read(url, Kind(kind or "redis"), tls=scheme == "rediss")


def _read(url: str, kind: Kind, *, tls: bool) -> RedisUrl:
    parts = urlsplit(url)
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
        raise ValueError(f"{database!r} is no database: it has to be a number")
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
    parts = urlsplit(f"//{text}")
    try:
        found = parts.port
    except ValueError:
        raise ValueError(f"{text.rpartition(':')[2]} is no port") from None
    if parts.hostname is None:
        raise ValueError(f"the store's address names no host: {FORMS}")
    return parts.hostname, port if found is None else found
