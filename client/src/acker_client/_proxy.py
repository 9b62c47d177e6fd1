"""The proxy on the way to an acker, as the environment names it: one rule for the client and for all commands.

The variables are those of most programs: ``http_proxy`` or ``https_proxy`` by the acker's scheme, else ``all_proxy``,
in small letters or capitals; ``no_proxy`` names hosts that are asked without one.
"""

import os
from dataclasses import dataclass, field
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from acker_protocol.errors import UsageError

SCHEMES = ("http", "https", "socks5", "socks5h")
"""The kinds of proxies that httpx speaks to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy: its URL, perhaps with a login, its address without that, and the variable that names it."""

    url: str = field(repr=False)
    address: str
    variable: str

    def __str__(self) -> str:
        return f"the proxy {self.address} ({self.variable})"

    @property
    def advice(self) -> str:
        """What to do where no request gets through it."""
        return f"Start the proxy, set {self.variable} to another, or name the acker's host in NO_PROXY"


def proxy_to(url: str) -> Proxy | None:
    """Find the proxy through which an acker is asked; None: none. Raises `UsageError` for one that cannot be used."""
    acker, proxies = urlsplit(url), getproxies()
    scheme = next((name for name in (acker.scheme, "all") if proxies.get(name)), None)
    if scheme is None or _is_left_out(acker):
        return None
    named, variable = proxies[scheme], _variable(scheme)
    found = _checked(named if "://" in named else f"http://{named}", variable)
    if found.scheme.startswith("socks") and find_spec("socksio") is None:
        raise _unusable(
            f"{_address(found)} ({variable}) needs the package socksio: pip install 'httpx[socks]'", variable
        )
    return Proxy(url=found.geturl(), address=_address(found), variable=variable)


def _is_left_out(acker: SplitResult) -> bool:
    host = acker.hostname or ""
    return bool(proxy_bypass(host) or (acker.port and proxy_bypass(f"{host}:{acker.port}")))


def _variable(scheme: str) -> str:
    """Name the variable as it is written; one in small letters wins. On macOS and Windows the system may name it."""
    names = [name for name in os.environ if name.lower() == f"{scheme}_proxy" and os.environ[name]]
    return max(names, key=str.islower, default="the settings of the system")


def _checked(url: str, variable: str) -> SplitResult:
    try:
        found = urlsplit(url)
        valid = found.hostname is not None and (found.port is None or found.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise _unusable(f"that {variable} names is no URL", variable)
    if found.scheme not in SCHEMES:
        kinds = f"{', '.join(SCHEMES[:-1])} or {SCHEMES[-1]}"
        raise _unusable(f"{_address(found)} ({variable}) is of no known kind: its URL begins with {kinds}", variable)
    return found


def _address(proxy: SplitResult) -> str:
    return f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"


def _unusable(what: str, variable: str) -> UsageError:
    return UsageError(f"the proxy {what}. Change or unset {variable}, or name the acker's host in NO_PROXY")
