"""Knows how acks linger: gathered and folded for a moment, sent together, by one flow at a time."""

from typing import TYPE_CHECKING

from acker_client import calls, replies
from acker_client.errors import BufferFull
from acker_client.outbox import Outbox
from acker_client.steps import Alone, Aside, Flow, Hurry, Linger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from acker_protocol.operations import Operation

    from acker_client.exchange import Exchange
    from acker_client.folding import Gathered

    Take = Callable[[Gathered, Sequence[Operation]], None]


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
            yield Alone(flow=self.flush())

    def gather(self, take: "Take", messages: "Sequence[Operation]") -> Flow[None]:
        """Take acks in; they go out when they have lingered, or are many."""
        if self.outbox.gather(lambda gathered: take(gathered, messages)):
            yield from self._send_for_watcher()
        if self.outbox.due:
            yield Hurry()

    def overtake(self, messages: "Sequence[Operation]") -> Flow[None]:
        """Send first what is on its way for the roots of these operations, so that the order stays."""
        if self.outbox.holds(messages):
            yield Alone(flow=self.flush())

    def flush(self) -> Flow[None]:
        """Send all that was gathered up to now; what cannot be delivered is noted in the outbox. Only one at a time."""
        self.outbox.freeze(lambda messages: calls.write(self._exchange.topology, messages))
        if self.outbox.head() is None:
            return
        while shipment := self.outbox.head():
            since, shipment.since = shipment.since, shipment.since or self._exchange.terms.clock()
            try:
                reply = yield from self._exchange.send(shipment.call, since=since)
                replies.read_answers(shipment.call, reply)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next caller is told
                self.outbox.lost(shipment, error)
            else:
                self.outbox.home(shipment)
        yield from self._exchange.look_again()

    def _send_for_watcher(self) -> Flow[None]:
        """Begin to watch beside the program; where no thread can be begun, as at its end, send at once."""
        try:
            yield Aside(flow=self._watch())
        except RuntimeError:
            self.outbox.unwatch()
            yield Alone(flow=self.flush())

    def _watch(self) -> Flow[None]:
        """Send what has lingered until nothing is left."""
        try:
            while self.outbox.watch():
                yield Linger(seconds=self._linger_s)
                yield Alone(flow=self.flush())
        except BaseException:
            self.outbox.unwatch()
            raise


def _add(gathered: "Gathered", messages: "Sequence[Operation]") -> None:
    gathered.add(messages)


def _fold(gathered: "Gathered", messages: "Sequence[Operation]") -> None:
    gathered.fold(messages)
