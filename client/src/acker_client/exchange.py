"""Knows how a request is tried until it is answered: the one retry flow, a generator that does no I/O itself.

A flow yields what it wants done, a `Call` to send or a `Pause` to make; its driver (``sync.py``, ``aio.py``) does it
and sends back the reply, or None after a pause. What the flow returns is its result. The shape is that of httpx's
``auth_flow``.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from acker_protocol.problems import Problem

from acker_client import calls, replies
from acker_client.calls import Call
from acker_client.errors import AckerError, Unreachable, WrongAnswer
from acker_client.replies import Fault, Lost, Reply

if TYPE_CHECKING:
    from acker_client.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Do nothing for this long."""

    seconds: float


T = TypeVar("T")
Step = Call | Pause
Performed = Reply | Lost | None
Flow = Generator[Step, Performed, T]


class Exchange:
    """The exchange with one topology.

    The time for which the service remembers keys is asked once, before the first write that is sent again: until
    then nobody needs it.
    """

    def __init__(self, *, topology: str, terms: "Terms") -> None:
        self.topology = topology
        self.terms = terms
        self._limit_s = terms.retry_for_ms / 1000
        self._knows_window = False

    def send(self, call: Call) -> Flow[Reply]:
        """Send a request until it is answered.

        Raises the `Problem` or `WrongAnswer` that ends it, or `Unreachable` when its time is over.
        """
        return self._tries(call, since=self.terms.clock())

    def _tries(self, call: Call, *, since: float) -> Flow[Reply]:
        for wait in self.terms.waits():
            reply = yield call
            assert reply is not None, "a call is answered with a reply"
            fault = replies.fault_in(call, reply)
            if fault is None:
                assert isinstance(reply, Reply)
                return reply
            if not fault.again:
                raise fault.error
            yield from self._until_next(call, fault, since=since, wait=wait)
        raise AssertionError("waits never end")

    def _until_next(self, call: Call, fault: Fault, *, since: float, wait: float) -> Flow[None]:
        """Wait for the next try, and let none be made too late: the service might have forgotten the key."""
        pause = max(wait, fault.wait_s)
        self._refuse_late(call, fault, age_s=self._age_s(since) + pause)
        yield Pause(seconds=pause)
        if call.key is not None and not self._knows_window:
            yield from self._learn_window(call, since=since)
            self._refuse_late(call, fault, age_s=self._age_s(since))

    def _learn_window(self, call: Call, *, since: float) -> Flow[None]:
        try:
            reply = yield from self._tries(calls.read_topology(self.topology), since=since)
            self._limit_s = min(self._limit_s, _window_ms(reply) / 2000)
        except (AckerError, Problem) as fault:
            raise _unreachable(call) from fault
        self._knows_window = True

    def _age_s(self, since: float) -> float:
        return self.terms.clock() - since

    def _refuse_late(self, call: Call, fault: Fault, *, age_s: float) -> None:
        if age_s > self._limit_s:
            raise _unreachable(call) from fault.error


def _window_ms(reply: Reply) -> int:
    window = replies.document(reply).get("idempotency_window_ms")
    if not isinstance(window, int):
        raise WrongAnswer("a topology does not tell its idempotency_window_ms")
    return window


def _unreachable(call: Call) -> Unreachable:
    return Unreachable(f"what became of {call.method} {call.path} is not known, and it is too late to send it again")
