"""Knows how acks linger: gathered and folded for a moment, sent together, by one flow at a time."""

from typing import TYPE_CHECKING

from acker_protocol.errors import known
from acker_protocol.operations import NOT_ADMITTED

from acker_client import calls, replies
from acker_client.errors import BufferFull
from acker_client.outbox import Outbox
from acker_client.placing import write_again
from acker_client.steps import Alone, Aside, Flow, Hurry, Linger, Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from acker_protocol.operations import Operation

    from acker_client.calls import Answer
    from acker_client.exchange import Exchange
    from acker_client.folding import Gathered
    from acker_client.outbox import Shipment

    Take = Callable[[Gathered, Sequence[Operation]], None]

REFUSED_PAUSE_S = 0.05
"""Seconds between two looks at refused requests; an ack that is gathered meanwhile may linger this much longer."""


class Lingering:
    """The acks of one acker between the program and the wire."""

    def __init__(self, exchange: "Exchange") -> None:
        terms = exchange.terms
        self._exchange = exchange
        self._linger_s = terms.linger_ms / 1000
        self.outbox = Outbox(batch_size=terms.batch_size, buffer_size=terms.buffer_size)

    @property
    def on(self) -> bool:
        """Whether acks linger; if not, each goes out by itself and is answered."""
        return self._linger_s > 0

    def end(self) -> None:
        """Let none linger any more: the program ends, or the acker is closed."""
        self._linger_s = 0.0

    def way_in(self) -> "Flow[Take]":
        """Say how acks are taken in: folded, but by themselves where the topology dedupes, which goes by the edge."""
        if not self.on:
            return _add
        facts = yield from self._exchange.facts()
        return _add if facts.dedupes else _fold

    def make_room(self) -> Flow[None]:
        """Wait for room. Raises `BufferFull` where that is the choice."""
        while self.outbox.full:
            if self._exchange.terms.when_full == "raise":
                raise BufferFull(f"{len(self.outbox)} operations are on their way, and more are not taken in")
            yield Alone(flow=self.send_due())
            if self.outbox.full:
                yield from self._wait_until_due()

    def gather(self, take: "Take", messages: "Sequence[Operation]") -> Flow[None]:
        """Take acks in; they go out when they have lingered, or are many."""
        if self.outbox.gather(lambda gathered: take(gathered, messages)):
            yield from self._send_for_watcher()
        if self.outbox.due:
            yield Hurry()

    def overtake(self, messages: "Sequence[Operation]") -> Flow[None]:
        """Send first what is on its way for the roots of these operations, so that the order stays."""
        if self.outbox.holds(messages):
            yield Alone(flow=self.send_due())

    def flush(self) -> Flow[None]:
        """Send all that was gathered, and what is refused again until it is taken; others may send meanwhile."""
        yield Alone(flow=self.send_due())
        while self.outbox.next_due() is not None:
            yield from self._wait_until_due()
            yield Alone(flow=self.send_due())

    def send_due(self) -> Flow[None]:
        """Send all that was gathered up to now, and of what was refused all that is due. Only one at a time.

        What cannot be delivered is noted in the outbox.
        """
        clock = self._exchange.terms.clock
        self.outbox.freeze(lambda messages: calls.write(self._exchange.topology, messages))
        if self.outbox.head(clock()) is None:
            return
        while shipment := self.outbox.head(clock()):
            since, shipment.since = shipment.since, shipment.since or clock()
            try:
                reply = yield from self._exchange.send(shipment.call, since=since)
                answers = replies.read_answers(shipment.call, reply)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next caller is told
                self.outbox.lost(shipment, error)
            else:
                self._settle(shipment, answers, asked_s=replies.wait_s(reply))
        yield from self._exchange.look_again()

    def _settle(self, shipment: "Shipment", answers: "Sequence[Answer]", *, asked_s: float) -> None:
        """Strike out a request that was answered, and send again in time what it refused: nothing of that was applied.

        What is refused for longer than a request is tried is given up.
        """
        refused = [answer for answer in answers if answer.word in NOT_ADMITTED]
        if not refused:
            self.outbox.home(shipment)
            return
        now = self._exchange.terms.clock()
        shipment.waits = shipment.waits or self._exchange.terms.waits()
        due = now + max(next(shipment.waits), asked_s)
        if due - (shipment.since or now) > self._exchange.limit_s():
            error = known()[refused[0].word](f"{len(refused)} operations were refused, up to the end of their time")
            self.outbox.lost(shipment, error, count=len(refused))
            return
        messages = [answer.message for answer in refused]
        again = write_again(self._exchange.topology, [shipment.call], messages)
        self.outbox.refused(shipment, again, due=due)

    def _send_for_watcher(self) -> Flow[None]:
        """Begin to watch beside the program; where no thread can be begun, as at its end, send at once."""
        try:
            yield Aside(flow=self._watch())
        except RuntimeError:
            self.outbox.unwatch()
            yield from self.flush()

    def _wait_until_due(self) -> Flow[None]:
        """Wait until what was refused may be sent again; not at all where nothing was."""
        due = self.outbox.next_due()
        if due is not None:
            yield Pause(seconds=max(0.0, due - self._exchange.terms.clock()))

    def _watch(self) -> Flow[None]:
        """Send what has lingered until nothing is left."""
        try:
            while self.outbox.watch():
                yield Linger(seconds=self._linger_s)
                yield Alone(flow=self.send_due())
                yield from self._pause_for_refused()
        except BaseException:
            self.outbox.unwatch()
            raise

    def _pause_for_refused(self) -> Flow[None]:
        """Pause while only refused requests are left: a client that closes lingers no time, and would spin."""
        due = self.outbox.next_due()
        if due is None or self.outbox.has_gathered:
            return
        seconds = min(due - self._exchange.terms.clock(), REFUSED_PAUSE_S)
        if seconds > 0:
            yield Pause(seconds=seconds)


def _add(gathered: "Gathered", messages: "Sequence[Operation]") -> None:
    gathered.add(messages)


def _fold(gathered: "Gathered", messages: "Sequence[Operation]") -> None:
    gathered.fold(messages)
