"""Knows a callback as it is registered: where it leads, with which secrets, whether it is on, since when.

A callback is ``on``; ``paused`` after nothing was delivered for long; ``off`` after its receiver said that it is gone.
Paused or off it stays until it is resumed or led elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from acker_service.topologies.callback import Callback, Webhook

ROTATION_MS = 86_400_000
"""For so long after a rotation the secret before it signs too."""


class CallbackStatus(StrEnum):
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
class RegisteredCallback:
    """A callback that is registered.

    ``since_ms`` rises whenever delivery has to begin anew; ``error`` is why it is not on.
    """

    kind: str
    callback_epoch_ms: int
    url: str | None = None
    secrets: tuple[Secret, ...] = ()
    state: CallbackStatus = CallbackStatus.ON
    error: str | None = None

    @property
    def owns_mailbox(self) -> bool:
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
        members = {"kind": self.kind, "since_ms": self.callback_epoch_ms, "url": self.url, "secrets": secrets}
        return members | {"state": self.state.value, "error": self.error}


def decode_registered(document: dict[str, Any]) -> RegisteredCallback:
    """Read it as it is kept; what a later release knows of it is passed over."""
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
    """Register a callback in the place of the present one: the same one changes nothing, its state neither.

    A webhook without a secret keeps the present one; where there is none, one is made.
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
    """Give the secret that was made for a callback, if one was; it is shown this once."""
    if not isinstance(callback, Webhook) or callback.secret is not None or after is None:
        return None
    return None if before is not None and before.secrets else after.secrets[0].text


def rotate(present: RegisteredCallback, *, now_ms: int, secret: str) -> RegisteredCallback:
    """Sign with a new secret, and for a day with the present one as well."""
    before = tuple(replace(old, until_ms=now_ms + ROTATION_MS) for old in present.secrets[:1])
    return replace(present, secrets=(Secret(text=secret), *before))


def resume(present: RegisteredCallback, *, now_ms: int) -> RegisteredCallback:
    """Deliver again, all that is left, from the beginning; one that is on goes on as it is."""
    if present.state is CallbackStatus.ON:
        return present
    return _restarted(replace(present, state=CallbackStatus.ON, error=None), present, now_ms)


def deactivate(present: RegisteredCallback, state: CallbackStatus, error: str) -> RegisteredCallback:
    """Deliver no more."""
    return replace(present, state=state, error=error)


def _restarted(callback: RegisteredCallback, before: RegisteredCallback | None, now_ms: int) -> RegisteredCallback:
    """Let a callback begin now, later than the one before it whatever the clock says."""
    return replace(callback, callback_epoch_ms=max(now_ms, before.callback_epoch_ms + 1 if before else 0))
