"""The effects that a flow asks its driver to run.

A flow is a generator that does no I/O. It yields an effect; the driver runs it and sends back the result: the response
to a `Request`, the value of a `RunBlocking`, None for all others. The flow's return value is its result. The shape is
that of httpx's ``auth_flow``.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from acker_client._core.requests import Request
from acker_client._core.responses import NoResponse, Response
from acker_client._core.waiters import Waiter

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Wait for this long."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFlush:
    """Wait for this long, or until a `WakeFlush`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WakeFlush:
    """End the wait of a `WaitFlush`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTurn:
    """Wait until this waiter has the turn to send, or all that it waits for is settled."""

    waiter: Waiter


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """Start this flow in the background: in a thread, or in a task.

    ``at_end`` makes the flow that is run where the task is cancelled, as at the end of its event loop.
    """

    flow: "Flow[None]"
    at_end: "Callable[[], Flow[None]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBlocking:
    """Call this function, await what it gives if that is awaitable, and send back the value."""

    function: Callable[[], Any]


Effect = Request | Sleep | WaitFlush | WakeFlush | WaitTurn | Spawn | RunBlocking
EffectResult = Response | NoResponse | Any
Flow = Generator[Effect, EffectResult, T]

Remaining = Flow[T] | None
"""What is left of something that was begun without an effect: a flow, or None where nothing is."""


def advance(flow: Flow[T], result: "EffectResult | Exception") -> Effect:
    """Resume a flow with the result of an effect. What the effect raised is raised in the flow, which may handle it."""
    return flow.throw(result) if isinstance(result, Exception) else flow.send(result)


def finish(remaining: Remaining[T]) -> "Flow[T | None]":
    """Do within a flow what is left, and give its result; None if nothing is."""
    return None if remaining is None else (yield from remaining)
