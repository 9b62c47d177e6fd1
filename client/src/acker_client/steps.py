"""Knows the steps that a flow may ask of its driver.

A flow is a generator that does no I/O. It yields a step; the driver does it and sends back the reply to a `Call`, what
a `Work` gave, None for all others. What the flow returns is its result. The shape is that of httpx's ``auth_flow``.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from acker_client.calls import Call
from acker_client.replies import Lost, Reply

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Do nothing for this long."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Linger:
    """Do nothing for this long, unless somebody is in a hurry."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hurry:
    """Let whoever lingers go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Perform this flow to its end, once no other such one is being performed."""

    flow: "Flow[None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """Begin to perform this flow beside the program."""

    flow: "Flow[None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Do this, await it if it is awaitable, and send back what it gave."""

    do: Callable[[], Any]


Step = Call | Pause | Linger | Hurry | Alone | Aside | Work
Performed = Reply | Lost | Any
Flow = Generator[Step, Performed, T]


def resume(flow: Flow[T], performed: "Performed | Exception") -> Step:
    """Go on with a flow after a step; what the step raised is raised in the flow, which may know what to do."""
    return flow.throw(performed) if isinstance(performed, Exception) else flow.send(performed)
