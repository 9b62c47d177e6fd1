"""Refuses what web pages of other origins ask, where no key tells who asks.

A browser sends the requests of any page to any address that its machine reaches, so a page that somebody looks at could
fail roots and discard completions. Three headers tell that, and no page can write them: `Origin` (Fetch standard) and
`Sec-Fetch-Site` (W3C Fetch Metadata) say whose page asks, `Host` under which name. A page that gives a name of its own
the address of the acker (DNS rebinding) is of the acker's origin to the browser: only the name in `Host` tells.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from acker_protocol.errors import ForbiddenOrigin
from acker_protocol.wire.fields import abbreviate
from starlette.datastructures import State
from starlette.types import Receive, Scope, Send

from acker_service.host_names import (
    DEFAULT_PORTS,
    Origin,
    has_host,
    is_loopback_name,
    read_address,
    read_authority,
    read_origin,
)
from acker_service.http import problems
from acker_service.http.http_metrics import OTHER, count_answer
from acker_service.http.load_shedding import FLOW, UNLIMITED_PATHS
from acker_service.http.parameters import first_of_each
from acker_service.metrics.instruments import HttpMetrics

MAX_HOSTS = 256
"""How many values of `Host` are remembered as names of the acker."""
MAX_HOST_BYTES = 255
"""How long a value may be to be remembered: longer ones, which may be as long as a head, are checked each time."""

_OWN = frozenset({b"same-origin", b"none"})
"""What `Sec-Fetch-Site` says of a page of the acker's own origin, and of an address that somebody typed."""
_PAGE, _BELOW_PAGE = ("/", "/ui"), "/ui/"
_OR_KEYS = "or require keys with ACKER_KEYS_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginPolicy:
    """Whose requests are taken without keys; ``hosts`` and ``origins`` are what the operator adds.

    ``is_loopback`` says that only programs of this machine reach the listener.
    """

    is_loopback: bool
    hosts: frozenset[str] = frozenset()
    origins: frozenset[Origin] = frozenset()

    def denial(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> str | None:
        """Return why a request is refused, None for one that is taken; ``headers`` have names in lower case."""
        host, origin = _text(headers.get(b"host")), _text(headers.get(b"origin"))
        if host is not None and path not in UNLIMITED_PATHS and not self.answers_to(host):
            return (
                f"{abbreviate(host)} in Host is no name of this acker, and without keys any web page could be behind "
                f"it: add the name to ACKER_ALLOWED_HOSTS, {_OR_KEYS}"
            )
        if origin is not None:
            if (given := read_origin(origin)) in self.origins:
                return None
            if not _is_of(given, host):
                named = "missing" if host is None else abbreviate(host)
                return _foreign(f"of {abbreviate(origin)} (Host is {named})")
        site = headers.get(b"sec-fetch-site")
        if site is not None and site not in _OWN and not _opens_page(method, path, headers):
            return _foreign(f"of another origin (Sec-Fetch-Site: {abbreviate(site.decode('latin-1'))})")
        return None

    def answers_to(self, host: str) -> bool:
        """Whether a value of `Host` may name this acker.

        A loopback name always may. On another listener any name may unless some are allowed, and an IP address always:
        no page of another origin can have one of the acker's.
        """
        authority = read_authority(host)
        if authority is None:
            return not (self.is_loopback or self.hosts)
        name = authority[0]
        if is_loopback_name(name) or has_host(self.hosts, name):
            return True
        return not self.is_loopback and (not self.hosts or read_address(name) is not None)


class OriginCheck:
    """Refuses requests by a policy as long as no keys are required: ``state.keys`` is None then."""

    def __init__(self, policy: OriginPolicy, state: State, metrics: HttpMetrics) -> None:
        self._policy = policy
        self._state = state
        self._metrics = metrics
        self._hosts: set[bytes | None] = set()

    def refusal(self, scope: Scope) -> ForbiddenOrigin | None:
        """Return the error that refuses a request, None for one that is taken."""
        if self._state.keys is not None:
            return None
        headers = first_of_each(scope["headers"])
        if self.takes(headers):  # nearly all: a lookup is all that they cost
            return None
        denial = self._policy.denial(scope["method"], scope["path"], headers)
        if denial is not None:
            return ForbiddenOrigin(denial)
        host = headers.get(b"host")
        if _names_no_page(headers) and scope["path"] not in UNLIMITED_PATHS and len(host or b"") <= MAX_HOST_BYTES:
            if len(self._hosts) >= MAX_HOSTS:
                self._hosts.clear()
            self._hosts.add(host)
        return None

    def takes(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request with these headers is taken for what was found before; False: `refusal` has to look."""
        return self._state.keys is not None or (_names_no_page(headers) and headers.get(b"host") in self._hosts)

    async def refuse(
        self, error: ForbiddenOrigin, scope: Scope, receive: Receive, send: Send, *, route: str = OTHER
    ) -> None:
        """Count a refused request under a route, and answer it."""
        started, flow = time.perf_counter(), scope.get(FLOW)
        if flow is not None and flow.write_paused:
            await flow.drain()
        response = problems.respond(error)
        count_answer(self._metrics, route, scope["method"], response.status_code, error.code, started)
        await response(scope, receive, send)


def _is_of(origin: Origin | None, host: str | None) -> bool:
    """Whether an origin has the host and the port of `Host`; a port that is left out is that of the origin's scheme.

    The scheme is not compared: a proxy in front of the acker may end TLS.
    """
    authority = None if host is None else read_authority(host)
    if origin is None or authority is None:
        return False
    scheme, *place = origin
    name, port = authority
    return place == [name, DEFAULT_PORTS.get(scheme) if port is None else port]


def _names_no_page(headers: Mapping[bytes, bytes]) -> bool:
    return b"origin" not in headers and b"sec-fetch-site" not in headers


def _opens_page(method: str, path: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether somebody follows a link to the page, in a tab and not in a frame."""
    return (
        method in ("GET", "HEAD")
        and (path in _PAGE or path.startswith(_BELOW_PAGE))
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _foreign(whose: str) -> str:
    return (
        f"a web page {whose} asks, and without keys only the acker's own page may: add its origin to "
        f"ACKER_ALLOWED_ORIGINS, {_OR_KEYS}"
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
