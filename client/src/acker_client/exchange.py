"""Knows how a request is tried until it is answered: the one retry flow, for every driver."""

from typing import TYPE_CHECKING

from acker_protocol.errors import ServiceError

from acker_client import calls, replies
from acker_client.errors import AckerError, Unreachable
from acker_client.facts import Facts, read_facts
from acker_client.replies import Fault, Reply
from acker_client.steps import Flow, Pause

if TYPE_CHECKING:
    from acker_client.calls import Call
    from acker_client.terms import Terms

FACTS_AGE_S = 60.0
"""After this long the topology's facts are asked again: somebody may have changed it."""


class Exchange:
    """The exchange with one topology, whose facts are asked when they are first needed."""

    def __init__(self, *, topology: str, terms: "Terms") -> None:
        self.topology = topology
        self.terms = terms
        self.known: Facts | None = None
        self._asked_s = 0.0

    def send(self, call: "Call", *, since: float | None = None) -> Flow[Reply]:
        """Send a request until it is answered; ``since`` is when it was first sent, if that was before.

        Raises the `Problem` or `WrongAnswer` that ends it, or `Unreachable` when its time is over.
        """
        now = self.terms.clock()
        if since is not None and now - since > self.limit_s():
            raise _unreachable(call)
        return self._tries(call, since=now if since is None else since)

    def facts(self) -> Flow[Facts]:
        """Ask the topology for its facts, unless they are known."""
        if self.known is None:
            self._learn((yield from self.send(calls.read_topology(self.topology))))
        assert self.known is not None
        return self.known

    def look_again(self) -> Flow[None]:
        """Ask for facts that are old once more; where no answer comes, the old ones hold on."""
        if self.known is None or self.terms.clock() - self._asked_s < FACTS_AGE_S:
            return
        call = calls.read_topology(self.topology)
        self._asked_s = self.terms.clock()
        reply = yield call
        assert reply is not None, "a call is answered with a reply"
        if isinstance(reply, Reply) and replies.fault_in(call, reply) is None:
            self._learn(reply)

    def _tries(self, call: "Call", *, since: float) -> Flow[Reply]:
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

    def _until_next(self, call: "Call", fault: Fault, *, since: float, wait: float) -> Flow[None]:
        """Wait for the next try, and let none be made too late: the service might have forgotten the key."""
        pause = max(wait, fault.wait_s)
        self._refuse_late(call, fault, age_s=self._age_s(since) + pause)
        yield Pause(seconds=pause)
        if call.key is not None and self.known is None:
            yield from self._learn_window(call, since=since)
            self._refuse_late(call, fault, age_s=self._age_s(since))

    def _learn_window(self, call: "Call", *, since: float) -> Flow[None]:
        try:
            self._learn((yield from self._tries(calls.read_topology(self.topology), since=since)))
        except (AckerError, ServiceError) as fault:
            raise _unreachable(call, fault) from fault

    def _learn(self, reply: Reply) -> None:
        self.known = read_facts(reply)
        self._asked_s = self.terms.clock()

    def limit_s(self) -> float:
        """Give the seconds after which a request is not sent again."""
        wanted = self.terms.retry_for_ms / 1000
        return wanted if self.known is None else min(wanted, self.known.retry_s)

    def _age_s(self, since: float) -> float:
        return self.terms.clock() - since

    def _refuse_late(self, call: "Call", fault: Fault, *, age_s: float) -> None:
        if age_s > self.limit_s():
            raise _unreachable(call, fault.error, fault.nobody_at) from fault.error


def _unreachable(call: "Call", fault: Exception | None = None, nobody_at: str = "") -> Unreachable:
    where = f"no acker answers at {nobody_at}: " if nobody_at else ""
    said = f" ({where}{fault})" if fault else ""
    return Unreachable(
        f"what became of {call.method} {call.path} is not known, and it is too late to send it again{said}"
    )
