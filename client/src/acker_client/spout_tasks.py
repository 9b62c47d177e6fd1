"""The spout tasks of a topology: reads and deletes them, and acts on their callbacks and dead letters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from acker_protocol import routes
from acker_protocol.signature import secret_key

from acker_client._core import requests, responses, validate
from acker_client._core.dead_letters import act_on_dead_letters, chosen_dead_letters, list_dead_letters
from acker_client._core.retry import send_once
from acker_client.completions import DeadLetter
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from acker_client._core.effects import Flow
    from acker_client._core.responses import Response
    from acker_client._core.retry import RetrySession
    from acker_client.tuple import Run, RunAsync

T = TypeVar("T")

CallbackState = Literal["on", "paused", "off"]
"""Whether a callback delivers; off: its receiver answered that it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """Where the completions of a spout task are delivered: the ``kind`` is ``webhook`` or ``pubsub``.

    ``attempt`` counts the tries of what a webhook gets next, ``error`` says how the last one failed, and
    ``next_attempt_at`` when the next one comes; times are in Unix seconds. ``secret`` is None, except in the answer to
    the call that made the acker draw one.
    """

    kind: Literal["webhook", "pubsub"]
    state: CallbackState
    url: str | None = None
    attempt: int | None = None
    error: str | None = None
    next_attempt_at: float | None = None
    last_delivered_at: float | None = None
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoutTaskInfo:
    """A spout task as the service has it; times in Unix seconds, None for never.

    Readers pull its completions where ``callback`` is None. The service deletes an ``ephemeral`` one that is unused.
    ``pending`` roots have not ended, ``unread`` completions are neither released nor delivered.
    """

    name: str
    callback: Callback | None
    ephemeral: bool
    pending: int
    unread: int
    dead_letters: int
    oldest_unread_at: float | None
    last_read_at: float | None
    last_emit_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTest:
    """What came of a test message after ``took`` seconds; ``status`` is None without a whole answer."""

    delivered: bool
    status: int | None
    error: str | None
    took: float


def list_spouts(session: "RetrySession") -> "Flow[tuple[SpoutTaskInfo, ...]]":
    """Read all spout tasks."""
    response = yield from session.send(requests.list_spouts(session.topology))
    return _read(response, "spout tasks", lambda found: tuple(_spout(one) for one in found["spouts"]))


def get_spout(session: "RetrySession", name: str) -> "Flow[SpoutTaskInfo]":
    """Read a spout task."""
    return _read((yield from session.send(requests.read_spout(session.topology, _name(name)))), "spout task", _spout)


def delete_spout(session: "RetrySession", name: str, *, discard: bool) -> "Flow[None]":
    """Delete a spout task."""
    yield from session.send(requests.delete_spout(session.topology, _name(name), discard=discard))


def set_webhook(session: "RetrySession", name: str, url: str, secret: str | None) -> "Flow[Callback]":
    """Set a webhook, with a secret or without one."""
    validate.instance("url", url, str, "a string")
    validate.checked("secret", secret_key, secret)
    own = {} if secret is None else {"secret": secret}
    return (yield from _set_callback(session, name, {"kind": "webhook", "url": url} | own))


def set_pubsub(session: "RetrySession", name: str) -> "Flow[Callback]":
    """Have completions published."""
    return (yield from _set_callback(session, name, {"kind": "pubsub"}))


def remove_callback(session: "RetrySession", name: str) -> "Flow[None]":
    """Have completions delivered nowhere."""
    yield from session.send(requests.set_callback(session.topology, _name(name), None))


def change_state(session: "RetrySession", name: str, path: Callable[[str, str], str]) -> "Flow[CallbackState]":
    """Pause or resume a callback, by the path of that act."""
    request = requests.act_on_spout(path(session.topology, _name(name)))
    state: CallbackState = _read((yield from session.send(request)), "state", lambda found: found["state"])
    return state


def test_webhook(session: "RetrySession", name: str) -> "Flow[WebhookTest]":
    """Test a webhook."""
    path = routes.webhook_test(session.topology, _name(name))
    request = requests.act_on_spout(path, wait_s=requests.WEBHOOK_TIMEOUT_S)
    return _read((yield from session.send(request)), "result of a test", _test)


def rotate_secret(session: "RetrySession", name: str) -> "Flow[str]":
    """Rotate the secret of a webhook. Only the last two secrets sign, so this is sent once."""
    request = requests.act_on_spout(routes.rotate(session.topology, _name(name)))
    secret: str = _read((yield from send_once(request)), "secret", lambda found: found["secret"])
    return secret


class SpoutTasks:
    """The spout tasks of the client's topology, as ``acker.spouts``; its calls need the scope ``spout``."""

    def __init__(self, session: "RetrySession", run: "Run") -> None:
        self._session = session
        self._run = run

    def list(self) -> tuple[SpoutTaskInfo, ...]:
        """List all spout tasks, by their names."""
        return self._run(list_spouts(self._session))

    def get(self, name: str) -> SpoutTaskInfo:
        """Read a spout task. Raises `UnknownSpout`."""
        return self._run(get_spout(self._session, name))

    def delete(self, name: str, *, discard: bool = False) -> None:
        """Delete a spout task. Raises `SpoutBusy`, and `UnknownSpout` at a first attempt.

        With ``discard`` (scope ``admin``) it is deleted at once, and what is unread or pending is lost. A repeat that
        finds none, after a lost answer or a failure of the service, means that it is deleted.
        """
        self._run(delete_spout(self._session, name, discard=discard))

    def set_webhook(self, name: str, url: str, *, secret: str | None = None) -> Callback:
        """Have completions posted to a URL; creates the spout task if there is none.

        Without a ``secret`` the present one stays; where there is none, the acker makes one, which only this call
        returns.
        """
        return self._run(set_webhook(self._session, name, url, secret))

    def set_pubsub(self, name: str) -> Callback:
        """Have completions published in Redis; creates the spout task if there is none."""
        return self._run(set_pubsub(self._session, name))

    def remove_callback(self, name: str) -> None:
        """Let a reader pull the completions, and deliver them nowhere."""
        self._run(remove_callback(self._session, name))

    def pause_callback(self, name: str) -> CallbackState:
        """Deliver nothing until it is resumed; the completions wait. Returns the state, ``off`` for one that is off."""
        return self._run(change_state(self._session, name, routes.pause))

    def resume_callback(self, name: str) -> CallbackState:
        """Deliver again, at once, whatever waits. Returns the state."""
        return self._run(change_state(self._session, name, routes.resume))

    def test_webhook(self, name: str) -> WebhookTest:
        """Post one signed message without completions to the webhook, and tell what came of it."""
        return self._run(test_webhook(self._session, name))

    def rotate_secret(self, name: str) -> str:
        """Make a new secret for a webhook, and return it; for a day the one before it signs, too.

        Sent once: a second rotation would end the secret that receivers know. Raises `RetriesExhausted` where the
        answer is lost; then `set_webhook` with a secret of your own.
        """
        return self._run(rotate_secret(self._session, name))

    def dead_letters(
        self,
        name: str,
        *,
        error: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 100,
    ) -> tuple[DeadLetter, ...]:
        """List completions that could not be delivered, at most ``limit``.

        ``error`` chooses those whose error contains it, ``since`` and ``until`` (Unix seconds) by the time of the last
        attempt.
        """
        chosen = chosen_dead_letters(error, since, until)
        return self._run(list_dead_letters(self._session, name, limit, chosen))

    def replay_dead_letters(
        self, name: str, *, error: str | None = None, since: float | None = None, until: float | None = None
    ) -> int:
        """Deliver dead letters again, all or those that `dead_letters` would list; returns how many they are."""
        chosen = chosen_dead_letters(error, since, until)
        return self._run(act_on_dead_letters(self._session, name, "replay", chosen))

    def discard_dead_letters(
        self, name: str, *, error: str | None = None, since: float | None = None, until: float | None = None
    ) -> int:
        """Delete dead letters likewise (scope ``admin``); returns how many they were."""
        chosen = chosen_dead_letters(error, since, until)
        return self._run(act_on_dead_letters(self._session, name, "discard", chosen))


class AsyncSpoutTasks:
    """The spout tasks of the client's topology, as ``acker.spouts`` of an `AsyncAcker`; see `SpoutTasks`."""

    def __init__(self, session: "RetrySession", run: "RunAsync") -> None:
        self._session = session
        self._run = run

    async def list(self) -> tuple[SpoutTaskInfo, ...]:
        """List all spout tasks, by their names."""
        return await self._run(list_spouts(self._session))

    async def get(self, name: str) -> SpoutTaskInfo:
        """Read a spout task. Raises `UnknownSpout`."""
        return await self._run(get_spout(self._session, name))

    async def delete(self, name: str, *, discard: bool = False) -> None:
        """Delete a spout task. Raises `UnknownSpout`, `SpoutBusy`.

        With ``discard`` (scope ``admin``) it is deleted at once, and what is unread or pending is lost.
        """
        await self._run(delete_spout(self._session, name, discard=discard))

    async def set_webhook(self, name: str, url: str, *, secret: str | None = None) -> Callback:
        """Have completions posted to a URL; creates the spout task if there is none.

        Without a ``secret`` the present one stays; where there is none, the acker makes one, which only this call
        returns.
        """
        return await self._run(set_webhook(self._session, name, url, secret))

    async def set_pubsub(self, name: str) -> Callback:
        """Have completions published in Redis; creates the spout task if there is none."""
        return await self._run(set_pubsub(self._session, name))

    async def remove_callback(self, name: str) -> None:
        """Let a reader pull the completions, and deliver them nowhere."""
        await self._run(remove_callback(self._session, name))

    async def pause_callback(self, name: str) -> CallbackState:
        """Deliver nothing until it is resumed; the completions wait. Returns the state, ``off`` for one that is off."""
        return await self._run(change_state(self._session, name, routes.pause))

    async def resume_callback(self, name: str) -> CallbackState:
        """Deliver again, at once, whatever waits. Returns the state."""
        return await self._run(change_state(self._session, name, routes.resume))

    async def test_webhook(self, name: str) -> WebhookTest:
        """Post one signed message without completions to the webhook, and tell what came of it."""
        return await self._run(test_webhook(self._session, name))

    async def rotate_secret(self, name: str) -> str:
        """Make a new secret for a webhook, and return it; for a day the one before it signs, too.

        Sent once: a second rotation would end the secret that receivers know. Raises `RetriesExhausted` where the
        answer is lost; then `set_webhook` with a secret of your own.
        """
        return await self._run(rotate_secret(self._session, name))

    async def dead_letters(
        self,
        name: str,
        *,
        error: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 100,
    ) -> tuple[DeadLetter, ...]:
        """List completions that could not be delivered, at most ``limit``.

        ``error`` chooses those whose error contains it, ``since`` and ``until`` (Unix seconds) by the time of the last
        attempt.
        """
        chosen = chosen_dead_letters(error, since, until)
        return await self._run(list_dead_letters(self._session, name, limit, chosen))

    async def replay_dead_letters(
        self, name: str, *, error: str | None = None, since: float | None = None, until: float | None = None
    ) -> int:
        """Deliver dead letters again, all or those that `dead_letters` would list; returns how many they are."""
        chosen = chosen_dead_letters(error, since, until)
        return await self._run(act_on_dead_letters(self._session, name, "replay", chosen))

    async def discard_dead_letters(
        self, name: str, *, error: str | None = None, since: float | None = None, until: float | None = None
    ) -> int:
        """Delete dead letters likewise (scope ``admin``); returns how many they were."""
        chosen = chosen_dead_letters(error, since, until)
        return await self._run(act_on_dead_letters(self._session, name, "discard", chosen))


def _name(name: str) -> str:
    return validate.name("the spout task's name", name)


def _set_callback(session: "RetrySession", name: str, callback: dict[str, Any]) -> "Flow[Callback]":
    request = requests.set_callback(session.topology, _name(name), callback)
    return _read((yield from session.send(request)), "callback", lambda found: _callback(found["callback"]))


def _read(response: "Response", what: str, read: Callable[[dict[str, Any]], T]) -> T:
    found = responses.document(response)
    try:
        return read(found)
    except (KeyError, TypeError) as error:
        raise InvalidResponse(f"the answer holds no {what}: {error!r}") from None


def _spout(found: Mapping[str, Any]) -> SpoutTaskInfo:
    callback = found.get("callback")
    return SpoutTaskInfo(
        name=found["spout_task"],
        callback=None if callback is None else _callback(callback),
        ephemeral=found["ephemeral"],
        pending=found["pending"],
        unread=found["unread"],
        dead_letters=found.get("dead_letters", 0),
        oldest_unread_at=responses.seconds(found.get("oldest_unread_at_ms")),
        last_read_at=responses.seconds(found.get("last_read_at_ms")),
        last_emit_at=responses.seconds(found.get("last_emit_at_ms")),
    )


def _callback(found: Mapping[str, Any]) -> Callback:
    return Callback(
        kind=found["kind"],
        state=found["state"],
        url=found.get("url"),
        attempt=found.get("attempt"),
        error=found.get("error"),
        next_attempt_at=responses.seconds(found.get("next_attempt_at_ms")),
        last_delivered_at=responses.seconds(found.get("last_delivered_at_ms")),
        secret=found.get("secret"),
    )


def _test(found: Mapping[str, Any]) -> WebhookTest:
    return WebhookTest(
        delivered=found["delivered"], status=found["status"], error=found["error"], took=found["took_ms"] / 1000
    )
