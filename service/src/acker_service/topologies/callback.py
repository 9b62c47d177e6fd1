"""Callbacks of spout tasks: how they are read, registered, rotated, paused and resumed.

``{"kind": "webhook", "url", "secret"?}`` posts completions to a URL, ``{"kind": "pubsub"}`` publishes them, null leaves
them to be pulled. A registered callback is ``on``; ``paused`` after no delivery succeeded for long; ``off`` after its
receiver said that it is gone. Paused or off, it stays until it is resumed or changed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import IPv6Address
from typing import Any

from acker_protocol.signature import secret_key
from acker_protocol.wire.fields import abbreviate, text

URL_CHARACTERS = 2_048
PORTS = {"http": 80, "https": 443}
PORT = range(1, 65_536)
PORT_DIGITS = 5

ROTATION_MS = 86_400_000
"""Milliseconds after a rotation in which the secret before it signs too."""

_VISIBLE = re.compile(r"[\x21-\x7e]+", re.ASCII)
_URL = re.compile(r"(https?)://([^/?]+)([^?]*)(\?.*)?", re.ASCII | re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::([0-9]*))?", re.ASCII)
_LABEL = "[A-Za-z0-9_-]{1,63}"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\.?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address in a URL. ``host`` is a name or an IP address without brackets, ``target`` the path and the query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def name(self) -> str:
        """The name of the receiver, for TLS and its own log: without the dot that ends a full name."""
        return self.host.removesuffix(".")

    @property
    def authority(self) -> str:
        """The Host header."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == PORTS[self.scheme] else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Completions are posted to ``url``. ``secret`` None keeps the present secret, or generates one."""

    url: str
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PubSub:
    """Completions are published."""


Callback = Webhook | PubSub


class CallbackStatus(StrEnum):
    """Whether completions are delivered to a callback."""

    ON = "on"
    PAUSED = "paused"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret, and until when it signs, in Unix milliseconds (None: until it is changed)."""

    text: str = field(repr=False)
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredCallback:
    """A callback that is registered.

    ``callback_epoch_ms`` rises whenever delivery has to start again from the beginning; ``error`` is why it is not on.
    """

    kind: str
    callback_epoch_ms: int
    url: str | None = None
    secrets: tuple[Secret, ...] = ()
    state: CallbackStatus = CallbackStatus.ON
    error: str | None = None

    @property
    def owns_mailbox(self) -> bool:
        """Whether only the delivery to this callback may release completions."""
        return self.kind == "webhook"

    def secrets_at(self, now_ms: int) -> list[str]:
        """Return the secrets that sign at this time, the newest first."""
        return [secret.text for secret in self.secrets if secret.until_ms is None or now_ms < secret.until_ms]

    def public(self) -> dict[str, Any]:
        """Write what callers see of it, but for how the delivery goes: no secret."""
        address = {"url": self.url} if self.url is not None else {}
        return {"kind": self.kind, **address, "state": self.state.value}

    def document(self) -> dict[str, Any]:
        """Write it as Redis keeps it."""
        secrets = [{"text": secret.text, "until_ms": secret.until_ms} for secret in self.secrets]
        members = {"kind": self.kind, "since_ms": self.callback_epoch_ms, "url": self.url, "secrets": secrets}
        return members | {"state": self.state.value, "error": self.error}


def read_callback(document: Any) -> Callback:
    """Read a callback that is not null. Raises ``ValueError``, whose text continues the word "callback"."""
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
    """Read the address in a URL. Raises ``ValueError`` for any other than an http or https URL without a user."""
    if len(url) > URL_CHARACTERS:
        raise ValueError(f"must be at most {URL_CHARACTERS} characters")
    # Some clients ignore tabs and line ends, or read \ as /: all must read the same address.
    if not _VISIBLE.fullmatch(url) or "\\" in url:
        raise ValueError("must be of visible ASCII characters: others percent-encoded, a host in its xn-- form")
    if "#" in url:
        raise ValueError("must have no fragment (#…): it would not be sent")
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError("must be an http or https URL")
    scheme, authority, path, query = found.groups(default="")
    host, port = _host_and_port(authority)
    return Address(
        scheme=scheme.lower(), host=host, port=_port(port) or PORTS[scheme.lower()], target=(path or "/") + query
    )


def decode_registered(document: dict[str, Any]) -> RegisteredCallback:
    """Read a callback as Redis keeps it; fields of a later release are ignored."""
    secrets = tuple(Secret(text=secret["text"], until_ms=secret["until_ms"]) for secret in document.get("secrets", ()))
    return RegisteredCallback(
        kind=document["kind"],
        callback_epoch_ms=document["since_ms"],
        url=document.get("url"),
        secrets=secrets,
        state=CallbackStatus(document["state"]),
        error=document.get("error"),
    )


def register_callback(
    callback: Callback, present: RegisteredCallback | None, *, now_ms: int, make_secret: Callable[[], str]
) -> RegisteredCallback:
    """Register a callback in place of the present one.

    Registering the same callback again changes nothing, not even whether it is paused. A webhook without
    a secret keeps the present secret, or else gets one from ``make_secret``.
    """
    if not isinstance(callback, Webhook):
        same = present is not None and present.kind == "pubsub"
        return (
            present
            if present and same
            else _restarted(RegisteredCallback(kind="pubsub", callback_epoch_ms=0), present, now_ms)
        )
    secrets = present.secrets if present else ()
    if callback.secret is not None and callback.secret not in [secret.text for secret in secrets[:1]]:
        secrets = (Secret(text=callback.secret),)
    secrets = secrets or (Secret(text=make_secret()),)
    if present is not None and present.kind == "webhook" and present.url == callback.url:
        return replace(present, secrets=secrets)
    return _restarted(
        RegisteredCallback(kind="webhook", callback_epoch_ms=0, url=callback.url, secrets=secrets), present, now_ms
    )


def generated_secret(
    callback: Callback | None, before: RegisteredCallback | None, after: RegisteredCallback | None
) -> str | None:
    """Return the secret that was generated for a callback, if one was; it is shown only once."""
    if not isinstance(callback, Webhook) or callback.secret is not None or after is None:
        return None
    return None if before is not None and before.secrets else after.secrets[0].text


def rotate(present: RegisteredCallback, *, now_ms: int, secret: str) -> RegisteredCallback:
    """Sign with a new secret; for one day also with the present one."""
    before = tuple(replace(old, until_ms=now_ms + ROTATION_MS) for old in present.secrets[:1])
    return replace(present, secrets=(Secret(text=secret), *before))


def resume(present: RegisteredCallback, *, now_ms: int) -> RegisteredCallback:
    """Deliver again, from the beginning of what is left; a webhook that is on does not wait for its next try."""
    if present.state is CallbackStatus.ON and present.kind == "pubsub":
        return present
    return _restarted(replace(present, state=CallbackStatus.ON, error=None), present, now_ms)


def pause(present: RegisteredCallback) -> RegisteredCallback:
    """Deliver nothing until it is resumed; one that is not on delivers nothing already, and stays as it is."""
    return replace(present, state=CallbackStatus.PAUSED) if present.state is CallbackStatus.ON else present


def deactivate(present: RegisteredCallback, state: CallbackStatus, error: str) -> RegisteredCallback:
    """Stop delivering."""
    return replace(present, state=state, error=error)


def _restarted(callback: RegisteredCallback, before: RegisteredCallback | None, now_ms: int) -> RegisteredCallback:
    """Start the epoch of a callback now, after that of the one before it whatever the clock says."""
    return replace(callback, callback_epoch_ms=max(now_ms, before.callback_epoch_ms + 1 if before else 0))


def _host_and_port(authority: str) -> tuple[str, str]:
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
    except ValueError as error:
        raise ValueError(f"url {error}") from None
    return url


def _read_secret(value: Any) -> str | None:
    if value is None:
        return None
    try:
        secret = text(value)
        secret_key(secret)
    except ValueError as error:
        raise ValueError(f"secret {error}") from None
    return secret


def _only(document: dict[str, Any], *known: str) -> None:
    for name in document:
        if name not in known:
            raise ValueError(f"has no field {abbreviate(name)} for its kind")
