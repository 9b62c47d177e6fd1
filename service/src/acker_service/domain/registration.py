"""Knows a callback as it is registered: where it leads, with which secrets, whether it is on, since when.

A callback is ``on``; ``paused`` after nothing was delivered for long; ``off`` after its receiver said that it is gone.
Paused or off it stays until it is resumed or led elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from acker_service.domain.callback import Callback, Webhook

ROTATION_MS = 86_400_000
"""For so long after a rotation the secret before it signs too."""


class State(StrEnum):
    """Whether a callback is delivered to."""

    ON = "on"
    PAUSED = "paused"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret, and until when it signs (None: until it is changed)."""

    text: str = field(repr=False)
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A callback that is registered.

    ``since_ms`` rises whenever delivery has to begin anew; ``error`` is why it is not on.
    """

    kind: str
    since_ms: int
    url: str | None = None
    secrets: tuple[Secret, ...] = ()
    state: State = State.ON
    error: str | None = None

    @property
    def owns(self) -> bool:
        """Whether nobody else may release the completions."""
        return self.kind == "webhook"

    def secrets_at(self, now_ms: int) -> list[str]:
        """Give the secrets that sign now, the newest first."""
        return [secret.text for secret in self.secrets if secret.until_ms is None or now_ms < secret.until_ms]

    def public(self) -> dict[str, Any]:
        """What callers see of it: no secret."""
        address = {"url": self.url} if self.url is not None else {}
        error = {"error": self.error} if self.error is not None else {}
        return {"kind": self.kind, **address, "state": self.state.value, **error}

    def document(self) -> dict[str, Any]:
        """Write it as it is kept."""
        secrets = [{"text": secret.text, "until_ms": secret.until_ms} for secret in self.secrets]
        members = {"kind": self.kind, "since_ms": self.since_ms, "url": self.url, "secrets": secrets}
        return members | {"state": self.state.value, "error": self.error}


def read_registered(document: dict[str, Any]) -> Registered:
    """Read it as it is kept; what a later release knows of it is passed over."""
    known = {name: value for name, value in document.items() if name in Registered.__dataclass_fields__}
    secrets = tuple(Secret(text=secret["text"], until_ms=secret["until_ms"]) for secret in known.pop("secrets", ()))
    return Registered(**known | {"state": State(known["state"]), "secrets": secrets})


def register(
    callback: Callback, present: Registered | None, *, now_ms: int, make_secret: Callable[[], str]
) -> Registered:
    """Register a callback in the place of the present one: the same one changes nothing, its state neither.

    A webhook without a secret keeps the present one; where there is none, one is made.
    """
    if not isinstance(callback, Webhook):
        same = present is not None and present.kind == "pubsub"
        return present if present and same else _begun(Registered(kind="pubsub", since_ms=0), present, now_ms)
    secrets = present.secrets if present else ()
    if callback.secret is not None and callback.secret not in [secret.text for secret in secrets[:1]]:
        secrets = (Secret(text=callback.secret),)
    secrets = secrets or (Secret(text=make_secret()),)
    if present is not None and present.kind == "webhook" and present.url == callback.url:
        return replace(present, secrets=secrets)
    return _begun(Registered(kind="webhook", since_ms=0, url=callback.url, secrets=secrets), present, now_ms)


def made_secret(callback: Callback | None, before: Registered | None, after: Registered | None) -> str | None:
    """Give the secret that was made for a callback, if one was; it is shown this once."""
    if not isinstance(callback, Webhook) or callback.secret is not None or after is None:
        return None
    return None if before is not None and before.secrets else after.secrets[0].text


def rotate(present: Registered, *, now_ms: int, secret: str) -> Registered:
    """Sign with a new secret, and for a day with the present one as well."""
    before = tuple(replace(old, until_ms=now_ms + ROTATION_MS) for old in present.secrets[:1])
    return replace(present, secrets=(Secret(text=secret), *before))


def resume(present: Registered, *, now_ms: int) -> Registered:
    """Deliver again, all that is left, from the beginning; one that is on goes on as it is."""
    if present.state is State.ON:
        return present
    return _begun(replace(present, state=State.ON, error=None), present, now_ms)


def stop(present: Registered, state: State, error: str) -> Registered:
    """Deliver no more."""
    return replace(present, state=state, error=error)


def _begun(callback: Registered, before: Registered | None, now_ms: int) -> Registered:
    """Let a callback begin now, later than the one before it whatever the clock says."""
    return replace(callback, since_ms=max(now_ms, before.since_ms + 1 if before else 0))
