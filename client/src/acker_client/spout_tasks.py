"""Knows a spout task in this process: whether it is registered, its free places, the roots it waits for."""

from typing import TYPE_CHECKING

from acker_protocol.errors import MaxSpoutPending, NotFound, ServiceError, UnknownSpout
from acker_protocol.operations import Outcome

from acker_client import calls, replies
from acker_client.errors import AckerError, Misuse
from acker_client.pending import GRACE_S, Pending
from acker_client.places import Places
from acker_client.steps import Flow, Pause

if TYPE_CHECKING:
    from acker_client.exchange import Exchange
    from acker_client.roots import Root


class SpoutTask:
    """One name of one acker. ``own`` is one that no other process has; ``receives`` once completions are read here."""

    def __init__(self, exchange: "Exchange", *, name: str, own: bool) -> None:
        self.name = name
        self.own = own
        self.receives = own
        self.registered = not own
        self.pending = Pending()
        self._is_parents = False
        self._exchange = exchange
        self._places = Places()

    def leave_to_parent(self) -> None:
        """Be the child's copy after a fork: its roots are the parent's, and so is a name of its own."""
        self.pending = Pending()
        self._is_parents = self.own

    def refuse_parents(self) -> None:
        """Raise `Misuse` for a name that is the parent's: one name has one reader."""
        if self._is_parents:
            raise Misuse(f"{self.name} is the spout task of the process that was forked; take a spout after the fork")

    def enter(self) -> Flow[None]:
        """Wait for a free place, where the topology has a cap. Raises `MaxSpoutPending` when the time is over."""
        terms = self._exchange.terms
        since, waits = terms.clock(), terms.waits()
        yield from self.register()
        while not (yield from self._takes_place()):
            if terms.clock() - since >= terms.place_for_ms / 1000:
                raise MaxSpoutPending(f"{self.name} has as many roots pending as it may, and none has ended in time")
            yield Pause(seconds=next(waits))

    def register(self) -> Flow[None]:
        """Say once that a name of this process alone is ephemeral: nobody will read it when the process is gone."""
        yield from self._exchange.facts()
        yield from self._exchange.look_again()
        if not self.registered:
            yield from self._exchange.send(calls.make_ephemeral(self._exchange.topology, self.name))
            self.registered = True

    def max_pending(self) -> Flow[int | None]:
        """Ask how many roots the topology lets this spout task have pending, None where it sets no bound."""
        facts = yield from self._exchange.facts()
        return facts.max_spout_pending

    def hold(self, root: "Root") -> None:
        """Hold a root that is about to be placed, before its completion can come."""
        facts = self._exchange.known
        assert facts is not None, "register() asked for them"
        if self.receives and root.tracked:
            timeout_s = (root.message_timeout_ms or facts.message_timeout_ms) / 1000
            self.pending.hold(root, now_s=self._exchange.terms.clock(), timeout_s=timeout_s)

    def leave(self) -> None:
        """Let a root out of the hand."""
        self._places.leave()

    def look(self) -> Flow[None]:
        """Ask the service about every root that nothing was told about by its deadline and a grace."""
        while root_id := self.pending.overdue(self._exchange.terms.clock()):
            yield from self._ask(root_id)

    def _ask(self, root_id: str) -> Flow[None]:
        now_s = self._exchange.terms.clock()
        try:
            reply = yield from self._exchange.send(calls.read_root(self._exchange.topology, root_id))
            found = replies.document(reply)
        except NotFound:
            self.pending.suspect(root_id, Outcome.TIMED_OUT)
        except (AckerError, ServiceError):
            self.pending.ask_again(root_id, at_s=now_s + GRACE_S)
        else:
            self._believe(root_id, found)

    def _believe(self, root_id: str, found: dict[str, object]) -> None:
        """Go by the answer. An early root is one whose init the store has lost, and acks came after that."""
        terms = self._exchange.terms
        match found:
            case {"state": "finished", "outcome": str(outcome)}:
                self.pending.suspect(root_id, Outcome(outcome))
            case {"state": "pending", "deadline_at_ms": int(deadline_ms)}:
                self.pending.moved(root_id, left_s=deadline_ms / 1000 - terms.wall(), now_s=terms.clock())
            case _:
                self.pending.suspect(root_id, Outcome.TIMED_OUT)

    def _takes_place(self) -> Flow[bool]:
        facts = yield from self._exchange.facts()
        if facts.max_spout_pending is None or self._places.take():
            return True
        self._places.learn(facts.max_spout_pending - (yield from self._count()))
        return self._places.take()

    def _count(self) -> Flow[int]:
        try:
            reply = yield from self._exchange.send(calls.read_spout(self._exchange.topology, self.name))
        except UnknownSpout:
            return 0
        return int(replies.document(reply).get("pending", 0))
