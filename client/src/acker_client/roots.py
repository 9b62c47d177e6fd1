"""The roots of a topology: reads one, waits until it is finished, or fails it by hand."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_protocol.operations import OperationState, Outcome
from acker_protocol.wire import fields

from acker_client._core import requests, responses, validate
from acker_client._core.effects import Sleep
from acker_client._core.mailbox import MIN_POLL_INTERVAL_S
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from acker_client._core.effects import Flow
    from acker_client._core.retry import RetrySession
    from acker_client.tuple import Run, RunAsync

_DAYS_MS = range(fields.TIMEOUT_MS.stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootInfo:
    """A root as the service has it.

    ``state`` is ``early`` (acks or a fail came, the init has not), ``pending`` or ``finished``; ``outcome`` is set once
    it is finished, and then only of one that failed or timed out more is known: the ``component`` and the ``reason``,
    if there were any. ``age`` is in seconds, ``deadline_at`` in Unix seconds.
    """

    root_id: str
    state: str
    outcome: Outcome | None = None
    spout_task: str | None = None
    message_id: str | None = None
    outstanding: int | None = None
    age: float | None = None
    deadline_at: float | None = None
    component: str | None = None
    reason: str | None = None


def get_root(session: "RetrySession", root_id: str, wait: float) -> "Flow[RootInfo]":
    """Read a root, by long polls until it is finished or ``wait`` seconds are over."""
    validate.checked("root_id", fields.identity, root_id)
    left_ms = validate.milliseconds("wait", wait, _DAYS_MS) or 0
    clock = session.config.clock
    until = clock.monotonic() + left_ms / 1000
    while True:
        began = clock.monotonic()
        wait_ms = min(left_ms, fields.WAIT_MS.stop - 1)
        request = requests.read_root(session.topology, root_id, wait_ms=wait_ms)
        root = _read_root((yield from session.send(request)))
        left_ms = max(0, validate.to_milliseconds(until - clock.monotonic()))
        if root.state == "finished" or not left_ms:
            return root
        yield Sleep(seconds=max(0.0, MIN_POLL_INTERVAL_S - (clock.monotonic() - began)))


def fail_root(session: "RetrySession", root_id: str, reason: str | None) -> "Flow[OperationState]":
    """Fail a root by hand."""
    validate.checked("root_id", fields.identity, root_id)
    validate.checked("reason", fields.reason, reason)
    request = requests.force_fail(session.topology, root_id, reason=reason)
    found = responses.document((yield from session.send(request)))
    try:
        return OperationState(found["state"])
    except (KeyError, ValueError) as error:
        raise InvalidResponse(f"the answer holds no state of a root: {error!r}") from None


class Roots:
    """The roots of the client's topology, as ``acker.roots``."""

    def __init__(self, session: "RetrySession", run: "Run") -> None:
        self._session = session
        self._run = run

    def get(self, root_id: str, *, wait: float = 0.0) -> RootInfo:
        """Read a root, once it is finished or ``wait`` seconds are over.

        Raises `UnknownRoot` for one that never was, or ended longer ago than the retention.
        """
        return self._run(get_root(self._session, root_id, wait))

    def fail(self, root_id: str, reason: str | None = None) -> OperationState:
        """Fail a root by hand; needs the scope ``admin``. The reason in its completion begins with ``forced``.

        Returns ``failed``, or ``finished`` for a root that had ended before. Raises `UnknownRoot`.
        """
        return self._run(fail_root(self._session, root_id, reason))


class AsyncRoots:
    """The roots of the client's topology, as ``acker.roots`` of an `AsyncAcker`."""

    def __init__(self, session: "RetrySession", run: "RunAsync") -> None:
        self._session = session
        self._run = run

    async def get(self, root_id: str, *, wait: float = 0.0) -> RootInfo:
        """Read a root, once it is finished or ``wait`` seconds are over. Raises `UnknownRoot`."""
        return await self._run(get_root(self._session, root_id, wait))

    async def fail(self, root_id: str, reason: str | None = None) -> OperationState:
        """Fail a root by hand, ``finished`` if it had ended before; see `Roots.fail`. Raises `UnknownRoot`."""
        return await self._run(fail_root(self._session, root_id, reason))


def _read_root(response: responses.Response) -> RootInfo:
    found = responses.document(response)
    try:
        return RootInfo(
            root_id=found["root_id"],
            state=found["state"],
            outcome=Outcome(found["outcome"]) if "outcome" in found else None,
            spout_task=found.get("spout_task"),
            component=found.get("component"),
            reason=found.get("reason"),
            message_id=found.get("message_id"),
            outstanding=found.get("outstanding"),
            age=responses.seconds(found.get("age_ms")),
            deadline_at=responses.seconds(found.get("deadline_at_ms")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponse(f"the answer holds no root: {error!r}") from None
